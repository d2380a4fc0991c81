"""The Metropolis-adjusted Langevin algorithm on the whole data."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.inference.kernels.common.acceptance import select
from bayesnn_ppl.inference.kernels.common.adaptation import DualAveraging, search_step_size
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, log_ratio
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point
from bayesnn_ppl.inference.kernels.full_batch.metropolis_kernel import MetropolisKernel, Proposal

__all__ = ["MALA", "mala_proposal"]


def mala_proposal(
    vector: Any, gradient: Any, terms: Terms, noise: Any, density: Density, *, step_size: Any
) -> tuple[Any, Any, Terms, Any]:
    r"""A step of Langevin dynamics, and the log ratio that makes it exact.

        θ' = θ - η ∇U(θ) + √(2η) ξ
        log ratio = U(θ) - U(θ') + ½|ξ|² - ½|ξ'|²,    ξ' = (θ - θ' + η ∇U(θ'))/√(2η)

    where ξ' is the noise that leads back. It is one leapfrog of HMC with unit mass, ε = √(2η)
    and momentum ξ, whose final momentum is -ξ'. The target exp(-U) is invariant; any temperature is
    part of U. The log ratio is O(η^{3/2}).

    Args:
        vector, gradient, terms: θ and ∇U(θ), shape (d,), and the terms of log p(θ).
        noise: ξ, standard normal, shape (d,).
        density: U.
        step_size: η, shape ().

    Returns:
        `(vector, gradient, terms, log_ratio)` at θ'.

    References:
        Roberts and Tweedie (1996), Bernoulli 2(4), section 1.4.
    """
    spread = jnp.sqrt(2 * step_size)
    proposed = vector - step_size * gradient + spread * noise
    proposed_gradient, proposed_terms = density.gradient_and_terms(proposed)
    # (θ - θ')/√(2η) with θ' put in: subtracting the positions would lose digits in float32.
    noise_back = 0.5 * spread * (gradient + proposed_gradient) - noise
    noise_differences = 0.5 * (noise - noise_back) * (noise + noise_back)
    ratio = log_ratio(proposed_terms, terms, noise_differences)
    return proposed, proposed_gradient, proposed_terms, ratio


class MALA(MetropolisKernel):
    """Langevin proposals on the whole data, with an accept step: HMC with one leapfrog.

    The target is exp(-U(θ)) of the model, with whatever temperature it has.

    Args:
        model: a NumPyro model.
        step_size: η > 0 of the drift η∇U; ε = √(2η) is the step of the equal HMC.
        adapt_step_size: search and then dual averaging of √(2η) in the warm-up.
        target_accept: the mean acceptance probability that the adaptation aims at, in (0, 1);
            0.574 is optimal for many independent coordinates.
        init_strategy: NumPyro's, where `MCMC` of NumPyro starts the chain.
        rows_at_once: the most rows of the data that a gradient looks at together, for data whose
            whole gradient would not fit into memory; it is added up over blocks. None for all.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Roberts and Tweedie (1996); Roberts and Rosenthal (1998), J. R. Stat. Soc. B 60(1).
    """

    recorded = (*MetropolisKernel.recorded, "num_steps")
    _proposal_statistics = {"num_steps": jnp.int32}

    @strict_switches
    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float = 1e-4,
        adapt_step_size: bool = True,
        target_accept: float = 0.574,
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

    def _point(self, vector: Any, density: Density) -> Point:
        return Point(vector, *density.gradient_and_terms(vector))

    def _begin(self, key: Any, point: Point, density: Density) -> tuple[Any, Any]:
        if not self._adapt_step_size:
            return key, None
        leapfrog_step = jnp.sqrt(2 * jnp.asarray(self._step_size, point.vector.dtype))
        if self._num_warmup:
            key, search_key = jax.random.split(key)
            noise = jax.random.normal(search_key, point.vector.shape, point.vector.dtype)

            def ratio(step: Any) -> Any:
                return mala_proposal(*point, noise, density, step_size=step**2 / 2)[-1]

            leapfrog_step = search_step_size(ratio, leapfrog_step)
        return key, DualAveraging.start(leapfrog_step)

    def _step_size_of(self, adaptation: DualAveraging | None, iteration: Any, dtype: Any) -> Any:
        if adaptation is None:
            return jnp.asarray(self._step_size, dtype)
        return adaptation.current(iteration < self._num_warmup) ** 2 / 2

    def _propose(
        self, point: Point, keys: list[Any], density: Density, step_size: Any, adaptation: Any
    ) -> Proposal:
        noise = jax.random.normal(keys[0], point.vector.shape, point.vector.dtype)
        *proposed, ratio = mala_proposal(*point, noise, density, step_size=step_size)
        return Proposal(Point(*proposed), ratio, {"num_steps": jnp.ones((), jnp.int32)})

    def _adapted(
        self, adaptation: DualAveraging | None, accept_prob: Any, made: Any, vector: Any
    ) -> DualAveraging | None:
        if adaptation is None:
            return None
        updated = adaptation.update(accept_prob, self._target_accept)
        return select(made <= self._num_warmup, updated, adaptation)
