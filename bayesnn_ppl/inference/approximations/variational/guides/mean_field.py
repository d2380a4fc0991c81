"""The mean field: independent normals, on one flat vector of unconstrained coordinates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.fast_normals import standard_normal, steps_at_once
from bayesnn_ppl.inference.approximations.variational.bounds import variational_bound
from bayesnn_ppl.inference.approximations.variational.guides.layer_noise import row_noise
from bayesnn_ppl.inference.approximations.variational.target import Target, over_blocks

__all__ = ["MeanField", "Moments", "normal_log_density"]

_LOG_2PI = math.log(2.0 * math.pi)


class Moments(NamedTuple):
    """What is fitted.

    Attributes:
        q: means and, by softplus, standard deviations; shape (2, d).
        psi: unconstrained parameters of the model itself, site -> value.
    """

    q: Any
    psi: Mapping[str, Any]


class StepNoise(NamedTuple):
    """What one step takes: normals (particles, d), and a key for all else."""

    normal: Any
    key: Any


@dataclass(frozen=True)
class MeanField:
    r"""q(z) = Π_j N(z_j; μ_j, σ_j²), σ = log(1 + e^ρ).

    Compared with NumPyro's `AutoNormal` it keeps one vector instead of two arrays a site, and takes
    its normals from a hash, many steps at a time.

    Attributes:
        target: log p̃.
        rows: N.
        batch_size: B, or None for all rows.
        estimator: "reparameterised", "local" or "flipout"; see `row_noise`.
        particles: K, draws of q for a step.
        renyi_alpha: α of Rényi's bound, or None for the ELBO.
        sigma_init: first standard deviation.
    """

    target: Target
    rows: int
    batch_size: int | None
    estimator: str
    particles: int
    renyi_alpha: float | None
    sigma_init: float

    def begin(self, z: Mapping[str, Any], psi: Mapping[str, Any], x: Any, y: Any) -> Moments:
        """Means at z."""
        mean = self.target.flatten(z)
        rho = math.log(math.expm1(self.sigma_init))
        return Moments(jnp.stack([mean, jnp.full_like(mean, rho)]), dict(psi))

    @property
    def chunk(self) -> int:
        """For how many steps noise is made at a time."""
        return steps_at_once(16, self.particles * self.target.dimension)

    def noise(self, key: Any) -> StepNoise:
        """Noise of `chunk` steps, its leading axis."""
        seeds, keys = jax.random.split(key)
        size = self.particles * self.target.dimension
        bits = jax.random.bits(seeds, (self.chunk, 2), jnp.uint32)
        normal = jax.vmap(lambda seed: standard_normal(seed, size, jnp.result_type(float)))(bits)
        # Apart from the gradient, into whose concatenations the compiler would fuse it.
        normal = jax.lax.optimization_barrier(normal)
        shape = (self.chunk, self.particles, self.target.dimension)
        return StepNoise(normal.reshape(shape), jax.random.split(keys, self.chunk))

    def loss(self, moments: Moments, noise: StepNoise, x: Any, y: Any, index: Any) -> Any:
        """Minus the bound, per observation; unbiased on a minibatch for the ELBO."""
        mean, sd = moments.q[0], jax.nn.softplus(moments.q[1])

        def log_density(normal: Any, key: Any) -> Any:
            return self._log_density(mean, sd, normal, moments.psi, key, x, y, index)

        if self.particles == 1:
            log_p = log_density(noise.normal[0], noise.key)[None]
        else:
            log_p = jax.vmap(log_density)(noise.normal, jax.random.split(noise.key, self.particles))
        entropy = jnp.sum(jnp.log(sd)) + 0.5 * self.target.dimension * (1.0 + _LOG_2PI)
        if self.renyi_alpha is None:  # E[-log q] is known, and need not be estimated
            return -(jnp.mean(log_p) + entropy) / self.rows
        log_q = normal_log_density(noise.normal, sd)
        return -variational_bound(log_p - log_q, self.renyi_alpha) / self.rows

    def _log_density(
        self, mean: Any, sd: Any, normal: Any, psi: Any, key: Any, x: Any, y: Any, index: Any
    ) -> Any:
        target = self.target
        z = target.unflatten(mean + sd * normal)
        if self.estimator == "reparameterised":
            return target.log_density(z, psi, key, x, y, index)
        means, sds = target.unflatten(mean), target.unflatten(sd)
        moments = {id(value): (value, means[name], sds[name]) for name, value in z.items()}
        noise_key, key = jax.random.split(key)
        with row_noise(self.estimator, moments, noise_key):
            return target.log_density(z, psi, key, x, y, index)

    def layers_by_row(self, moments: Moments, x: Any, y: Any) -> list[str]:
        """The sites whose noise is drawn by row; by shapes alone."""
        found: list[str] = []

        def run(mean: Any, psi: Any, x: Any, y: Any) -> None:
            z = self.target.unflatten(mean)
            known = {id(value): (value, value, value) for value in z.values()}
            key = jax.random.key(0)
            with row_noise(self.estimator, known, key) as used:
                self.target.log_density(z, psi, key, x, y, None)
            found.extend(name for name, value in z.items() if id(value) in used)

        jax.eval_shape(run, moments.q[0], moments.psi, x, y)
        return found

    def importance(self, moments: Moments, key: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """A draw of q, site -> unconstrained value, and its log p̃ - log q on all rows."""
        mean, sd = moments.q[0], jax.nn.softplus(moments.q[1])
        draw_key, key = jax.random.split(key)
        normal = jax.random.normal(draw_key, mean.shape, mean.dtype)
        z = self.target.unflatten(mean + sd * normal)
        log_p = over_blocks(
            lambda index: self.target.log_density(z, moments.psi, key, x, y, index),
            self.rows,
            self.batch_size,
        )
        return z, log_p - normal_log_density(normal, sd)


def normal_log_density(normal: Any, sd: Any) -> Any:
    """log N(μ + σε; μ, σ²) summed over the last axis, of ε and σ."""
    return -jnp.sum(0.5 * jnp.square(normal) + jnp.log(sd) + 0.5 * _LOG_2PI, axis=-1)
