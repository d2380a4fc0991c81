"""The Metropolis-adjusted Langevin algorithm on the whole data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.inference.kernels.common.acceptance import flag, fraction, metropolis, select
from bayesnn_ppl.inference.kernels.common.adaptation import DualAveraging, search_step_size
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, log_ratio, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields

__all__ = ["MALA", "MALAState", "mala_proposal"]


@named_fields
class MALAState(NamedTuple):
    """What the next draw needs, and what a reader wants to know of the last one.

    Attributes:
        z: site -> unconstrained value.
        gradient, terms: ∇U(θ), shape (d,), and the terms of log p(θ).
        iteration: draws made, warm-up included.
        averaging: the adapted step size; None without adaptation.
        num_steps: gradients of a draw, 1.
        diverging: the log acceptance ratio is below -1000, or not finite.
    """

    z: Any
    gradient: Any
    terms: Terms
    rng_key: Any
    iteration: Any
    averaging: DualAveraging | None
    step_size: Any
    potential_energy: Any
    accept_prob: Any
    num_steps: Any
    diverging: Any


def mala_proposal(
    vector: Any, gradient: Any, terms: Terms, noise: Any, density: Density, *, step_size: Any
) -> tuple[Any, Any, Terms, Any]:
    r"""A step of Langevin dynamics, and the log ratio that makes it exact.

        θ' = θ - η ∇U(θ) + √(2η) ξ
        log ratio = U(θ) - U(θ') + ½|ξ|² - ½|ξ'|²,    ξ' = (θ - θ' + η ∇U(θ'))/√(2η)

    where ξ' is the noise that leads back. It is one leapfrog of HMC with unit mass, ε = √(2η)
    and momentum ξ, whose final momentum is -ξ'. The law exp(-U) is invariant; any temperature is
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


class MALA(ModelKernel):
    """Langevin proposals on the whole data, with an accept step: HMC with one leapfrog.

    The law is exp(-U(θ)) of the program, with whatever temperature it has.

    Args:
        model: a NumPyro program.
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

    accept_step = True
    _counts_divergences = True

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
        super().__init__(model, init_strategy=init_strategy, rows_at_once=rows_at_once)
        self._step_size = positive(step_size, "The step size of MALA")
        self._adapt_step_size = flag(adapt_step_size, "adapt_step_size of MALA")
        self._target_accept = fraction(target_accept, "target_accept of MALA")

    def _start(self, key: Any, z: Any, density: Density) -> MALAState:
        vector = ravel_pytree(z)[0]
        gradient, terms = density.gradient_and_terms(vector)
        step_size = jnp.asarray(self._step_size, vector.dtype)
        averaging = None
        if self._adapt_step_size:
            leapfrog_step = jnp.sqrt(2 * step_size)
            if self._num_warmup:
                key, search_key = jax.random.split(key)
                noise = jax.random.normal(search_key, vector.shape, vector.dtype)

                def ratio(step: Any) -> Any:
                    settings = {"step_size": step**2 / 2}
                    return mala_proposal(vector, gradient, terms, noise, density, **settings)[-1]

                leapfrog_step = search_step_size(ratio, leapfrog_step)
            averaging = DualAveraging.start(leapfrog_step)
            step_size = averaging.step_size**2 / 2
        return MALAState(
            z=z,
            gradient=gradient,
            terms=terms,
            rng_key=key,
            iteration=jnp.zeros((), jnp.int32),
            averaging=averaging,
            step_size=step_size,
            potential_energy=potential_energy(terms),
            accept_prob=jnp.zeros((), vector.dtype),
            num_steps=jnp.ones((), jnp.int32),
            diverging=jnp.zeros((), bool),
        )

    def _draw(self, state: MALAState, density: Density) -> MALAState:
        key, noise_key, accept_key = jax.random.split(state.rng_key, 3)
        vector = ravel_pytree(state.z)[0]
        warming = state.iteration < self._num_warmup
        averaging, step_size = state.averaging, jnp.asarray(self._step_size, vector.dtype)
        if averaging is not None:
            step_size = jnp.where(warming, averaging.step_size, averaging.averaged) ** 2 / 2
        *proposed, ratio = mala_proposal(
            vector,
            state.gradient,
            state.terms,
            jax.random.normal(noise_key, vector.shape, vector.dtype),
            density,
            step_size=step_size,
        )
        decision = metropolis(ratio, jax.random.uniform(accept_key, (), vector.dtype))
        vector, gradient, terms = decision.choose(
            tuple(proposed), (vector, state.gradient, state.terms)
        )
        if averaging is not None:
            updated = averaging.update(decision.accept_prob, self._target_accept)
            averaging = select(warming, updated, averaging)
        return MALAState(
            z=density.unravel(vector),
            gradient=gradient,
            terms=terms,
            rng_key=key,
            iteration=state.iteration + 1,
            averaging=averaging,
            step_size=step_size,
            potential_energy=potential_energy(terms),
            accept_prob=decision.accept_prob,
            num_steps=jnp.ones((), jnp.int32),
            diverging=decision.diverging,
        )
