"""Microcanonical Hamiltonian Monte Carlo with an accept step: no bias, whatever the step size."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import positive, whole_number
from bayesnn_ppl.inference.kernels.common.acceptance import flag, fraction, metropolis
from bayesnn_ppl.inference.kernels.common.adaptation import (
    DualAveraging,
    RunningVariance,
    variance_windows,
)
from bayesnn_ppl.inference.kernels.common.density import Density, log_ratio, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.full_batch.microcanonical import Point, direction, trajectory

__all__ = ["AdjustedMCLMC", "AdjustedMCLMCState"]

# Steps of a trajectory, on average, until the variances say how long it should be.
_FIRST_STEPS = 10


@named_fields
class AdjustedMCLMCState(NamedTuple):
    """The state of one chain.

    Attributes:
        z: site -> unconstrained value.
        gradient: ∇U there, shape (d,).
        terms: log densities there, element by element.
        scale: s of the preconditioner, shape (d,), or () without one.
        potential_energy: U of the draw.
        energy_error: ΔE of the proposal.
        accept_prob: min(1, e^{-ΔE}).
        diverging: ΔE of the proposal was not finite or above 1000.
        num_steps: gradients of the draw.
        step_size, length: ε and L, the mean length of a trajectory.
        adaptation: dual averaging of the step size.
        moments: positions of the present window of the warm-up.
        iteration: draws made so far, warm-up included.
        rng_key: one key.
    """

    z: Any
    gradient: Any
    terms: Any
    scale: Any
    potential_energy: Any
    energy_error: Any
    accept_prob: Any
    diverging: Any
    num_steps: Any
    step_size: Any
    length: Any
    adaptation: Any
    moments: Any
    iteration: Any
    rng_key: Any


class AdjustedMCLMC(ModelKernel):
    """Metropolis-adjusted microcanonical dynamics.

    Each draw takes a new velocity, uniform on the sphere, follows the microcanonical dynamics
    (`kernels/full_batch/microcanonical.py`) for a length τ, and goes there with probability
    min(1, e^{-ΔE}), ΔE = ΔK + U(x') - U(x). The map is reversible, and -ΔK is its
    log-determinant, so the posterior (temperature 1) is left invariant at every step size. τ is
    uniform on (0, 2L), drawn anew each time and apart from everything else, so that no period
    of the dynamics is met again and again; it is made in ⌈τ/ε⌉ equal steps.

    ΔU is summed after the differences are formed row by row, as in float32 a potential of 5e5
    is known to 0.03. A rejected proposal repeats the draw.

    The warm-up moves the step size by dual averaging to the wanted acceptance, and in windows of
    twice the length each (Stan's) estimates the variances of the positions: they set the
    preconditioner, and L = `length_factor` · √(Σ variances), in preconditioned coordinates
    `length_factor` · √d. Everything is tuned for each chain apart.

    Args:
        model: a NumPyro program of `(x, y)` with at least two unconstrained coordinates.
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
        TypeError, ValueError: an argument is out of range, or the program has one coordinate.

    References:
        Robnik, Cohn-Gordon and Seljak (2025), Metropolis adjusted microcanonical Hamiltonian
        Monte Carlo, arXiv:2503.01707.
    """

    accept_step = True
    _counts_divergences = True

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
        super().__init__(model, init_strategy=init_strategy, rows_at_once=rows_at_once)
        self._step_size = positive(step_size, "`step_size` of AdjustedMCLMC")
        self._adapt_step_size = flag(adapt_step_size, "`adapt_step_size` of AdjustedMCLMC")
        self._target_accept = fraction(target_accept, "`target_accept` of AdjustedMCLMC")
        self._length = None if length is None else positive(length, "`length` of AdjustedMCLMC")
        self._length_factor = positive(length_factor, "`length_factor` of AdjustedMCLMC")
        self._max_steps = whole_number(max_steps, "`max_steps` of AdjustedMCLMC", at_least=1)
        if preconditioning not in ("diagonal", "identity"):
            raise ValueError(
                '`preconditioning` of AdjustedMCLMC must be "diagonal" or "identity", '
                f"not {preconditioning!r}."
            )
        self._preconditioning = preconditioning

    def _start(self, key: Any, z: Any, density: Density) -> AdjustedMCLMCState:
        vector, _ = ravel_pytree(z)
        if vector.size < 2:
            raise ValueError(
                "AdjustedMCLMC needs a program with at least two unconstrained coordinates: the "
                "velocity lives on a sphere, which in one dimension is two points. This program "
                f"has {vector.size}. Use NUTS."
            )
        gradient, terms = density.gradient_and_terms(vector)
        zero = jnp.zeros((), vector.dtype)
        diagonal = self._preconditioning == "diagonal"
        step_size = zero + self._step_size
        length = _FIRST_STEPS * self._step_size if self._length is None else self._length
        return AdjustedMCLMCState(
            z,
            gradient,
            terms,
            jnp.ones_like(vector) if diagonal else jnp.ones((), vector.dtype),
            potential_energy(terms),
            zero,
            zero,
            jnp.asarray(False),
            jnp.asarray(0),
            step_size,
            zero + length,
            DualAveraging.start(step_size),
            RunningVariance.start(vector),
            jnp.asarray(0),
            key,
        )

    def _draw(self, state: AdjustedMCLMCState, density: Density) -> AdjustedMCLMCState:
        key, velocity_key, steps_key, accept_key = jax.random.split(state.rng_key, 4)
        position, _ = ravel_pytree(state.z)
        velocity = direction(jax.random.normal(velocity_key, position.shape, position.dtype))
        steps, step_size = self._steps(state, jax.random.uniform(steps_key, (), position.dtype))
        old = Point(position, velocity, state.gradient)
        new, kinetic = trajectory(
            old, density.gradient, steps=steps, step_size=step_size, scale=state.scale
        )
        terms = density.terms(new.position)
        error = kinetic - log_ratio(terms, state.terms)
        # A velocity that is not finite has turned somewhere where the gradient was not.
        error = jnp.where(jnp.isfinite(jnp.vdot(new.velocity, new.gradient)), error, jnp.nan)
        decision = metropolis(-error, jax.random.uniform(accept_key, (), position.dtype))
        point = decision.choose(new, old)
        terms = decision.choose(terms, state.terms)
        state = state._replace(
            z=density.unravel(point.position),
            gradient=point.gradient,
            terms=terms,
            potential_energy=potential_energy(terms),
            energy_error=error,
            accept_prob=decision.accept_prob,
            diverging=decision.diverging,
            num_steps=2 * steps,
            iteration=state.iteration + 1,
            rng_key=key,
        )
        return self._adapt(state, point.position) if self._num_warmup else state

    def _steps(self, state: AdjustedMCLMCState, uniform: Any) -> tuple[Any, Any]:
        """Steps of a trajectory and their size, for a length 2L · uniform."""
        length = 2 * state.length * uniform
        steps = jnp.clip(jnp.ceil(length / state.step_size), 1, self._max_steps)
        return steps.astype(int), jnp.minimum(state.step_size, length / steps)

    def _adapt(self, state: AdjustedMCLMCState, position: Any) -> AdjustedMCLMCState:
        """What the warm-up changes after its draw number `iteration`, counted from 1."""
        warmup = self._num_warmup or 0
        first, ends = variance_windows(warmup)
        warming = state.iteration <= warmup
        if self._adapt_step_size:
            adaptation = state.adaptation.update(state.accept_prob, self._target_accept)
            last = state.iteration == warmup
            step_size = jnp.where(last, adaptation.averaged, adaptation.step_size)
            # Until there are variances, L is a number of steps.
            tied = self._length is None and not ends
            early = self._length is None and bool(ends)
            ratio = step_size / state.step_size
            follows = warming & (tied | (early & (state.iteration < (ends or (0,))[0])))
            state = state._replace(
                adaptation=_where(warming, adaptation, state.adaptation),
                step_size=jnp.where(warming, step_size, state.step_size),
                length=jnp.where(follows, state.length * ratio, state.length),
            )
        if not ends:
            return state
        collecting = (state.iteration > first) & (state.iteration <= ends[-1])
        moments = _where(collecting, state.moments.update(position), state.moments)
        state = state._replace(moments=moments)
        at_end = jnp.any(state.iteration == jnp.asarray(ends))
        return jax.lax.fori_loop(
            0, jnp.where(at_end, 1, 0), lambda _, state: self._adopt(state), state
        )

    def _adopt(self, state: AdjustedMCLMCState) -> AdjustedMCLMCState:
        """Scales and L from the window's variances; the step size starts anew near where it was."""
        variance = state.moments.variance()
        spread = jnp.sqrt(jnp.sum(variance))
        step_size = state.step_size
        if self._preconditioning == "diagonal":
            # The way of a step in the model's coordinates stays what it was on average.
            before = jnp.sqrt(jnp.sum(variance / state.scale**2))
            if self._adapt_step_size:
                step_size = step_size * math.sqrt(variance.size) / before
            state = state._replace(scale=jnp.sqrt(variance))
            spread = jnp.full_like(spread, math.sqrt(variance.size))
        if self._length is None:
            state = state._replace(length=self._length_factor * spread)
        return state._replace(
            step_size=step_size,
            adaptation=DualAveraging.start(step_size),
            moments=RunningVariance.start(state.moments.mean),
        )


def _where(condition: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
