"""The Gaussian around a mode: where it is, in which units, and with which curvature."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from bayesnn_ppl.core.fast_normals import standard_normal
from bayesnn_ppl.inference.approximations.curvature.dense import DenseCurvature
from bayesnn_ppl.inference.approximations.curvature.dense_layers import dense_layer_blocks
from bayesnn_ppl.inference.approximations.curvature.diagonal import DiagonalCurvature
from bayesnn_ppl.inference.approximations.curvature.evidence import Terms, log_evidence, mode_shift
from bayesnn_ppl.inference.approximations.curvature.kronecker import (
    KroneckerLayer,
    kronecker_curvature,
)
from bayesnn_ppl.inference.approximations.curvature.local import (
    LocalModel,
    Point,
    Rows,
    in_chunks,
)
from bayesnn_ppl.inference.approximations.curvature.low_rank import low_rank_curvature
from bayesnn_ppl.inference.approximations.curvature.prior import PriorCurvature
from bayesnn_ppl.inference.approximations.curvature.products import (
    curvature_diagonal,
    curvature_roots,
    root_of,
)
from bayesnn_ppl.inference.approximations.curvature.selection import (
    Selection,
    kronecker_layers,
    rows_at_once,
)
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.likelihoods.common.observed import base_distribution

__all__ = [
    "AroundMode",
    "Noise",
    "check_structure",
    "curvature_at",
    "likelihood_terms",
    "noise_site",
    "not_factored",
    "unit_of",
]

_MOST_BYTES = 2**32  # of a dense matrix and its factor
_NUMBERS = 2**20  # of draws that are made at once


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["point", "curvature", "terms", "factors", "noise", "root"],
    meta_fields=["local", "recentred"],
)
@dataclass(frozen=True)
class AroundMode:
    """N(θ* + U t̂, U P⁻¹ Uᵀ) with P = κM + Λ, of the chosen parameters.

    Attributes:
        local: the model as their function.
        point: θ*, the units U = diag(unit), and the other sites.
        curvature: M.
        terms: what else the evidence is made of.
        factors: λ (d,).
        noise: κ.
        root: L where the prior couples parameters: U is L⁻ᵀ then, with L Lᵀ its precision.
        recentred: whether t̂ is the mode of a linear Gaussian model, and not 0.
    """

    local: LocalModel
    point: Point
    curvature: Any
    terms: Terms
    factors: Any
    noise: Any
    root: Any = None
    recentred: bool = False

    def to_parameters(self, t: Any) -> Any:
        """U t of vectors (..., d)."""
        if self.root is None:
            return self.point.unit * t
        return solve_triangular(self.root, t.T, lower=True, trans=1).T

    @property
    def mean(self) -> np.ndarray:
        """Of the parameters, (d,), in the order of `local.sites`."""
        if not self.recentred:
            return np.asarray(self.point.centre)
        shift = mode_shift(self.curvature, self.terms, self.factors, self.noise)
        return np.asarray(self.point.centre + self.to_parameters(shift))

    @property
    def covariance(self) -> np.ndarray:
        """Of the parameters, (d, d)."""
        covariance = self.curvature.covariance(self.factors, self.noise)
        return np.asarray(self.to_parameters(self.to_parameters(covariance).T))

    @property
    def log_evidence(self) -> float:
        """See `evidence`."""
        parts = (self.curvature, self.terms, self.factors, self.noise)
        return float(log_evidence(*parts, recentre=self.recentred))

    @property
    def newton_gain(self) -> float:
        """What a step to the top of the quadratic would add to the log density: 0 at a mode."""
        return float(_newton_gain(self.curvature, self.terms, self.factors, self.noise))

    def sample(self, key: jax.Array, count: int) -> np.ndarray:
        """Draws of the parameters, (count, d)."""
        at_once = min(count, max(1, _NUMBERS // self.local.dimension))
        seeds = jax.random.bits(key, (-(-count // at_once), 2), np.uint32)
        draws = _draws(self, jnp.asarray(self.mean), seeds, at_once)
        return np.asarray(draws).reshape(-1, self.local.dimension)[:count]


@jax.jit
def _newton_gain(curvature: Any, terms: Terms, factors: Any, noise: Any) -> Any:
    gradient = noise * terms.slope + factors * terms.prior_mean
    return 0.5 * gradient @ curvature.solve(factors, noise, gradient)


@partial(jax.jit, static_argnames="at_once")
def _draws(gaussian: AroundMode, mean: Any, seeds: Any, at_once: int) -> Any:
    """Draws (chunks, at_once, d), a chunk for each seed: few at once, which stay in the cache."""
    d = gaussian.local.dimension

    def chunk(seed: Any) -> Any:
        normals = standard_normal(seed, at_once * d, mean.dtype).reshape(at_once, d)
        return mean + gaussian.to_parameters(
            gaussian.curvature.sample(gaussian.factors, gaussian.noise, normals)
        )

    return jax.lax.map(chunk, seeds)


class Noise(NamedTuple):
    """A Gaussian likelihood's noise, where one site is its scale.

    Attributes:
        site: that site.
        scale: its value.
    """

    site: str
    scale: float


def check_structure(selection: Selection, structure: str) -> None:
    """Raise ValueError where the structure does not suit the network, or takes too much memory."""
    if structure == "kfac":
        kronecker_layers(selection)
    parts = _parts(selection.local, structure)
    bytes_needed = 16 * sum((end - begin) ** 2 for begin, end in parts)
    if bytes_needed > _MOST_BYTES:
        raise ValueError(
            f'structure="{structure}" needs dense matrices of up to '
            f"{max(end - begin for begin, end in parts)}² numbers, {bytes_needed / 2**30:.0f} GiB "
            'with their factors. Use "kfac", "low_rank" or "diagonal", or fewer parameters by '
            '`layers="last"`.'
        )


def _parts(local: LocalModel, structure: str) -> tuple[tuple[int, int], ...]:
    if structure == "full":
        return ((0, local.dimension),)
    if structure == "block":
        return tuple((layer.begin, layer.end) for layer in local.layers)
    return ()


def unit_of(selection: Selection, prior: PriorCurvature, structure: str) -> np.ndarray:
    """The prior's standard deviations, (d,).

    Raises:
        ValueError: they do not factor over a layer's inputs and outputs, where the structure is
            "kfac".
    """
    unit = 1 / np.sqrt(prior.precision)
    if structure == "kfac":
        no_product = not_factored(kronecker_layers(selection), unit)
        if no_product is not None:
            raise ValueError(
                "The prior's precisions at the mode are not a product of one for each input and "
                f"one for each output of the layer `{no_product}`, and a Kronecker product has no "
                'place for others: use structure="block" or "diagonal", or a normal prior with one '
                "variance in a layer."
            )
    return unit


def not_factored(layers: tuple[KroneckerLayer, ...], unit: np.ndarray) -> str | None:
    """The first layer whose part of `unit` is not a product of one for each input and output."""
    for layer in layers:
        block = unit[layer.begin : layer.end].reshape(layer.shape)
        product = block[:, :1] * block[:1] / block[0, 0]
        if np.abs(product / block - 1).max() > 1e-3:
            return layer.call.path
    return None


def curvature_at(
    problem: Problem, selection: Selection, point: Point, structure: str, rank: int
) -> Any:
    """M at a point in one of the structures, from a pass over all rows (5 (rank + 8) passes of
    products for "low_rank").
    """
    local = selection.local
    one = jax.eval_shape(lambda: local.outputs(jnp.zeros(local.dimension), point, problem.x[:1]))
    rows = in_chunks(problem.x, rows_at_once(local, problem.x, one.shape[1], structure))
    if structure == "diagonal":
        return DiagonalCurvature(curvature_diagonal(local, point, rows))
    if structure == "kfac":
        return kronecker_curvature(local, point, rows, kronecker_layers(selection))
    if structure == "low_rank":
        return low_rank_curvature(local, point, rows, rank, problem.seed)
    parts = _parts(local, structure)
    blocks = _layer_blocks(selection, point, rows, parts)
    if blocks is None:
        return DenseCurvature(curvature_roots(local, point, rows, parts), parts)
    dtype = point.centre.dtype
    return DenseCurvature(tuple(jnp.asarray(root_of(b), dtype) for b in blocks), parts)


def _layer_blocks(
    selection: Selection, point: Point, rows: Rows, parts: tuple[tuple[int, int], ...]
) -> list[np.ndarray] | None:
    """The blocks where each is one dense layer of the network, otherwise None."""
    if parts != tuple((layer.begin, layer.end) for layer in selection.local.layers):
        return None
    try:
        layers = kronecker_layers(selection)
    except ValueError:  # other layers, or weights that are shared
        return None
    return dense_layer_blocks(selection.local, point, rows, layers)


@partial(jax.jit, static_argnames=("local", "gaussian"))
def _likelihood(local: LocalModel, point: Point, x: Any, y: Any, gaussian: bool) -> Any:
    origin = jnp.zeros_like(point.centre)

    def total(t: Any) -> Any:
        return local.row_log_likelihood(t, point, x, y).sum()

    value, slope = jax.value_and_grad(total)(origin)
    if not gaussian:
        return value, slope, jnp.zeros(()), jnp.zeros(())
    site = local.trace(point.centre, point.fixed, x, y)["y"]
    base = base_distribution(site["fn"])
    weight = 1.0 if site["scale"] is None else site["scale"]
    weight = jnp.broadcast_to(weight, y.shape[:1]).reshape(-1, *(1,) * (y.ndim - 1))
    squares = jnp.sum(weight * jnp.square((y - base.loc) / base.scale))
    return value, slope, squares, jnp.sum(jnp.broadcast_to(weight, y.shape))


def likelihood_terms(
    problem: Problem, local: LocalModel, point: Point, prior: PriorCurvature, *, gaussian: bool
) -> Terms:
    """What the evidence at a point is made of, besides the curvature.

    Args:
        problem: the model and its data.
        local: the model near its mode.
        point: the mode.
        prior: the curvature of its prior.
        gaussian: whether the noise is to be tuned, so that its squares are needed.
    """
    value, slope, squares, count = _likelihood(local, point, problem.x, problem.y, gaussian)
    if prior.coupled is None:
        log_unit, mean = np.log(point.unit).sum(), prior.gradient * point.unit
    else:
        root = np.linalg.cholesky(prior.coupled)
        log_unit = -np.log(np.diag(root)).sum()
        slope = solve_triangular(root, slope, lower=True)
        mean = solve_triangular(root, prior.gradient, lower=True)
    return Terms(value, prior.log_density + log_unit, squares, count, slope, jnp.asarray(mean))


def noise_site(
    problem: Problem, local: LocalModel, point: Point, mode: Mapping[str, Any]
) -> Noise | None:
    """The one site that is the scale of all of the Gaussian noise, or None."""
    numbers = {n: v for n, v in mode.items() if n not in local.sites and np.shape(v) == ()}
    if not numbers:
        return None  # before the model runs, operation by operation
    base = base_distribution(local.trace(point.centre, point.fixed, problem.x[:1])["y"]["fn"])
    if type(base).__name__ != "Normal":
        return None
    scale = np.asarray(base.scale)
    return next((Noise(n, float(v)) for n, v in numbers.items() if np.all(scale == v)), None)
