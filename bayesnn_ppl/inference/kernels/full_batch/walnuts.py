"""WALNUTS: the No-U-Turn Sampler whose step size adapts within its orbits."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import integer, positive, strict_switches
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.common.adaptation import (
    DualAveraging,
    Mass,
    RunningVariance,
    check_mass,
    variance_windows,
)
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point
from bayesnn_ppl.inference.kernels.full_batch.macro_steps import MacroSteps, Place
from bayesnn_ppl.inference.kernels.full_batch.orbits import orbit
from bayesnn_ppl.inference.kernels.full_batch.step_and_mass import StepAndMass

__all__ = ["WALNUTS", "WALNUTSState"]

# How far H may vary while a chain falls from its start: any finite number.
_FALLING = 1e30


@named_fields
class WALNUTSState(NamedTuple):
    """The state of one chain.

    Attributes:
        z: site -> unconstrained value.
        gradient, terms: ∇U(θ), shape (d,), and the terms of log p(θ), so that neither is
            computed twice.
        iteration: draws made, warm-up included.
        inverse_mass: shape () or (d,).
        averaging, variance: what the warm-up adapts with; None where it does not.
        statistics: potential_energy; energy, the Hamiltonian of the draw; num_steps, the gradients
            computed; macro_steps; step_size, the time of a macro step; accept_prob, the mean of
            min(1, exp(H_start - H)) over them, where steps that cannot be used count 0; unhalved,
            the same where those of several leapfrogs count 0, too; diverging, whether one did not
            hold the energy after all halvings.
    """

    z: Any
    gradient: Any
    terms: Terms
    rng_key: Any
    iteration: Any
    inverse_mass: Any
    averaging: DualAveraging | None
    variance: RunningVariance | None
    statistics: Any


class WALNUTS(ModelKernel):
    r"""The No-U-Turn Sampler for posteriors whose scale changes: funnels, horseshoes, hierarchies.

    Orbits are made of macro steps of a fixed time h. Each takes the smallest ℓ with which 2^ℓ
    leapfrogs of size h/2^ℓ keep the energy H = U(θ) + pᵀM⁻¹p/2 within a range of `energy_range`,
    so that a chain goes with long steps where the posterior is wide, and with short ones into its
    necks. Orbits grow and draws are chosen as in NUTS. A macro step of which the way back would
    take another ℓ is not used, which leaves exp(-U) invariant exactly. The target is that of the
    model, with whatever temperature it has.

    The warm-up chooses h as that of NUTS, for a mean acceptance probability to which macro steps
    of several leapfrogs, where NUTS would fail, count 0. Until it begins to learn a mass, no macro
    step is halved: from a start far out a chain falls by steps that lose energy, as NUTS does.

    Args:
        model: a NumPyro model.
        step_size: h > 0; where the adaptation begins, or, without it, that of all draws.
        energy_range: the most that H may vary within a macro step; smaller is more careful.
        max_halvings: the most halvings of a step. A macro step that would need more ends its orbit.
        max_leapfrogs: with so many leapfrogs a trajectory is not made longer.
        mass: "identity"; "diagonal", M⁻¹ = the variances of θ over windows of the warm-up; or
            "fisher", M⁻¹ = √(variance of θ / variance of ∇U) there.
        adapt_step_size: search and then dual averaging of h in the warm-up.
        target_accept: the mean acceptance probability that the adaptation aims at, in (0, 1).
        init_strategy: NumPyro's, where `MCMC` of NumPyro starts the chain.
        rows_at_once: the most rows of the data that a gradient looks at together, for data whose
            whole gradient would not fit into memory; it is added up over blocks. None for all.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Bou-Rabee, Carpenter, Kleppe and Liu (2025), The Within-Orbit Adaptive Leapfrog No-U-Turn
        Sampler, arXiv:2506.18746.
    """

    accept_step = True
    recorded = (
        "diverging", "energy", "potential_energy", "num_steps", "accept_prob", "step_size"
    )  # fmt: skip

    @strict_switches
    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float = 0.1,
        energy_range: float = 1.0,
        max_halvings: int = 10,
        max_leapfrogs: int = 1000,
        mass: Mass = "diagonal",
        adapt_step_size: bool = True,
        target_accept: float = 0.8,
        init_strategy: Any = init_to_uniform,
        rows_at_once: int | None = None,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy, rows_at_once=rows_at_once)
        self._step_size = positive(step_size, "`step_size` of WALNUTS")
        self._energy_range = positive(energy_range, "`energy_range` of WALNUTS")
        self._max_halvings = integer(max_halvings, "`max_halvings` of WALNUTS", at_least=0)
        self._max_leapfrogs = integer(max_leapfrogs, "`max_leapfrogs` of WALNUTS", at_least=1)
        self._mass = check_mass(mass, "WALNUTS")
        self._adapt_step_size = adapt_step_size
        self._target_accept = fraction(target_accept, "`target_accept` of WALNUTS")

    def _start(self, key: Any, z: Any, density: Density) -> WALNUTSState:
        vector = ravel_pytree(z)[0]
        key, search_key = jax.random.split(key)
        point = Point(vector, *density.gradient_and_terms(vector))
        learned = StepAndMass.start(
            search_key,
            point,
            density,
            step_size=self._step_size,
            adapt_step_size=self._adapt_step_size,
            mass=self._mass,
            num_warmup=self._num_warmup or 0,
        )
        potential, zero = potential_energy(point.terms), jnp.zeros((), vector.dtype)
        return WALNUTSState(
            z=z,
            gradient=point.gradient,
            terms=point.terms,
            rng_key=key,
            iteration=jnp.zeros((), jnp.int32),
            **learned._asdict(),
            statistics={
                "step_size": learned.step_size(self._step_size, True),
                "potential_energy": potential,
                "energy": potential,
                "accept_prob": zero,
                "num_steps": jnp.zeros((), jnp.int32),
                "macro_steps": jnp.zeros((), jnp.int32),
                "unhalved": zero,
                "diverging": jnp.zeros((), bool),
            },
        )

    def _draw(self, state: WALNUTSState, density: Density) -> WALNUTSState:
        key, momentum_key, orbit_key, search_key = jax.random.split(state.rng_key, 4)
        vector = ravel_pytree(state.z)[0]
        dtype = vector.dtype
        learned = StepAndMass(state.inverse_mass, state.averaging, state.variance)
        step_size = learned.step_size(self._step_size, state.iteration < self._num_warmup)
        noise = jax.random.normal(momentum_key, vector.shape, dtype)
        momentum = noise / jnp.sqrt(state.inverse_mass)
        start = Place(vector, momentum, state.gradient, state.terms, jnp.zeros((), dtype))
        falling = state.iteration < variance_windows(self._num_warmup or 0)[0]
        macro_steps = MacroSteps(
            density,
            start,
            step_size,
            state.inverse_mass,
            jnp.where(falling, _FALLING, self._energy_range),
            self._max_halvings,
        )
        made = orbit(start, orbit_key, macro_steps.step, max_leapfrogs=self._max_leapfrogs)
        end, tally = made.chosen, made.tally
        unhalved = tally.unhalved / tally.macro_steps
        learned = learned.updated(
            search_key,
            end.point,
            density,
            accept_prob=unhalved,
            target_accept=self._target_accept,
            mass=self._mass,
            made=state.iteration + 1,
            num_warmup=self._num_warmup or 0,
        )
        potential = potential_energy(end.terms)
        return WALNUTSState(
            z=density.unravel(end.vector),
            gradient=end.gradient,
            terms=end.terms,
            rng_key=key,
            iteration=state.iteration + 1,
            **learned._asdict(),
            statistics={
                "step_size": step_size,
                "potential_energy": potential,
                "energy": potential + 0.5 * jnp.sum(state.inverse_mass * end.momentum**2),
                "accept_prob": tally.accept / tally.macro_steps,
                "num_steps": tally.gradients,
                "macro_steps": tally.macro_steps,
                "unhalved": unhalved,
                "diverging": tally.failed,
            },
        )
