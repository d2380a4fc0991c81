"""A step of VOGN or noisy Adam, on a mean field."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.fast_normals import standard_normal, steps_at_once
from bayesnn_ppl.inference.approximations.variational.guides.mean_field import (
    normal_log_density,
)
from bayesnn_ppl.inference.approximations.variational.target import (
    Target,
    over_blocks,
    site_log_density,
)
from bayesnn_ppl.modeling.row_terms import is_by_row

__all__ = ["NaturalStep", "Precision"]


class Precision(NamedTuple):
    """q = N(μ, 1/s): what the optimisation changes."""

    mean: Any
    precision: Any


@dataclass(frozen=True)
class NaturalStep:
    r"""One step on q = N(μ, 1/s) from one draw z of it.

        g = -∇log p̃(z),   h = c(z) + (N / BT) Σ_i (∂ℓ_i)²      (each for one coordinate)
        m' = βm + (1 - β)g,   s' = s + ρ(h - s),   μ' = μ - α m̂ / s'

    c is the curvature of -log p(θ) and the Jacobian, and ℓ_i the untempered log likelihood of a
    row: its square stands for a curvature, which is linear in 1/T.

    Attributes:
        target: log p̃.
        rows, batch_size: N and B, or None for all rows.
        method: "vogn" or "noisy_adam".
        learning_rate, curvature_rate, momentum: α, ρ, β.
        schedule: factor of α and ρ as a function of the fraction done, or None.
    """

    target: Target
    rows: int
    batch_size: int | None
    method: str
    learning_rate: float
    curvature_rate: float
    momentum: float
    schedule: Callable[[Any], Any] | None

    @property
    def chunk(self) -> int:
        """For how many steps noise is made at a time."""
        return steps_at_once(16, self.target.dimension)

    def noise(self, key: Any) -> Any:
        """Normals (chunk, d) and keys (chunk,)."""
        seeds, keys = jax.random.split(key)
        bits = jax.random.bits(seeds, (self.chunk, 2), jnp.uint32)
        size, dtype = self.target.dimension, jnp.result_type(float)
        normal = jax.vmap(lambda seed: standard_normal(seed, size, dtype))(bits)
        return jax.lax.optimization_barrier(normal), jax.random.split(keys, self.chunk)

    def step(
        self, q: Precision, memory: Any, noise: Any, index: Any, fraction: Any, x: Any, y: Any
    ) -> tuple[Precision, Any, Any]:
        """The next q, the momentum and its age, and minus the ELBO per observation before."""
        normal, key = noise
        z = q.mean + normal / jnp.sqrt(q.precision)
        energy, gradient = jax.value_and_grad(self.energy)(z, key, x, y, index)
        curvature = self.prior_curvature(z, key, x, y) + self.fisher(z, key, x, y, index)
        average, age = memory
        average = self.momentum * average + (1.0 - self.momentum) * gradient
        age = age + 1
        factor = 1.0 if self.schedule is None else self.schedule(fraction)
        precision = q.precision + factor * self.curvature_rate * (curvature - q.precision)
        unbiased = average / (1.0 - self.momentum**age)
        mean = q.mean - factor * self.learning_rate * unbiased / precision
        entropy = 0.5 * jnp.sum(1.0 + math.log(2.0 * math.pi) - jnp.log(q.precision))
        return Precision(mean, precision), (average, age), (energy - entropy) / self.rows

    def energy(self, z: Any, key: Any, x: Any, y: Any, index: Any) -> Any:
        """-log p̃(z)."""
        return -self.target.log_density(self.target.unflatten(z), {}, key, x, y, index)

    def _prior_energy(self, z: Any, key: Any, x: Any, y: Any) -> Any:
        """-log of all that is not in the plate "data"; the network is not computed for it."""
        trace = self.target.trace(self.target.unflatten(z), {}, key, x, y, jnp.arange(1))
        return -sum(
            (
                site_log_density(site)
                for site in trace.values()
                if site["type"] == "sample" and not is_by_row(site)
            ),
            start=jnp.zeros(()),
        )

    def prior_product(self, z: Any, vector: Any, key: Any, x: Any, y: Any) -> Any:
        """The Hessian of the prior's energy times a vector; twice in reverse mode."""

        def slope(z: Any) -> Any:
            return jnp.vdot(jax.grad(self._prior_energy)(z, key, x, y), vector)

        return jax.grad(slope)(z)

    def prior_curvature(self, z: Any, key: Any, x: Any, y: Any) -> Any:
        """The diagonal of a Hessian that is diagonal; nowhere below 0."""
        return jnp.maximum(self.prior_product(z, jnp.ones_like(z), key, x, y), 0.0)

    def fisher(self, z: Any, key: Any, x: Any, y: Any, index: Any) -> Any:
        """(N / BT) Σ_i (∂ℓ_i)², shape (d,), or with the model's own weight of each row."""
        index = jnp.arange(self.rows) if index is None else index

        def likelihood(z: Any, index: Any, label_key: Any) -> Any:
            """Σ √sᵢ ℓ_i of these rows, s = N / (their number · T) times the model's weights."""
            trace = self.target.trace(self.target.unflatten(z), {}, key, x, y, index)
            site = trace["y"]
            value = site["value"]
            if label_key is not None:
                value = jax.lax.stop_gradient(site["fn"].sample(label_key))
            log_p = site["fn"].log_prob(value)
            return jnp.sum(log_p if site["scale"] is None else jnp.sqrt(site["scale"]) * log_p)

        slope = jax.grad(likelihood)
        if self.method == "noisy_adam":
            # Labels drawn from the model make the cross terms of the squared sum 0 on average.
            return jnp.square(slope(z, index, jax.random.fold_in(key, 1)))
        gradients = jax.vmap(lambda row: slope(z, row[None], None))(index)
        return jnp.sum(jnp.square(gradients), axis=0) / index.shape[0]

    def importance(self, q: Precision, key: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """A draw of q, site -> unconstrained value, and its log p̃ - log q on all rows."""
        draw_key, key = jax.random.split(key)
        normal = jax.random.normal(draw_key, q.mean.shape, q.mean.dtype)
        sd = 1.0 / jnp.sqrt(q.precision)
        z = q.mean + sd * normal
        log_p = over_blocks(
            lambda index: -self.energy(z, key, x, y, index), self.rows, self.batch_size
        )
        return self.target.unflatten(z), log_p - normal_log_density(normal, sd)
