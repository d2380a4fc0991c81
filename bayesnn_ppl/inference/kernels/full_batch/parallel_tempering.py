"""Parallel tempering: hot replicas of the posterior carry a chain from mode to mode."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import integer, positive
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.common.adaptation import DualAveraging
from bayesnn_ppl.inference.kernels.common.density import (
    Density,
    Terms,
    jacobian_sites,
    log_ratio,
    potential_energy,
)
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, hmc_step

__all__ = ["ParallelTempering", "ParallelTemperingState", "Rung", "exchange"]


@dataclass(frozen=True)
class Rung(Density):
    """A density at a temperature of the whole posterior: own sites count with weight β = 1/T.

    The Jacobians of constrained sites keep weight 1, so that a rung is [p(y|θ) p(θ)]^β in the
    model's own coordinates, as `cold` has it.

    Attributes:
        inverse_temperature: β, shape (); may be traced.
    """

    inverse_temperature: Any = 1.0

    def terms(self, vector: Any) -> Terms:
        """Site -> its log densities at this temperature, element by element."""
        own, jacobians = self.parts(super().terms(vector), vector)
        return {name: self.inverse_temperature * term for name, term in own.items()} | jacobians

    def parts(self, terms: Terms, vector: Any) -> tuple[Terms, Terms]:
        """The terms of the model's own sites, and those of the Jacobians."""
        jacobians = jacobian_sites(terms, self.unravel(vector))
        return (
            {name: term for name, term in terms.items() if name not in jacobians},
            {name: term for name, term in terms.items() if name in jacobians},
        )


@named_fields
class ParallelTemperingState(NamedTuple):
    """One chain with its ladder of K temperatures.

    Attributes:
        z: site -> unconstrained value at T = 1.
        hot: the replicas at the other temperatures, shape (K - 1, d).
        iteration: draws made, warm-up included.
        averaging: dual averaging of K step sizes; each attribute has shape (K,).
        statistics: potential_energy; accept_prob and diverging, of the Hamiltonian step at T = 1,
            before the exchange; num_steps, gradients of all replicas together; step_size, at
            T = 1; swap_prob, the probability of exchanging neighbours, shape (K - 1,), of which
            only every second pair is tried in one draw.
    """

    z: Any
    hot: Any
    rng_key: Any
    iteration: Any
    averaging: DualAveraging
    statistics: Any


def exchange(swap_prob: Any, uniform: Any, iteration: Any) -> Any:
    """Which replica each temperature takes over: even pairs in even draws, odd pairs in odd.

    Args:
        swap_prob: the acceptance probability of exchanging k and k + 1, shape (K - 1,).
        uniform: uniform on [0, 1), shape (K - 1,).
        iteration: decides the pairs.

    Returns:
        Indices, shape (K,): a product of exchanges that do not overlap.

    References:
        Syed, Bouchard-Côté, Deligiannidis, Doucet (2022), Non-reversible parallel tempering: a
        scalable highly parallel MCMC scheme, JRSS B 84(2), arXiv:1905.02939.
    """
    lower = jnp.arange(swap_prob.shape[0])
    swapped = ((uniform < swap_prob) & (lower % 2 == iteration % 2)).astype(jnp.int32)
    return jnp.arange(len(lower) + 1) + jnp.pad(swapped, (0, 1)) - jnp.pad(swapped, (1, 0))


class ParallelTempering(ModelKernel):
    r"""Hamiltonian Monte Carlo at several temperatures, which exchange their positions.

    Each chain has a ladder 1 = T₁ < ... < T_K; what it returns is at T = 1. One draw is a step of
    HMC at every temperature, on p_k(θ) ∝ [p(y|θ) p(θ)]^{1/T_k} with Jacobians at weight 1, then
    exchanges of neighbours k and k + 1, even pairs in even draws and odd pairs in odd ones, with
    probability

        min(1, exp((1/T_k - 1/T_{k+1}) (log p(y, θ_{k+1}) - log p(y, θ_k))))

    in the model's own coordinates. It leaves the product of all p_k invariant, for any step
    sizes. HMC takes L leapfrogs, L uniform on 1, ..., `num_leapfrogs` and the same for all
    temperatures; every temperature adapts a step size of its own in the warm-up.

    A draw costs K times the gradients of HMC. It pays where modes are separated by barriers that
    T_K lowers to about 1, and neighbours are near enough to exchange (look at `swap_prob`).

    Args:
        model: a NumPyro model.
        temperatures: T₁ = 1, ..., T_K, increasing.
        num_leapfrogs: the most leapfrogs of a draw.
        step_size: at T = 1 at the start of the warm-up, or without one always; at T it is √T
            times as large.
        target_accept: mean acceptance probability that the step sizes are adapted to.
        init_strategy: NumPyro's, for `numpyro.infer.MCMC`; `sample` has starts of its own.

    Raises:
        TypeError, ValueError: an argument has the wrong type or is out of range.

    References:
        Geyer (1991), Markov chain Monte Carlo maximum likelihood, Interface Proceedings.
        Syed et al. (2022), arXiv:1905.02939, for the deterministic even-odd scheme.
    """

    accept_step = True
    recorded = ("diverging", "potential_energy", "num_steps", "accept_prob", "step_size")

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        temperatures: Iterable[float] = (1.0, 1.6, 2.5, 4.0, 6.4, 10.0),
        num_leapfrogs: int = 20,
        step_size: float = 0.1,
        target_accept: float = 0.8,
        init_strategy: Any = init_to_uniform,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy)
        if isinstance(temperatures, str) or not isinstance(temperatures, Iterable):
            raise TypeError(
                "`temperatures` of ParallelTempering must be a sequence such as (1, 2, 4), "
                f"not {temperatures!r}."
            )
        ladder = tuple(
            positive(value, "Each of the `temperatures` of ParallelTempering")
            for value in temperatures
        )
        rising = all(a < b for a, b in zip(ladder, ladder[1:], strict=False))
        if len(ladder) < 2 or ladder[0] != 1 or not rising:
            raise ValueError(
                "`temperatures` of ParallelTempering must begin with 1, the posterior itself, and "
                f"rise to at least one other, such as (1, 2, 4); not {ladder}."
            )
        self._temperatures = ladder
        self._num_leapfrogs = integer(
            num_leapfrogs, "`num_leapfrogs` of ParallelTempering", at_least=1
        )
        self._step_size = positive(step_size, "`step_size` of ParallelTempering")
        self._target_accept = fraction(target_accept, "`target_accept` of ParallelTempering")

    def _start(self, key: Any, z: Any, density: Density) -> ParallelTemperingState:
        vector, _ = ravel_pytree(z)
        rungs = len(self._temperatures)
        steps = self._step_size * jnp.sqrt(jnp.asarray(self._temperatures, vector.dtype))
        return ParallelTemperingState(
            z=z,
            hot=jnp.broadcast_to(vector, (rungs - 1, *vector.shape)),
            rng_key=key,
            iteration=jnp.zeros((), jnp.int32),
            averaging=jax.vmap(DualAveraging.start)(steps),
            statistics={
                "potential_energy": density.potential(vector),
                "accept_prob": jnp.zeros((), vector.dtype),
                "diverging": jnp.zeros((), bool),
                "num_steps": jnp.zeros((), jnp.int32),
                "step_size": steps[0],
                "swap_prob": jnp.zeros(rungs - 1, vector.dtype),
            },
        )

    def _draw(self, state: ParallelTemperingState, density: Density) -> ParallelTemperingState:
        vector, _ = ravel_pytree(state.z)
        points = jnp.concatenate([vector[None], state.hot])
        rungs, dtype = points.shape[0], points.dtype
        warming = state.iteration < (self._num_warmup or 0)
        steps = state.averaging.current(warming)
        betas = 1 / jnp.asarray(self._temperatures, dtype)
        key, noise_key, accept_key, length_key, swap_key = jax.random.split(state.rng_key, 5)
        noise = jax.random.normal(noise_key, points.shape, dtype)
        uniform = jax.random.uniform(accept_key, (rungs,), dtype)
        leapfrogs = jax.random.randint(length_key, (), 1, self._num_leapfrogs + 1, jnp.int32)

        def step(vector: Any, beta: Any, noise: Any, uniform: Any, step_size: Any) -> Any:
            rung = Rung(**vars(density), inverse_temperature=beta)
            start = Point(vector, *rung.gradient_and_terms(vector))
            point, _, decision = hmc_step(
                start, noise, uniform, rung, step_size=step_size, num_leapfrogs=leapfrogs
            )
            own, jacobians = rung.parts(point.terms, point.vector)
            own = jax.tree.map(lambda term: term / beta, own)
            return point.vector, own, potential_energy(own | jacobians), decision

        points, own, potentials, decision = jax.vmap(step)(
            points, betas, noise, uniform, steps.astype(dtype)
        )
        colder, hotter = (
            jax.tree.map(lambda a, s=s: a[s], own) for s in (slice(-1), slice(1, None))
        )
        gain = (betas[:-1] - betas[1:]) * jax.vmap(log_ratio)(hotter, colder)
        swap_prob = jnp.exp(jnp.minimum(gain, 0.0))
        order = exchange(
            swap_prob, jax.random.uniform(swap_key, swap_prob.shape, dtype), state.iteration
        )
        points, potentials = points[order], potentials[order]

        adapted = jax.vmap(lambda a, p: a.update(p, self._target_accept))(
            state.averaging, decision.accept_prob
        )
        averaging = jax.tree.map(
            lambda new, old: jnp.where(warming, new, old).astype(old.dtype),
            adapted,
            state.averaging,
        )
        return ParallelTemperingState(
            z=density.unravel(points[0]),
            hot=points[1:],
            rng_key=key,
            iteration=state.iteration + 1,
            averaging=averaging,
            statistics={
                "potential_energy": potentials[0],
                "accept_prob": decision.accept_prob[0],
                "diverging": decision.diverging[0],
                "num_steps": rungs * (leapfrogs + 1),
                "step_size": steps[0].astype(dtype),
                "swap_prob": swap_prob,
            },
        )
