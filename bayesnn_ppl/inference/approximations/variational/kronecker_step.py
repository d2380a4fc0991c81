"""A step of noisy K-FAC: a matrix-variate normal for each layer, a mean field for all else."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from bayesnn_ppl.inference.approximations.curvature.gaussian import not_factored
from bayesnn_ppl.inference.approximations.curvature.kronecker import (
    KroneckerCurvature,
    KroneckerLayer,
    factored_curvature,
    layer_factors,
)
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, Point, Rows
from bayesnn_ppl.inference.approximations.curvature.prior import prior_curvature
from bayesnn_ppl.inference.approximations.curvature.selection import kronecker_layers, select
from bayesnn_ppl.inference.approximations.variational.natural_step import NaturalStep
from bayesnn_ppl.inference.approximations.variational.target import over_blocks
from bayesnn_ppl.inference.training.problem import Problem

__all__ = ["KroneckerLaw", "KroneckerStep", "ReadLayers", "begin_kronecker", "readable_layers"]

_INSTEAD = 'Use method="vogn" or "noisy_adam", or `Variational`.'
_PRIOR = (
    "Noisy K-FAC adds the precision of a normal prior to that of a layer: use `priors.normal` or "
    '`priors.fan_in_normal`, or method="vogn" or "noisy_adam", which take other priors.'
)


class KroneckerLaw(NamedTuple):
    """q: what the optimisation changes, but for the units.

    The coordinates are those of the layers, in the order of the local model, and then all others.

    Attributes:
        mean: (d,).
        unit: (k,), the prior's standard deviations of the k coordinates of layers.
        curvature: A ⊗ G of each layer, in these units: the precision there is that and 1.
        rest: (d - k,), precisions of all others.
    """

    mean: Any
    unit: Any
    curvature: KroneckerCurvature
    rest: Any


@dataclass(frozen=True)
class KroneckerStep:
    r"""One step on q, N(μ, (A ⊗ G + diag u⁻²)⁻¹) in each layer, from one draw z of it.

        g = -∇log p̃(z)
        A' = A + ρ(Â(z) - A),   G' = G + ρ(Ĝ(z) - G)                every `refresh` steps
        m' = βm + (1 - β)g,     μ' = μ - α (A' ⊗ G' + diag u⁻²)⁻¹ m̂

    Â is the mean of a aᵀ over the minibatch's rows and places, Ĝ is N/B Σ g gᵀ over its rows,
    places and the columns of a root of the Fisher information of 1/T times the log likelihood.

    Attributes:
        diagonal: the step of all other coordinates; its target has the layers first.
        local: the model as a function of the layers.
        layers: which there are.
        refresh: see above; ρ stands for 1 - (1 - ρ)^refresh there.
    """

    diagonal: NaturalStep
    local: LocalModel
    layers: tuple[KroneckerLayer, ...]
    refresh: int

    @property
    def chunk(self) -> int:
        """For how many steps noise is made at a time."""
        return self.diagonal.chunk

    def noise(self, key: Any) -> Any:
        """Normals (chunk, d) and keys (chunk,)."""
        return self.diagonal.noise(key)

    def step(
        self, q: KroneckerLaw, memory: Any, noise: Any, index: Any, fraction: Any, x: Any, y: Any
    ) -> tuple[KroneckerLaw, Any, Any]:
        """The next q, its memory, and minus the ELBO per observation before."""
        normal, key = noise
        step, k = self.diagonal, self.local.dimension
        z = self.draw(q, normal)
        energy, gradient = jax.value_and_grad(step.energy)(z, key, x, y, index)
        factor = 1.0 if step.schedule is None else step.schedule(fraction)
        rate = factor * step.curvature_rate
        average, age, factors = memory
        factors, curvature = jax.lax.cond(
            age % self.refresh == 0,
            lambda: self._looked(factors, q.unit, z, key, x, y, index, rate),
            lambda: (factors, q.curvature),
        )
        rest = q.rest
        if rest.size:
            shown = step.prior_curvature(z, key, x, y) + step.fisher(z, key, x, y, index)
            rest = rest + rate * (shown[k:] - rest)
        average = step.momentum * average + (1.0 - step.momentum) * gradient
        age = age + 1
        unbiased = average / (1.0 - step.momentum**age)
        ones = jnp.ones_like(q.unit)
        inside = q.unit * curvature.solve(ones, 1.0, q.unit * unbiased[:k])
        move = jnp.concatenate([inside, unbiased[k:] / rest])
        mean = q.mean - factor * step.learning_rate * move
        d = q.mean.shape[0]
        entropy = 0.5 * (d * (1.0 + math.log(2.0 * math.pi)) - self.log_determinant(q))
        new = KroneckerLaw(mean, q.unit, curvature, rest)
        return new, (average, age, factors), (energy - entropy) / step.rows

    def _looked(
        self, factors: Any, unit: Any, z: Any, key: Any, x: Any, y: Any, index: Any, rate: Any
    ) -> tuple[Any, KroneckerCurvature]:
        """The factors after a look at these rows, and their eigenvalues and eigenvectors."""
        rate = 1.0 - (1.0 - rate) ** self.refresh
        factors = jax.tree.map(
            lambda old, new: old + rate * (new - old), factors, self.factors(z, key, x, y, index)
        )
        return factors, factored_curvature(factors, unit, self.layers)

    def factors(self, z: Any, key: Any, x: Any, y: Any, index: Any) -> Any:
        """Â and Ĝ of each layer at z, on all rows (`index` None) or those of `index`."""
        target, k = self.diagonal.target, self.local.dimension
        # Values of the other sites in the model's space: one row is enough to find them.
        trace = target.trace(target.unflatten(z), {}, key, x, y, jnp.arange(1))
        fixed = {n: trace[n]["value"] for n, _ in target.sites if n not in self.local.sites}
        point = Point(z[:k], jnp.ones_like(z[:k]), fixed)
        rows = x if index is None else x[index]
        chunk = Rows(rows[None], jnp.ones((1, rows.shape[0]), z.dtype))
        found = layer_factors(self.local, point, chunk, self.layers)
        whole = self.diagonal.rows / rows.shape[0]
        return tuple((f.inputs / f.places, whole * f.gradients) for f in found)

    def draw(self, q: KroneckerLaw, normal: Any) -> Any:
        """A draw of q from standard normals, both (d,)."""
        k = self.local.dimension
        t = q.curvature.sample(jnp.ones_like(q.unit), 1.0, normal[None, :k])[0]
        return q.mean + jnp.concatenate([q.unit * t, normal[k:] / jnp.sqrt(q.rest)])

    def log_determinant(self, q: KroneckerLaw) -> Any:
        """log |precision of q|."""
        inside = q.curvature.log_determinant(jnp.ones_like(q.unit), 1.0)
        return inside - 2.0 * jnp.log(q.unit).sum() + jnp.log(q.rest).sum()

    def importance(self, q: KroneckerLaw, key: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """A draw of q, site -> unconstrained value, and its log p̃ - log q on all rows."""
        step = self.diagonal
        draw_key, key = jax.random.split(key)
        normal = jax.random.normal(draw_key, q.mean.shape, q.mean.dtype)
        z = self.draw(q, normal)
        log_p = over_blocks(
            lambda index: -step.energy(z, key, x, y, index), step.rows, step.batch_size
        )
        log_q = -0.5 * jnp.sum(jnp.square(normal) + math.log(2.0 * math.pi))
        return step.target.unflatten(z), log_p - log_q - 0.5 * self.log_determinant(q)


class ReadLayers(NamedTuple):
    """What noisy K-FAC reads of a model before anything is trained.

    Attributes:
        local: the model as a function of its layers.
        layers: which there are.
        unit: (k,), the prior's standard deviations.
    """

    local: LocalModel
    layers: tuple[KroneckerLayer, ...]
    unit: np.ndarray


def readable_layers(problem: Problem) -> ReadLayers:
    """The layers of a model, and their prior.

    Raises:
        ValueError: there is no network to read, a layer is of another kind, or the prior of a layer
            is not normal with precisions that are a product of one for each input and output.
    """
    selection = select(problem, None)
    local = selection.local
    layers = kronecker_layers(selection, ('`method="noisy_kfac"`', _INSTEAD, _INSTEAD))
    seeded = handlers.seed(problem.model, jax.random.key(0))
    trace = handlers.trace(seeded).get_trace(problem.x, problem.y)
    fixed = {n: trace[n]["value"] for n in problem.summary.latents if n not in local.sites}
    # A Gaussian has the same curvature anywhere; a bias at 0 says little of other priors.
    dtype = np.float64 if problem.float64 else np.float32
    somewhere = np.random.default_rng(0).normal(size=local.dimension).astype(dtype)
    try:
        prior = prior_curvature(local, somewhere, fixed, problem.x, problem.y, coupling=False)
    except ValueError as error:
        raise ValueError(f"The prior is not one of independent normal weights. {_PRIOR}") from error
    if not prior.normal:
        raise ValueError(f"The prior of the layers is not normal. {_PRIOR}")
    unit = 1.0 / np.sqrt(prior.precision)
    no_product = not_factored(layers, unit)
    if no_product is not None:
        raise ValueError(
            "The prior's precisions are not products of one for each input and one for each output "
            f"of the layer `{no_product}`. {_PRIOR}"
        )
    return ReadLayers(local, layers, unit)


def begin_kronecker(
    z: Mapping[str, Any], step: NaturalStep, read: ReadLayers, *, sigma: float, refresh: int
) -> tuple[KroneckerStep, KroneckerLaw, Any]:
    """The step, and where q and its memory begin: A = 1 and G = σ⁻².

    Args:
        z: site -> unconstrained value, where the mean begins.
        step: of a mean field on all coordinates.
        read: what `readable_layers` found.
        sigma: σ, the first standard deviation, nearly: the prior adds to its precision.
        refresh: steps from one look at the factors to the next.
    """
    local, layers, unit = read
    shapes = dict(step.target.sites)
    ordered = (*local.sites, *(name for name in shapes if name not in local.sites))
    target = replace(step.target, sites=tuple((name, shapes[name]) for name in ordered))
    method = KroneckerStep(replace(step, target=target), local, layers, refresh)
    mean = target.flatten(z)
    first = tuple(
        (jnp.eye(i, dtype=mean.dtype), jnp.eye(o, dtype=mean.dtype) * sigma**-2)
        for i, o in (layer.shape for layer in layers)
    )
    units = jnp.asarray(unit, mean.dtype)
    rest = jnp.full(mean.shape[0] - local.dimension, sigma**-2, mean.dtype)
    q = KroneckerLaw(mean, units, factored_curvature(first, units, layers), rest)
    return method, q, (jnp.zeros_like(mean), jnp.int32(0), first)
