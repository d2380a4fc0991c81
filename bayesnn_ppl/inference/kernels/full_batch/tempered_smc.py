"""Sequential Monte Carlo: particles go from the prior to the posterior, and weigh the evidence."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_sample

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.inference.kernels.common.acceptance import fraction, select
from bayesnn_ppl.inference.kernels.common.density import Density, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import EnsembleKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.common.tempering import (
    Run,
    TemperedLikelihood,
    next_inverse_temperature,
    refuse_tempered_prior,
    reweighted,
)
from bayesnn_ppl.inference.kernels.full_batch.chees_adaptation import (
    chees_gradient,
    shared_acceptance,
    van_der_corput,
)
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, Proposal, unit_mass_step

__all__ = ["TemperedSMC", "TemperedSMCState"]


@named_fields
class TemperedSMCState(NamedTuple):
    """All particles; those of a run are side by side.

    Attributes:
        z: site -> unconstrained values, (chain, ...).
        log_likelihood: log L, (chain,).
        rng_key: one key for all.
        iteration: draws made, warm-up included.
        run: what each run has come to; leading axis the run.
        statistics: each of shape (chain,): potential_energy, -log p(θ) L(θ)^β; accept_prob, the
            mean over the trajectories of the draw, and diverging, of any of them; num_steps,
            gradients; step_size; and inverse_temperature, log_evidence and effective_share of
            the particle's run.
    """

    z: Any
    log_likelihood: Any
    rng_key: Any
    iteration: Any
    run: Run
    statistics: Any


class TemperedSMC(EnsembleKernel):
    r"""Particles from the prior to the posterior, through the powers of the likelihood.

    The chains are particles, in `runs` runs of N that know nothing of each other. They start at
    draws from the prior, β = 0. A draw of the warm-up is a stage:

    1. β rises to the β' at which the weights w = L^{β' - β}, made to sum to 1, leave the share
       1/(N Σ w²) = `effective_share` of the particles, or to 1 if that leaves more;
    2. the log evidence gains log mean L^{β' - β}, and N particles are drawn by the weights;
    3. each moves by `moves` trajectories of Hamiltonian Monte Carlo that leave p(θ) L(θ)^{β'}
       invariant.

    The masses are the inverse variances of the particles, the step size follows the harmonic
    mean of the acceptance probabilities, and the trajectory length follows ChEES. The last stage
    of the warm-up goes to β = 1 wherever it is, and may leave few particles: then
    `effective_share` is small, the evidence is uncertain, and a longer warm-up is needed. After
    the warm-up nothing is learned, and each draw of a particle is `moves` trajectories on the
    posterior. As N grows exp(log_evidence) tends to ∫ p(θ) L(θ) dθ; `bnn.metrics.log_evidence`
    reads it, and its error, from the runs.

    Args:
        model: a NumPyro model.
        runs: independent runs, by whose differences errors are estimated.
        moves: trajectories of each particle in a draw.
        effective_share: of the particles, that a stage of the warm-up leaves.
        target_accept: the harmonic mean acceptance probability that step sizes are for.
        max_leapfrogs: the most leapfrogs of a trajectory.
        init_strategy: for `numpyro.infer.MCMC`; anything but draws from the prior is wrong.

    Raises:
        TypeError, ValueError: an argument has the wrong type or is out of range; there are
            fewer than two particles a run, or not equally many; there is no warm-up; or the
            prior is tempered too (`cold`), whose draws are not where the particles start.

    References:
        Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68(3).
        Jasra et al. (2011), Inference for Lévy-driven stochastic volatility models via adaptive
        sequential Monte Carlo, Scandinavian Journal of Statistics 38(1), for the choice of β.
        Buchholz, Chopin and Jacob (2021), Adaptive tuning of Hamiltonian Monte Carlo within
        sequential Monte Carlo, Bayesian Analysis 16(3).
    """

    accept_step = True
    learns_trajectory_length = True
    starts_from_prior = True
    usual_run = MappingProxyType({"warmup": 100, "draws": 20, "chains": 256})
    recorded = (
        "diverging", "potential_energy", "num_steps", "accept_prob", "step_size",
        "log_evidence", "effective_share",
    )  # fmt: skip

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        runs: int = 4,
        moves: int = 3,
        effective_share: float = 0.5,
        target_accept: float = 0.651,
        max_leapfrogs: int = 1000,
        init_strategy: Any = init_to_sample,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy)
        self._runs = integer(runs, "`runs` of TemperedSMC", at_least=1)
        self._moves = integer(moves, "`moves` of TemperedSMC", at_least=1)
        self._effective_share = fraction(effective_share, "`effective_share` of TemperedSMC")
        self._target_accept = fraction(target_accept, "`target_accept` of TemperedSMC")
        self._max_leapfrogs = integer(max_leapfrogs, "`max_leapfrogs` of TemperedSMC", at_least=1)

    @property
    def superchains(self) -> int | None:
        return self._runs if self._runs > 1 else None

    def _check_ensemble(
        self, chains: int, num_warmup: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if chains < 2 * self._runs or chains % self._runs:
            raise ValueError(
                f"TemperedSMC has {self._runs} runs of at least 2 particles, and hundreds are "
                f"useful. `chains` is how many there are in all, a multiple of {self._runs}: "
                f"{64 * self._runs}, say, not {chains}."
            )
        if num_warmup == 0:
            raise ValueError(
                "TemperedSMC goes from the prior to the posterior in the warm-up, and there is "
                "none. Ask for a warm-up of 100, say: stages beyond those needed are used to mix."
            )
        refuse_tempered_prior(self._model, args, kwargs)

    def _start(self, key: Any, z: Any, density: Density) -> TemperedSMCState:
        points = jax.vmap(lambda tree: ravel_pytree(tree)[0])(z)
        at = TemperedLikelihood(**vars(density))
        terms = jax.vmap(at.terms)(points)
        log_likelihood = jax.vmap(at.log_likelihood)(terms, points)
        run = jax.vmap(Run.start)(points.reshape(self._runs, -1, points.shape[1]))
        chains = points.shape[0]
        nothing = jnp.zeros(chains, points.dtype)
        return TemperedSMCState(
            z=z,
            log_likelihood=log_likelihood,
            rng_key=key,
            iteration=jnp.zeros((), jnp.int32),
            run=run,
            statistics={
                "potential_energy": jax.vmap(potential_energy)(terms),
                "accept_prob": nothing,
                "diverging": jnp.zeros(chains, bool),
                "num_steps": jnp.zeros(chains, jnp.int32),
            }
            | _of_runs(run, chains),
        )

    def _draw(self, state: TemperedSMCState, density: Density) -> TemperedSMCState:
        key, draw_key = jax.random.split(state.rng_key)
        keys, resampling_keys = jax.vmap(jax.random.split, out_axes=1)(
            jax.random.split(draw_key, self._runs)
        )
        points = jax.vmap(lambda tree: ravel_pytree(tree)[0])(state.z)
        chains = points.shape[0]
        warming = state.iteration < (self._num_warmup or 0)

        # Devices take consecutive chains, and the trajectories of a run have a length of their own.
        # With whole runs some would wait for others, and on a CPU XLA ends a process in which one
        # waits for 40 s. So until the end the particles are dealt out, one of each run in turn.
        def dealt(tree: Any) -> Any:
            """Arrays (run, N, ...) as (chain, ...)."""
            return jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1).reshape(chains, *a.shape[2:]), tree)

        def by_run(tree: Any) -> Any:
            """And back."""
            return jax.tree.map(
                lambda a: jnp.swapaxes(a.reshape(-1, self._runs, *a.shape[1:]), 0, 1), tree
            )

        def in_order(tree: Any) -> Any:
            """Arrays of dealt particles in the order of chains, run after run."""
            return jax.tree.map(lambda a: a.reshape(chains, *a.shape[2:]), by_run(tree))

        def of_particles(of_runs: Any) -> Any:
            return dealt(jnp.repeat(of_runs[:, None], chains // self._runs, axis=1))

        run, points = jax.vmap(partial(self._reweighted, iteration=state.iteration))(
            state.run,
            points.reshape(self._runs, -1, points.shape[1]),
            state.log_likelihood.reshape(self._runs, -1),
            resampling_keys,
        )
        points, beta = dealt(points), of_particles(run.inverse_temperature)

        def at(beta: Any) -> TemperedLikelihood:
            return TemperedLikelihood(**vars(density), inverse_temperature=beta)

        def known(point: Any, beta: Any) -> Point:
            return Point(point, *at(beta).gradient_and_terms(point))

        def step(point: Point, given: Any) -> Any:
            momentum, uniform, beta, drift, leapfrogs = given
            return unit_mass_step(
                point, momentum, uniform, at(beta), drift=drift, leapfrogs=leapfrogs
            )

        def move(index: Any, carry: Any) -> Any:
            particles, run, statistics = carry
            fold = jax.vmap(jax.random.fold_in, (0, None))
            momentum_keys, uniform_keys = jax.vmap(jax.random.split, out_axes=1)(fold(keys, index))
            momenta = jax.vmap(lambda key: jax.random.normal(key, shape, dtype))(momentum_keys)
            uniform = jax.vmap(lambda key: jax.random.uniform(key, shape[:1], dtype))(uniform_keys)
            share = van_der_corput(state.iteration * self._moves + index + 1)
            leapfrogs = jnp.ceil(share * jnp.exp(run.log_length) / run.step_size)
            leapfrogs = jnp.clip(leapfrogs, 1, self._max_leapfrogs).astype(jnp.int32)
            drift = run.step_size[:, None] * run.scale
            given = (*dealt((momenta, uniform)), beta, of_particles(drift), of_particles(leapfrogs))
            moved, _, proposal = self.over_chains(step)(particles, given)
            learned = jax.vmap(self._learned)(
                run, by_run(particles.vector), by_run(proposal), leapfrogs * run.step_size
            )
            decision = proposal.decision
            statistics = {
                "accept_prob": statistics["accept_prob"] + decision.accept_prob / self._moves,
                "diverging": statistics["diverging"] | decision.diverging,
                "num_steps": statistics["num_steps"] + of_particles(leapfrogs),
            }
            return moved, select(warming, learned, run), statistics

        shape, dtype = (chains // self._runs, points.shape[1]), points.dtype
        nothing = {
            "accept_prob": jnp.zeros(chains, dtype),
            "diverging": jnp.zeros(chains, bool),
            "num_steps": jnp.ones(chains, jnp.int32),
        }
        particles = self.over_chains(known)(points, beta)
        particles, run, statistics = jax.lax.fori_loop(
            0, self._moves, move, (particles, run, nothing)
        )
        statistics["potential_energy"] = jax.vmap(potential_energy)(particles.terms)
        log_likelihood = jax.vmap(lambda beta, *known: at(beta).log_likelihood(*known))(
            beta, particles.terms, particles.vector
        )
        points, log_likelihood, statistics = in_order(
            (particles.vector, log_likelihood, statistics)
        )
        return TemperedSMCState(
            z=jax.vmap(density.unravel)(points),
            log_likelihood=log_likelihood,
            rng_key=key,
            iteration=state.iteration + 1,
            run=run,
            statistics=statistics | _of_runs(run, chains),
        )

    def _reweighted(
        self, run: Run, points: Any, log_likelihood: Any, key: Any, iteration: Any
    ) -> tuple[Run, Any]:
        """One run at the temperature of its next stage, and its N particles there, (N, d)."""
        warmup = self._num_warmup or 0
        found = next_inverse_temperature(
            log_likelihood, run.inverse_temperature, self._effective_share
        )
        beta = jnp.where(iteration + 1 >= warmup, 1.0, found).astype(points.dtype)
        tempered = beta > run.inverse_temperature
        run, chosen = reweighted(run, beta, points, log_likelihood, key, iteration < warmup)
        return run, jnp.where(tempered, points[chosen], points)

    def _learned(self, run: Run, before: Any, proposal: Proposal, length: Any) -> Run:
        """What one run learns of a trajectory from `before`, (N, d), of a length in time."""
        accept_prob = proposal.decision.accept_prob
        gradient = chees_gradient(
            before / run.scale, proposal.vector / run.scale, proposal.momentum, length, accept_prob
        )
        acceptance = shared_acceptance(accept_prob, jnp.isfinite(proposal.log_ratio))
        return run.learned(gradient, acceptance, self._target_accept, self._max_leapfrogs)


def _of_runs(run: Run, chains: int) -> dict[str, Any]:
    """Statistics that all particles of a run share, each of shape (chain,)."""
    names = ("inverse_temperature", "log_evidence", "effective_share", "step_size")
    return {
        name: jnp.repeat(getattr(run, name), chains // run.step_size.shape[0]) for name in names
    }
