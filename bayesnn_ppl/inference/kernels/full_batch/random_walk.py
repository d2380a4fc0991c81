"""Random-walk Metropolis: the oldest Markov chain, for teaching."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, log_ratio
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point
from bayesnn_ppl.inference.kernels.full_batch.metropolis_kernel import MetropolisKernel, Proposal

__all__ = ["RandomWalk", "random_walk_proposal"]


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


class RandomWalk(MetropolisKernel):
    """Random-walk Metropolis with Gaussian proposals: no gradient, one density a draw.

    The number of draws it needs grows with the dimension, HMC's with its fourth root: fit for a
    few parameters, and for showing what gradients are worth. The target is exp(-U(θ)) of the
    model, with whatever temperature it has.

    Args:
        model: a NumPyro model.
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

    @strict_switches
    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float = 0.1,
        adapt_step_size: bool = True,
        target_accept: float = 0.234,
        init_strategy: Any = init_to_uniform,
    ) -> None:
        super().__init__(
            model,
            step_size=step_size,
            adapt_step_size=adapt_step_size,
            target_accept=target_accept,
            init_strategy=init_strategy,
        )

    def _point(self, vector: Any, density: Density) -> Point:
        return Point(vector, None, density.terms(vector))

    def _begin(self, key: Any, point: Point, density: Density) -> tuple[Any, Any]:
        return key, jnp.asarray(self._step_size, point.vector.dtype)

    def _step_size_of(self, adaptation: Any, iteration: Any, dtype: Any) -> Any:
        return adaptation

    def _propose(
        self, point: Point, keys: list[Any], density: Density, step_size: Any, adaptation: Any
    ) -> Proposal:
        noise = jax.random.normal(keys[0], point.vector.shape, point.vector.dtype)
        vector, terms, ratio = random_walk_proposal(
            point.vector, point.terms, noise, density, step_size=step_size
        )
        return Proposal(Point(vector, None, terms), ratio, {})

    def _adapted(self, adaptation: Any, accept_prob: Any, made: Any, vector: Any) -> Any:
        if not self._adapt_step_size:
            return adaptation
        gain = (accept_prob - self._target_accept) / jnp.sqrt(made.astype(vector.dtype))
        return jnp.where(made <= self._num_warmup, adaptation * jnp.exp(gain), adaptation)
