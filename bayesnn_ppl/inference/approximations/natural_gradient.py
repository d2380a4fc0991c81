"""Noisy natural gradients: a mean field whose precision is a running mean of curvature."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.arguments import near_misses, positive, whole_number
from bayesnn_ppl.identity import StaticProgram
from bayesnn_ppl.inference.approximations.base import Fitted, Problem
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.variational_inference.beginning import begin_target
from bayesnn_ppl.inference.approximations.variational_inference.conclusion import (
    conclude,
    weighed_draws,
)
from bayesnn_ppl.inference.approximations.variational_inference.loop import climb
from bayesnn_ppl.inference.approximations.variational_inference.mean_field import (
    normal_log_density,
)
from bayesnn_ppl.inference.approximations.variational_inference.target import (
    Target,
    over_blocks,
    site_log_density,
)
from bayesnn_ppl.inference.kernels.noise import standard_normal, steps_at_once
from bayesnn_ppl.inference.training import cosine
from bayesnn_ppl.inference.training_plan import check_choices, check_minibatches
from bayesnn_ppl.posterior import Posterior
from bayesnn_ppl.temperature import Model

__all__ = ["NaturalGradient", "NaturalStep"]

_METHODS = ("vogn", "noisy_adam")
_SIGMA = 0.01
_CLIMB, _DRAWS = 2, 3  # streams of randomness


class Precision(NamedTuple):
    """q = N(μ, 1/s): what a climb changes."""

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
        energy, gradient = jax.value_and_grad(self._energy)(z, key, x, y, index)
        curvature = self._prior_curvature(z, key, x, y) + self._fisher(z, key, x, y, index)
        average, age = memory
        average = self.momentum * average + (1.0 - self.momentum) * gradient
        age = age + 1
        factor = 1.0 if self.schedule is None else self.schedule(fraction)
        precision = q.precision + factor * self.curvature_rate * (curvature - q.precision)
        unbiased = average / (1.0 - self.momentum**age)
        mean = q.mean - factor * self.learning_rate * unbiased / precision
        entropy = 0.5 * jnp.sum(1.0 + math.log(2.0 * math.pi) - jnp.log(q.precision))
        return Precision(mean, precision), (average, age), (energy - entropy) / self.rows

    def _energy(self, z: Any, key: Any, x: Any, y: Any, index: Any) -> Any:
        return -self.target.log_density(self.target.unflatten(z), {}, key, x, y, index)

    def _prior_energy(self, z: Any, key: Any, x: Any, y: Any) -> Any:
        """-log of all that is not in the plate "data"; the network is not computed for it."""
        trace = self.target.trace(self.target.unflatten(z), {}, key, x, y, jnp.arange(1))
        return -sum(
            (
                site_log_density(site)
                for site in trace.values()
                if site["type"] == "sample" and not _by_row(site)
            ),
            start=jnp.zeros(()),
        )

    def prior_product(self, z: Any, vector: Any, key: Any, x: Any, y: Any) -> Any:
        """The Hessian of the prior's energy times a vector; twice in reverse mode."""

        def slope(z: Any) -> Any:
            return jnp.vdot(jax.grad(self._prior_energy)(z, key, x, y), vector)

        return jax.grad(slope)(z)

    def _prior_curvature(self, z: Any, key: Any, x: Any, y: Any) -> Any:
        """The diagonal of a Hessian that is diagonal; nowhere below 0."""
        return jnp.maximum(self.prior_product(z, jnp.ones_like(z), key, x, y), 0.0)

    def _fisher(self, z: Any, key: Any, x: Any, y: Any, index: Any) -> Any:
        """(N / BT) Σ_i (∂ℓ_i)², shape (d,)."""
        index = jnp.arange(self.rows) if index is None else index

        def likelihood(z: Any, index: Any, label_key: Any) -> tuple[Any, Any]:
            """Σ ℓ_i of these rows, and N / (their number · T)."""
            trace = self.target.trace(self.target.unflatten(z), {}, key, x, y, index)
            site = trace["y"]
            value = site["value"]
            if label_key is not None:
                value = jax.lax.stop_gradient(site["fn"].sample(label_key))
            scale = 1.0 if site["scale"] is None else site["scale"]
            return jnp.sum(site["fn"].log_prob(value)), jnp.asarray(scale, z.dtype)

        slope = jax.grad(likelihood, has_aux=True)
        if self.method == "noisy_adam":
            # Labels drawn from the program make the cross terms of the squared sum 0 on average.
            gradient, scale = slope(z, index, jax.random.fold_in(key, 1))
            return scale * jnp.square(gradient)
        gradients, scales = jax.vmap(lambda row: slope(z, row[None], None))(index)
        return scales[0] / index.shape[0] * jnp.sum(jnp.square(gradients), axis=0)

    def importance(self, q: Precision, key: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """A draw of q, site -> unconstrained value, and its log p̃ - log q on all rows."""
        draw_key, key = jax.random.split(key)
        normal = jax.random.normal(draw_key, q.mean.shape, q.mean.dtype)
        sd = 1.0 / jnp.sqrt(q.precision)
        z = q.mean + sd * normal
        log_p = over_blocks(
            lambda index: -self._energy(z, key, x, y, index), self.rows, self.batch_size
        )
        return self.target.unflatten(z), log_p - normal_log_density(normal, sd)


def _by_row(site: Any) -> bool:
    return any(frame.name == "data" for frame in site["cond_indep_stack"])


@dataclass(frozen=True)
class NaturalGradient:
    r"""A mean field climbed along the natural gradient of its ELBO: VOGN, or noisy Adam.

    On q = N(μ, 1/s) the natural gradient of the ELBO is a Newton step with a noisy weight: s moves
    towards the expected curvature of -log p̃, and μ against its gradient over s. The likelihood's
    curvature is estimated by squared gradients:

        "vogn"        of each row, at its own target: Σ_i (∂ℓ_i)², a gradient for each row
        "noisy_adam"  of the minibatch, at targets drawn from the program: (Σ_i ∂ℓ̃_i)², a second
                      gradient, unbiased for the diagonal of the Fisher information

    Where the Fisher information is the curvature (generalised linear models), "noisy_adam" ends at
    the mean field of highest ELBO. "vogn" ends where s is the mean square of the rows' gradients,
    which is that only where the program fits: with residuals twice what the noise says, its
    precision is four times too large.

    The target is that of `Variational`, a temperature counted once: T divides the curvature
    estimate by T, not by T². Priors must treat coordinates independently.

    Args:
        model: a NumPyro program that keeps the model contract.
        method: "vogn" or "noisy_adam".
        learning_rate: α, a share of a Newton step.
        curvature_rate: ρ, by which s follows what it is shown.
        momentum: β of the gradient's running mean, below 1.
        mode, start, sigma_init, schedule, steps, epochs, batch_size, draws, weigh: as in
            `Variational`; the schedule multiplies both rates.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or the prior couples
            coordinates.

    References:
        Khan et al. (2018), arXiv:1806.04854 (VOGN); Zhang et al. (2018), arXiv:1712.02390 (noisy
        Adam); Osawa et al. (2019), arXiv:1906.02506.
    """

    model: Model | None = None
    _: KW_ONLY
    method: str = "vogn"
    learning_rate: float = 0.02
    curvature_rate: float = 0.01
    momentum: float = 0.9
    mode: MAP | Posterior | None = None
    start: str = "auto"
    sigma_init: float = _SIGMA
    schedule: Callable[[Any], Any] | None = cosine
    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = 128
    draws: int = 400
    weigh: bool = True

    def __post_init__(self) -> None:
        import optax

        if self.method not in _METHODS:
            raise ValueError(
                f"`method` must be one of {_METHODS}, not {self.method!r}. "
                + near_misses(str(self.method), _METHODS)
            )
        for name in ("learning_rate", "curvature_rate", "sigma_init"):
            positive(getattr(self, name), f"`{name}`")
        if self.curvature_rate > 1:
            raise ValueError(f"`curvature_rate` must be at most 1, not {self.curvature_rate}.")
        if isinstance(self.momentum, bool) or not 0 <= self.momentum < 1:
            raise ValueError(f"`momentum` must be from 0 up to below 1, not {self.momentum!r}.")
        check_choices(optax.identity(), "posterior", self.schedule, self.start)
        if self.mode is not None and not isinstance(self.mode, MAP | Posterior):
            raise TypeError(
                "`mode` must be `MAP()`, with settings of your own, or a posterior of the same "
                f"program, not {self.mode!r}."
            )
        if self.mode is not None and self.start != "auto":
            raise ValueError(f'`start`="{self.start}" would be ignored beside `mode`.')
        whole_number(self.draws, "`draws`", at_least=1)
        for name in ("steps", "epochs", "batch_size"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), f"`{name}`", at_least=1, below=2**31)
        if self.steps is not None and self.epochs is not None:
            raise ValueError("Give `steps` or `epochs`, not both.")

    def solve(self, problem: Problem) -> Fitted:
        """Climb the ELBO, and draw from q; see `fit`."""
        if problem.summary.local:
            raise ValueError(
                f"The latent sites {list(problem.summary.local)} have one value for each row; "
                "`NaturalGradient` fits sites that all rows share. Use `Variational`."
            )
        # Rows are looked at one by one, whatever the minibatch.
        check_minibatches(problem.model, problem.summary, problem.x, problem.y, 1, False)
        begun = begin_target(self, problem, learn=False)
        method = NaturalStep(
            begun.target,
            len(problem.x),
            begun.batch_size,
            self.method,
            self.learning_rate,
            self.curvature_rate,
            self.momentum,
            self.schedule,
        )
        x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)
        mean = begun.target.flatten(begun.z)
        _check_independence(method, mean, problem.key(_CLIMB), x, y)
        first = Precision(mean, jnp.full_like(mean, self.sigma_init**-2))
        climbed = climb(
            method,
            first,
            (jnp.zeros_like(mean), jnp.int32(0)),
            problem,
            steps=begun.steps,
            batch_size=begun.batch_size,
            key=problem.key(_CLIMB),
        )
        keys = jax.random.split(problem.key(_DRAWS), self.draws)
        positions, weights = weighed_draws(method, self.weigh, climbed.parameters, keys, x, y)
        return conclude(climbed, begun, positions, weights, [], {})


@partial(jax.jit, static_argnames="program")
def _products(program: StaticProgram, z: Any, signs: Any, key: Any, x: Any, y: Any) -> Any:
    return [program.model.prior_product(z, vector, key, x, y) for vector in (signs, signs**2)]


def _check_independence(method: NaturalStep, z: Any, key: Any, x: Any, y: Any) -> None:
    """A diagonal matrix H has s ∘ (H s) = H 1 for all signs s, and others have not."""
    signs = jax.random.rademacher(key, z.shape, dtype=z.dtype)
    signed, plain = _products(StaticProgram(method), z, signs, key, x, y)
    scale = float(jnp.abs(plain).max()) + 1e-30
    if float(jnp.abs(signs * signed - plain).max()) > 1e-3 * scale:
        raise ValueError(
            "The prior couples coordinates, as that of a learned scale and its weights does: "
            "`NaturalGradient` knows the curvature of independent ones alone. Use `Variational`, "
            "or give the scale a value."
        )
