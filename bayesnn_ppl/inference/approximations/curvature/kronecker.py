r"""Kronecker-factored curvature (KFAC) of dense and convolutional layers.

A layer that multiplies inputs a, with a one appended if it has a bias, by a matrix W has
∂u/∂W = Σ_t a_t g_tᵀ, with g_t the derivative of u in the layer's output at place t. Its block of
M is taken as if a and g were independent, and places uncorrelated:

    M ≈ (Σ_{n,t} a aᵀ) ⊗ (Σ_{n,t,r} g gᵀ) / (number of pairs n, t)

over rows n, places t and the columns r of a root of the Fisher information (no labels are drawn).
It is exact for one row of a dense layer, and for rows that all have the same g gᵀ: linear models
with Gaussian noise.

References:
    Martens and Grosse (2015), arXiv:1503.05671; Grosse and Martens (2016), arXiv:1602.01407, for
    convolutions; Ritter, Botev and Barber (2018) for Laplace approximations with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.approximations.curvature.diagonal import DiagonalCurvature
from bayesnn_ppl.inference.approximations.curvature.layers import Call, layer_input, layers_watched
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, Point, Rows

__all__ = [
    "KroneckerCurvature",
    "KroneckerLayer",
    "LayerFactors",
    "factored_curvature",
    "kronecker_curvature",
    "layer_factors",
    "layer_vectors",
]


class KroneckerLayer(NamedTuple):
    """A layer whose block is factored.

    Attributes:
        call: how the network calls it.
        begin, end: its part of the vector: the kernel row by row, then the bias.
        outputs: columns of its matrix.
        kernel, bias: which of the two are moved.
    """

    call: Call
    begin: int
    end: int
    outputs: int
    kernel: bool
    bias: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Of its matrix: inputs, the bias's among them, and outputs."""
        return (self.end - self.begin) // self.outputs, self.outputs


@partial(
    jax.tree_util.register_dataclass, data_fields=["inputs", "gradients"], meta_fields=["parts"]
)
@dataclass(frozen=True)
class KroneckerCurvature:
    """Eigenvalues and eigenvectors of both factors of each layer; methods as `DenseCurvature`.

    Factors of the prior's precision must be one number in each layer.
    """

    inputs: tuple[tuple[Any, Any], ...]
    gradients: tuple[tuple[Any, Any], ...]
    parts: tuple[tuple[int, int], ...]

    def _layers(self, factors: Any, noise: Any) -> Any:
        """Part, precision in the eigenvectors' coordinates (in, out), and both bases."""
        every = zip(self.parts, self.inputs, self.gradients, strict=True)
        for (begin, end), (alpha, left), (gamma, right) in every:
            precision = noise * alpha[:, None] * gamma + factors[begin]
            yield slice(begin, end), precision, left, right

    def log_determinant(self, factors: Any, noise: Any) -> Any:
        """log |P|."""
        return sum(jnp.log(p).sum() for _, p, _, _ in self._layers(factors, noise))

    def solve(self, factors: Any, noise: Any, vector: Any) -> Any:
        """P⁻¹ v."""
        return jnp.concatenate(
            [
                (left @ ((left.T @ vector[part].reshape(p.shape) @ right) / p) @ right.T).ravel()
                for part, p, left, right in self._layers(factors, noise)
            ]
        )

    def sample(self, factors: Any, noise: Any, normals: Any) -> Any:
        """Draws (S, d) of N(0, P⁻¹) from standard normals (S, d)."""
        count = len(normals)
        return jnp.concatenate(
            [
                (
                    left @ ((normals[:, part].reshape(count, *p.shape) / jnp.sqrt(p)) @ right.T)
                ).reshape(count, -1)
                for part, p, left, right in self._layers(factors, noise)
            ],
            axis=1,
        )

    def spectrum(self) -> DiagonalCurvature:
        """M in the coordinates of its eigenvectors, where one factor holds for each layer."""
        pairs = zip(self.inputs, self.gradients, strict=True)
        return DiagonalCurvature(
            jnp.concatenate([(a[:, None] * g).ravel() for (a, _), (g, _) in pairs])
        )

    def covariance(self, factors: Any, noise: Any) -> Any:
        """P⁻¹, (d, d)."""
        blocks = []
        for _, precision, left, right in self._layers(factors, noise):
            basis = jnp.kron(left, right)
            blocks.append((basis / precision.ravel()) @ basis.T)
        return jax.scipy.linalg.block_diag(*blocks)


class LayerFactors(NamedTuple):
    """Σ a aᵀ (in, in) and Σ g gᵀ (out, out) of a layer, and how many rows and places they are of.

    The first is over rows and places, the second also over the columns of a root.
    """

    inputs: Any
    gradients: Any
    places: Any


def layer_vectors(
    local: LocalModel, point: Point, x: Any, weight: Any, layers: tuple[KroneckerLayer, ...]
) -> list[tuple[Any, Any]]:
    """Inputs (B T, in) and gradients (R B T, out) of each layer, at rows x of weight 0 or 1.

    One forward and R backward passes, without gradients of the weights.
    """
    paths = tuple(layer.call.path for layer in layers)
    origin = jnp.zeros_like(point.centre)

    def outputs(shifts: Any) -> Any:
        with layers_watched(paths, shifts) as (inputs, layer_outputs):
            u = local.outputs(origin, point, x)
        return u, (inputs, layer_outputs)

    shapes = jax.eval_shape(partial(outputs, None))[1][1]
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    u, back, (inputs, _) = jax.vjp(outputs, zeros, has_aux=True)
    # The rows are independent, so one backward pass gives column r of all of them.
    columns = jnp.eye(u.shape[1], dtype=u.dtype)
    (shifted,) = jax.vmap(lambda e: back(weight[:, None] * e))(columns)
    found = []
    for layer in layers:
        a = layer_input(layer.call, inputs[layer.call.path])
        ones = jnp.ones((*a.shape[:2], 1), a.dtype)
        parts = ([a] if layer.kernel else []) + ([ones] if layer.bias else [])
        a = (jnp.concatenate(parts, -1) * weight[:, None, None]).reshape(-1, layer.shape[0])
        found.append((a, shifted[layer.call.path].reshape(-1, layer.outputs)))
    return found


@partial(jax.jit, static_argnames=("local", "layers"))
def kronecker_curvature(
    local: LocalModel, point: Point, rows: Rows, layers: tuple[KroneckerLayer, ...]
) -> KroneckerCurvature:
    """Both factors of each layer, from one pass over the rows.

    A pass takes one forward and R backward passes of the network, R outputs in a row, without
    gradients of the weights. The prior's precisions must be a product of one for each input and
    one for each output of a layer, as `point.unit` holds them.
    """
    factors = layer_factors(local, point, rows, layers)
    pairs = tuple((f.inputs, f.gradients / f.places) for f in factors)
    return factored_curvature(pairs, point.unit, layers)


def layer_factors(
    local: LocalModel, point: Point, rows: Rows, layers: tuple[KroneckerLayer, ...]
) -> tuple[LayerFactors, ...]:
    """The factors of each layer in the coordinates θ, to be traced; see `kronecker_curvature`."""

    def add(total: Any, chunk: Any) -> Any:
        x, weight = chunk
        new = tuple(
            LayerFactors(a.T @ a, g.T @ g, weight.sum() * (len(a) / len(x)))
            for a, g in layer_vectors(local, point, x, weight, layers)
        )
        return jax.tree.map(jnp.add, total, new), None

    empty = tuple(
        LayerFactors(jnp.zeros((rows_of,) * 2), jnp.zeros((columns,) * 2), jnp.zeros(()))
        for rows_of, columns in (layer.shape for layer in layers)
    )
    empty = jax.tree.map(lambda a: a.astype(point.centre.dtype), empty)
    found: tuple[LayerFactors, ...] = jax.lax.scan(add, empty, rows)[0]
    return found


def factored_curvature(
    pairs: Sequence[tuple[Any, Any]], unit: Any, layers: tuple[KroneckerLayer, ...]
) -> KroneckerCurvature:
    """The curvature A ⊗ G of each layer, in coordinates in units of `unit`; to be traced.

    Args:
        pairs: A (in, in) and G (out, out) of each layer, in the coordinates θ.
        unit: (d,), in each layer a product of one for each input and one for each output.
        layers: which there are.
    """
    lefts, rights = [], []
    for layer, (a, g) in zip(layers, pairs, strict=True):
        block = unit[layer.begin : layer.end].reshape(layer.shape)
        left, right = block[:, 0], block[0] / block[0, 0]
        lefts.append(_eigen(a * left * left[:, None]))
        rights.append(_eigen(g * right * right[:, None]))
    return KroneckerCurvature(
        tuple(lefts), tuple(rights), tuple((layer.begin, layer.end) for layer in layers)
    )


def _eigen(matrix: Any) -> tuple[Any, Any]:
    values, vectors = jnp.linalg.eigh(matrix)
    return jnp.maximum(values, 0.0), vectors
