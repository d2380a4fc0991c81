"""Random-walk Metropolis: the oldest Markov chain, for teaching."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.inference.kernels.common.acceptance import flag, fraction, metropolis
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, log_ratio, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields

__all__ = ["RandomWalk", "RandomWalkState", "random_walk_proposal"]


@named_fields
class RandomWalkState(NamedTuple):
    """What the next draw needs, and what a reader wants to know of the last one.

    Attributes:
        z: site -> unconstrained value.
        terms: the terms of log p(θ), so that they are not computed twice.
        iteration: draws made, warm-up included.
        next_step_size: the proposal's standard deviation in the next draw.
        step_size: the one of the last draw.
        diverging: the log acceptance ratio is below -1000, or not finite.
    """

    z: Any
    terms: Terms
    rng_key: Any
    iteration: Any
    next_step_size: Any
    step_size: Any
    potential_energy: Any
    accept_prob: Any
    diverging: Any


def random_walk_proposal(
    vector: Any, terms: Terms, noise: Any, density: Density, *, step_size: Any
) -> tuple[Any, Terms, Any]:
    """θ' = θ + sξ, and log p(θ') - log p(θ): the proposal is symmetric.

    Args:
        vector, terms: θ, shape (d,), and the terms of log p(θ), any temperature in them.
        noise: ξ, standard normal, shape (d,).
        density: U = -log p.
        step_size: s, shape ().

    Returns:
        `(vector, terms, log_ratio)` at θ'.

    References:
        Metropolis et al. (1953), J. Chem. Phys. 21(6).
    """
    proposed = vector + step_size * noise
    proposed_terms = density.terms(proposed)
    return proposed, proposed_terms, log_ratio(proposed_terms, terms)


class RandomWalk(ModelKernel):
    """Random-walk Metropolis with Gaussian proposals: no gradient, one density a draw.

    The number of draws it needs grows with the dimension, HMC's with its fourth root: fit for a
    few parameters, and for showing what gradients are worth. The law is exp(-U(θ)) of the
    program, with whatever temperature it has.

    Args:
        model: a NumPyro program.
        step_size: s > 0, the standard deviation of a proposal in each unconstrained coordinate.
        adapt_step_size: in the warm-up, after draw t with acceptance α,
            log s ← log s + (α - target)/√t  (Robbins and Monro).
        target_accept: the mean acceptance probability that the adaptation aims at, in (0, 1);
            0.234 is optimal for many independent coordinates.
        init_strategy: NumPyro's, where `MCMC` of NumPyro starts the chain.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Roberts, Gelman and Gilks (1997), Ann. Appl. Probab. 7(1); Andrieu and Thoms (2008), Stat.
        Comput. 18, section 4.
    """

    accept_step = True
    _counts_divergences = True

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float = 0.1,
        adapt_step_size: bool = True,
        target_accept: float = 0.234,
        init_strategy: Any = init_to_uniform,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy)
        self._step_size = positive(step_size, "The step size of RandomWalk")
        self._adapt_step_size = flag(adapt_step_size, "adapt_step_size of RandomWalk")
        self._target_accept = fraction(target_accept, "target_accept of RandomWalk")

    def _start(self, key: Any, z: Any, density: Density) -> RandomWalkState:
        vector = ravel_pytree(z)[0]
        terms = density.terms(vector)
        step_size = jnp.asarray(self._step_size, vector.dtype)
        return RandomWalkState(
            z=z,
            terms=terms,
            rng_key=key,
            iteration=jnp.zeros((), jnp.int32),
            next_step_size=step_size,
            step_size=step_size,
            potential_energy=potential_energy(terms),
            accept_prob=jnp.zeros((), vector.dtype),
            diverging=jnp.zeros((), bool),
        )

    def _draw(self, state: RandomWalkState, density: Density) -> RandomWalkState:
        key, noise_key, accept_key = jax.random.split(state.rng_key, 3)
        vector = ravel_pytree(state.z)[0]
        step_size = state.next_step_size
        proposed, proposed_terms, ratio = random_walk_proposal(
            vector,
            state.terms,
            jax.random.normal(noise_key, vector.shape, vector.dtype),
            density,
            step_size=step_size,
        )
        decision = metropolis(ratio, jax.random.uniform(accept_key, (), vector.dtype))
        vector, terms = decision.choose((proposed, proposed_terms), (vector, state.terms))
        made = state.iteration + 1
        next_step_size = step_size
        if self._adapt_step_size:
            gain = (decision.accept_prob - self._target_accept) / jnp.sqrt(
                made.astype(vector.dtype)
            )
            next_step_size = jnp.where(
                made <= self._num_warmup, step_size * jnp.exp(gain), step_size
            )
        return RandomWalkState(
            z=density.unravel(vector),
            terms=terms,
            rng_key=key,
            iteration=made,
            next_step_size=next_step_size,
            step_size=step_size,
            potential_energy=potential_energy(terms),
            accept_prob=decision.accept_prob,
            diverging=decision.diverging,
        )
