"""Microcanonical Hamiltonian Monte Carlo with an accept step: no bias, whatever the step size."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import integer, positive, strict_switches
from bayesnn_ppl.inference.kernels.common import microcanonical_dynamics as dynamics
from bayesnn_ppl.inference.kernels.common.acceptance import select
from bayesnn_ppl.inference.kernels.common.adaptation import (
    DualAveraging,
    RunningVariance,
    variance_windows,
)
from bayesnn_ppl.inference.kernels.common.density import Density, log_ratio
from bayesnn_ppl.inference.kernels.common.microcanonical_dynamics import direction, trajectory
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point
from bayesnn_ppl.inference.kernels.full_batch.metropolis_kernel import MetropolisKernel, Proposal

__all__ = ["Adaptation", "AdjustedMCLMC"]

# Steps of a trajectory, on average, until the variances say how long it should be.
_FIRST_STEPS = 10


class Adaptation(NamedTuple):
    """What the warm-up learns, and what a trajectory is made with.

    Attributes:
        scale: s of the preconditioner, shape (d,), or () without one.
        step_size, length: ε and L, the mean length of a trajectory.
        averaging: dual averaging of the step size.
        moments: positions of the present window of the warm-up.
    """

    scale: Any
    step_size: Any
    length: Any
    averaging: DualAveraging
    moments: RunningVariance


class AdjustedMCLMC(MetropolisKernel):
    """Metropolis-adjusted microcanonical dynamics.

    Each draw takes a new velocity, uniform on the sphere, follows the microcanonical dynamics
    (`microcanonical_dynamics.py`) for a length τ, and goes there with probability
    min(1, e^{-ΔE}), ΔE = ΔK + U(x') - U(x). The map is reversible, and -ΔK is its
    log-determinant, so the posterior (temperature 1) is left invariant at every step size. τ is
    uniform on (0, 2L), drawn again each time and independently of everything else, so that no
    period of the dynamics is met again and again; it is made in ⌈τ/ε⌉ equal steps.

    ΔU is summed after the differences are formed row by row, as in float32 a potential of 5e5
    is known to 0.03. A rejected proposal repeats the draw.

    The warm-up moves the step size by dual averaging to the wanted acceptance, and in windows of
    twice the length each (Stan's) estimates the variances of the positions: they set the
    preconditioner, and L = `length_factor` · √(Σ variances), in preconditioned coordinates
    `length_factor` · √d. Everything is tuned for each chain apart.

    Args:
        model: a NumPyro model of `(x, y)` with at least two unconstrained coordinates.
        step_size: ε, where the warm-up starts, in preconditioned coordinates.
        adapt_step_size: whether the warm-up changes it.
        target_accept: wanted mean acceptance probability, between 0 and 1.
        length: L, the mean length of a trajectory; None: tuned.
        length_factor: 1.3; on a Gaussian a quarter of a period is (π/2) √d.
        max_steps: the most steps of a trajectory, two gradients each.
        preconditioning: "diagonal" or "identity".
        rows_at_once: the most rows of the data that a gradient looks at together, for data whose
            whole gradient would not fit into memory; it is added up over blocks. None for all.

    Raises:
        TypeError, ValueError: an argument is out of range, or the model has one coordinate.

    References:
        Robnik, Cohn-Gordon and Seljak (2025), Metropolis adjusted microcanonical Hamiltonian
        Monte Carlo, arXiv:2503.01707.
    """

    recorded = (*MetropolisKernel.recorded, "num_steps", "energy_error")
    _proposal_keys = 2
    _proposal_statistics = {"num_steps": int, "energy_error": float}

    @strict_switches
    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float = 0.1,
        adapt_step_size: bool = True,
        target_accept: float = 0.9,
        length: float | None = None,
        length_factor: float = 1.3,
        max_steps: int = 1000,
        preconditioning: Literal["identity", "diagonal"] = "diagonal",
        init_strategy: Any = init_to_uniform,
        rows_at_once: int | None = None,
    ) -> None:
        super().__init__(
            model,
            step_size=step_size,
            adapt_step_size=adapt_step_size,
            target_accept=target_accept,
            init_strategy=init_strategy,
            rows_at_once=rows_at_once,
        )
        self._length = None if length is None else positive(length, "`length` of AdjustedMCLMC")
        self._length_factor = positive(length_factor, "`length_factor` of AdjustedMCLMC")
        self._max_steps = integer(max_steps, "`max_steps` of AdjustedMCLMC", at_least=1)
        self._preconditioning = dynamics.check_preconditioning(preconditioning, "AdjustedMCLMC")

    def _point(self, vector: Any, density: Density) -> Point:
        dynamics.check_dimension(vector, "AdjustedMCLMC")
        return Point(vector, *density.gradient_and_terms(vector))

    def _begin(self, key: Any, point: Point, density: Density) -> tuple[Any, Any]:
        vector = point.vector
        zero = jnp.zeros((), vector.dtype)
        diagonal = self._preconditioning == "diagonal"
        step_size = zero + self._step_size
        length = _FIRST_STEPS * self._step_size if self._length is None else self._length
        return key, Adaptation(
            jnp.ones_like(vector) if diagonal else jnp.ones((), vector.dtype),
            step_size,
            zero + length,
            DualAveraging.start(step_size),
            RunningVariance.start(vector),
        )

    def _step_size_of(self, adaptation: Adaptation, iteration: Any, dtype: Any) -> Any:
        return adaptation.step_size

    def _propose(
        self,
        point: Point,
        keys: list[Any],
        density: Density,
        step_size: Any,
        adaptation: Adaptation,
    ) -> Proposal:
        velocity_key, steps_key = keys
        position, dtype = point.vector, point.vector.dtype
        velocity = direction(jax.random.normal(velocity_key, position.shape, dtype))
        length = 2 * adaptation.length * jax.random.uniform(steps_key, (), dtype)
        steps = jnp.clip(jnp.ceil(length / step_size), 1, self._max_steps)
        new, kinetic = trajectory(
            dynamics.Point(position, velocity, point.gradient),
            density.gradient,
            steps=steps.astype(int),
            step_size=jnp.minimum(step_size, length / steps),
            scale=adaptation.scale,
        )
        terms = density.terms(new.position)
        error = kinetic - log_ratio(terms, point.terms)
        # A velocity that is not finite has turned somewhere where the gradient was not.
        error = jnp.where(jnp.isfinite(jnp.vdot(new.velocity, new.gradient)), error, jnp.nan)
        return Proposal(
            Point(new.position, new.gradient, terms),
            -error,
            {"num_steps": 2 * steps.astype(int), "energy_error": error},
        )

    def _adapted(
        self, adaptation: Adaptation, accept_prob: Any, made: Any, vector: Any
    ) -> Adaptation:
        warmup = self._num_warmup
        if not warmup:
            return adaptation
        first, ends = variance_windows(warmup)
        warming = made <= warmup
        if self._adapt_step_size:
            averaging = adaptation.averaging.update(accept_prob, self._target_accept)
            step_size = averaging.current(made != warmup)
            # Until there are variances, L is a number of steps.
            tied = self._length is None and not ends
            early = self._length is None and bool(ends)
            ratio = step_size / adaptation.step_size
            follows = warming & (tied | (early & (made < (ends or (0,))[0])))
            adaptation = adaptation._replace(
                averaging=select(warming, averaging, adaptation.averaging),
                step_size=jnp.where(warming, step_size, adaptation.step_size),
                length=jnp.where(follows, adaptation.length * ratio, adaptation.length),
            )
        if not ends:
            return adaptation
        collecting = (made > first) & (made <= ends[-1])
        moments = select(collecting, adaptation.moments.update(vector), adaptation.moments)
        at_end = jnp.any(made == jnp.asarray(ends))
        return jax.lax.fori_loop(
            0,
            jnp.where(at_end, 1, 0),
            lambda _, adaptation: self._adopt(adaptation),
            adaptation._replace(moments=moments),
        )

    def _adopt(self, adaptation: Adaptation) -> Adaptation:
        """Scales and L from the window's variances; the step size restarts near where it was."""
        variance = adaptation.moments.variance()
        spread = jnp.sqrt(jnp.sum(variance))
        step_size = adaptation.step_size
        if self._preconditioning == "diagonal":
            # The way of a step in the model's coordinates stays what it was on average.
            before = jnp.sqrt(jnp.sum(variance / adaptation.scale**2))
            if self._adapt_step_size:
                step_size = step_size * math.sqrt(variance.size) / before
            adaptation = adaptation._replace(scale=jnp.sqrt(variance))
            spread = jnp.full_like(spread, math.sqrt(variance.size))
        if self._length is None:
            adaptation = adaptation._replace(length=self._length_factor * spread)
        return adaptation._replace(
            step_size=step_size,
            averaging=DualAveraging.start(step_size),
            moments=RunningVariance.start(adaptation.moments.mean),
        )
