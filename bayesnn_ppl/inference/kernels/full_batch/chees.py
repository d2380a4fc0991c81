"""ChEES-HMC: trajectory length and step size learned by all chains together."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import integer, positive
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.common.adaptation import Mass, check_mass, collected
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import EnsembleKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.full_batch.chees_adaptation import (
    Adaptation,
    adapt,
    chees_gradient,
    shared_acceptance,
    van_der_corput,
)
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, unit_mass_step

__all__ = ["ChEES", "ChEESState"]


@named_fields
class ChEESState(NamedTuple):
    """All chains; leading axis the chain where a shape says so.

    Attributes:
        z: site -> unconstrained values, (chain, ...).
        gradient, terms: ∇U, (chain, d), and the terms of log p, (chain, ...), so that neither is
            computed twice.
        rng_key: one key for the whole ensemble.
        iteration: draws made, warm-up included.
        adaptation: what is learned.
        statistics: each of shape (chain,): potential_energy and energy, U and the Hamiltonian of
            the draw; accept_prob and diverging, of its proposal; num_steps, step_size and
            trajectory_length, leapfrogs (and gradients), ε, and their product, the same for all.
    """

    z: Any
    gradient: Any
    terms: Terms
    rng_key: Any
    iteration: Any
    adaptation: Adaptation
    statistics: Any


class ChEES(EnsembleKernel):
    r"""Hamiltonian Monte Carlo whose trajectory length all chains learn together.

    One draw: p ~ N(0, M), then L leapfrog steps of size ε, then acceptance with probability
    min(1, exp(H(θ, p) - H(θ', p'))), H = U(θ) + ½ pᵀM⁻¹p; it leaves exp(-U) invariant for any ε
    and L, and its discretisation error is O(ε²) in H. L = ⌈t/ε⌉ with t = (1 - j + j u) T is the
    same for all chains, so that none waits for another; u runs through the Halton sequence.

    During the warm-up log T follows the estimated gradient of ChEES by Adam, and dual averaging
    brings the harmonic mean of the chains' acceptance probabilities to its target. Afterwards
    both are fixed at their averages. On N(0, M⁻¹) with full jitter the optimum is T = 2.25,
    where tan 2T = 2T.

    Chains share what they learn, so there must be at least two; four or more are better. With
    `numpyro.infer.MCMC` use `chain_method="vectorized"`.

    Args:
        model: a NumPyro model.
        step_size: ε at the start of the warm-up, or without one always.
        trajectory_length: T at the start of the warm-up, in the time that ε counts; None starts
            at one leapfrog step. Needed when there is no warm-up.
        target_accept: the harmonic mean acceptance probability that the step size is for.
        jitter: j, between 0 (every trajectory is T) and 1 (uniform in (0, T)).
        max_leapfrogs: the most leapfrog steps of a draw; T is kept below that many.
        learning_rate: of Adam on log T.
        mass: "diagonal", inverse variances over chains and draws in windows of the first 70 %
            of the warm-up, which include what lies between chains; "fisher", M⁻¹ = √(variance of
            θ / variance of ∇U) of these draws; or "identity".
        init_strategy: NumPyro's, for `numpyro.infer.MCMC`; `sample` has starts of its own.
        rows_at_once: the most rows of the data that a gradient looks at together, for data whose
            whole gradient would not fit into memory; it is added up over blocks. None for all.

    Raises:
        TypeError, ValueError: an argument has the wrong type or is out of range; there is one
            chain; or there is neither a warm-up nor a trajectory length.

    References:
        Hoffman, Radul and Sountsov (2021), An adaptive-MCMC scheme for setting trajectory
        lengths in Hamiltonian Monte Carlo, AISTATS, PMLR 130.
    """

    accept_step = True
    least_chains = 2
    learns_trajectory_length = True
    recorded = (
        "diverging", "energy", "potential_energy", "num_steps", "accept_prob", "step_size"
    )  # fmt: skip

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float = 0.1,
        trajectory_length: float | None = None,
        target_accept: float = 0.651,
        jitter: float = 1.0,
        max_leapfrogs: int = 1000,
        learning_rate: float = 0.025,
        mass: Mass = "diagonal",
        init_strategy: Any = init_to_uniform,
        rows_at_once: int | None = None,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy, rows_at_once=rows_at_once)
        self._step_size = positive(step_size, "`step_size` of ChEES")
        if trajectory_length is not None:
            trajectory_length = positive(trajectory_length, "`trajectory_length` of ChEES")
        self._trajectory_length = trajectory_length
        self._target_accept = fraction(target_accept, "`target_accept` of ChEES")
        self._jitter = float(jitter) if jitter == 0 else positive(jitter, "`jitter` of ChEES")
        if self._jitter > 1:
            raise ValueError(
                f"`jitter` of ChEES must be between 0 and 1, not {jitter}: it is the share of the "
                "trajectory that varies."
            )
        self._max_leapfrogs = integer(max_leapfrogs, "`max_leapfrogs` of ChEES", at_least=1)
        self._learning_rate = positive(learning_rate, "`learning_rate` of ChEES")
        self._mass = check_mass(mass, "ChEES")

    def _check_ensemble(
        self, chains: int, num_warmup: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if chains < self.least_chains:
            raise ValueError(
                "ChEES learns from how its chains differ, and needs at least 2 of them in one "
                "ensemble. Ask for more chains; with `numpyro.infer.MCMC` also say "
                'chain_method="vectorized". For one chain there are `HMC` and `NUTS`.'
            )
        if num_warmup == 0 and self._trajectory_length is None:
            raise ValueError(
                "ChEES learns the trajectory length in the warm-up, and there is none. Ask for "
                "a warm-up, or give `trajectory_length`."
            )

    def _start(self, key: Any, z: Any, density: Density) -> ChEESState:
        points = jax.vmap(lambda tree: ravel_pytree(tree)[0])(z)
        chains, dtype = points.shape[0], points.dtype
        gradient, terms = jax.vmap(density.gradient_and_terms)(points)
        potential = jax.vmap(potential_energy)(terms)
        length = self._step_size if self._trajectory_length is None else self._trajectory_length
        zeros = jnp.zeros(chains, dtype)
        return ChEESState(
            z=z,
            gradient=gradient,
            terms=terms,
            rng_key=key,
            iteration=jnp.zeros((), jnp.int32),
            adaptation=Adaptation.start(
                points,
                collected(self._mass, points, gradient),
                step_size=self._step_size,
                trajectory_length=length,
                mass=self._mass,
            ),
            statistics={
                "potential_energy": potential,
                "energy": potential,
                "accept_prob": zeros,
                "diverging": jnp.zeros(chains, bool),
                "num_steps": jnp.zeros(chains, jnp.int32),
                "step_size": jnp.full(chains, self._step_size, dtype),
                "trajectory_length": zeros,
            },
        )

    def _draw(self, state: ChEESState, density: Density) -> ChEESState:
        learned = state.adaptation
        warming = state.iteration < self._num_warmup
        step = learned.step.current(warming)
        step = jnp.maximum(step, jnp.finfo(step.dtype).tiny).astype(learned.log_length.dtype)
        length = jnp.exp(jnp.where(warming, learned.log_length, learned.averaged_log_length))
        share = 1 - self._jitter + self._jitter * van_der_corput(state.iteration + 1)
        # Clipped before it is an integer: a step size near 0 asks for more than one can hold.
        leapfrogs = jnp.clip(jnp.ceil(share * length / step), 1, self._max_leapfrogs)
        leapfrogs = leapfrogs.astype(jnp.int32)

        key, momentum_key, accept_key = jax.random.split(state.rng_key, 3)
        points = jax.vmap(lambda tree: ravel_pytree(tree)[0])(state.z)
        momenta = jax.random.normal(momentum_key, points.shape, points.dtype)
        uniform = jax.random.uniform(accept_key, points.shape[:1], points.dtype)

        def move(start: Point, noise: Any, drift: Any, leapfrogs: Any) -> Any:
            momentum, uniform = noise
            return unit_mass_step(
                start, momentum, uniform, density, drift=drift, leapfrogs=leapfrogs
            )

        start = Point(points, state.gradient, state.terms)
        end, momenta_after, proposal = self.over_chains(move)(
            start, (momenta, uniform), step * learned.scale, leapfrogs
        )
        decision = proposal.decision
        potential = jax.vmap(potential_energy)(end.terms)

        def adapted() -> Adaptation:
            return adapt(
                learned,
                chees_gradient(
                    points / learned.scale,
                    proposal.vector / learned.scale,
                    proposal.momentum,
                    leapfrogs * step,
                    decision.accept_prob,
                ),
                shared_acceptance(decision.accept_prob, jnp.isfinite(proposal.log_ratio)),
                collected(self._mass, end.vector, end.gradient),
                state.iteration,
                mass=self._mass,
                num_warmup=self._num_warmup or 0,
                target_accept=self._target_accept,
                learning_rate=self._learning_rate,
                max_leapfrogs=self._max_leapfrogs,
            )

        chains = points.shape[:1]
        return ChEESState(
            z=jax.vmap(density.unravel)(end.vector),
            gradient=end.gradient,
            terms=end.terms,
            rng_key=key,
            iteration=state.iteration + 1,
            # A branch, since what all chains learn has to travel between devices.
            adaptation=jax.lax.cond(warming, adapted, lambda: learned),
            statistics={
                "potential_energy": potential,
                "energy": potential + 0.5 * (momenta_after**2).sum(axis=1),
                "accept_prob": decision.accept_prob,
                "diverging": decision.diverging,
                "num_steps": jnp.broadcast_to(leapfrogs, chains),
                "step_size": jnp.broadcast_to(step, chains),
                "trajectory_length": jnp.broadcast_to(leapfrogs * step, chains),
            },
        )
