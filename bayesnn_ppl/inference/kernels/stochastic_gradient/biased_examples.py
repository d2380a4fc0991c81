"""Teaching examples: minibatches put into HMC and Metropolis as if they were the data.

Both are biased, however many draws are made, and are here so that this can be seen. To sample a
posterior take `Langevin`, `SGHMC`, `SGNHT` or, exactly, `OBABO`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.scipy.special import ndtr

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.inference.kernels.common.acceptance import metropolis
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StepSettings,
    StochasticGradientKernel,
)

__all__ = ["BiasedMinibatchHMC", "BiasedMinibatchMetropolis"]


class TrajectoryVariables(NamedTuple):
    """The momentum m and the gradient ∇Û at the position, each of shape (d,)."""

    momentum: Any
    gradient: Any


class BiasedMinibatchHMC(StochasticGradientKernel):
    r"""Teaching example, biased: HMC with the gradient of another minibatch in each leapfrog.

    Every `num_leapfrogs` steps a new momentum is drawn from N(0, T M); in between

        m ← m - ½h ∇Û(θ),    θ ← θ + h M⁻¹ m,    m ← m - ½h ∇Û(θ),    h = √ε

    and nothing is accepted or rejected. The minibatch noise, of covariance V, heats each
    trajectory by h²V a leapfrog, and no friction takes the heat away: over a trajectory of length
    τ = Lh the energy grows as if T were larger by the order of hτV. At a fixed τ this falls only
    with h, that is with the cost; and an accept step on the whole data would reject nearly all
    of long trajectories.

    Args:
        model: a NumPyro model of `(x, y)`.
        num_leapfrogs: L, leapfrogs from one momentum to the next.
        **settings: those of `StochasticGradientKernel`.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Betancourt (2015), arXiv:1502.01510, on why this cannot be repaired by small steps.
    """

    kinetic_distribution = "OBABO"

    def __init__(
        self, model: Callable[..., Any], *, num_leapfrogs: int = 100, **settings: Any
    ) -> None:
        super().__init__(model, **settings)
        what = "`num_leapfrogs` of BiasedMinibatchHMC"
        self._num_leapfrogs = integer(num_leapfrogs, what, at_least=1)

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> TrajectoryVariables:
        momentum = (settings.temperature * settings.mass) ** 0.5 * normal
        return TrajectoryVariables(momentum, gradient(position))

    def _step(
        self,
        position: Any,
        variables: TrajectoryVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, TrajectoryVariables]:
        h = jnp.sqrt(settings.step_size)
        fresh = settings.noise * jnp.sqrt(settings.temperature * settings.mass) * normals[0]
        begins = settings.index % self._num_leapfrogs == 0
        momentum = jnp.where(begins, fresh, variables.momentum) - 0.5 * h * variables.gradient
        position = position + h * momentum / settings.mass
        after = gradient(position)
        return position, TrajectoryVariables(momentum - 0.5 * h * after, after)


class AcceptanceVariables(NamedTuple):
    """The acceptance probability of the last step, shape ()."""

    accept_prob: Any


class BiasedMinibatchMetropolis(StochasticGradientKernel):
    r"""Teaching example, biased: random-walk Metropolis with the potential of a minibatch.

        θ' = θ + √ε M^{-1/2} ξ,  accepted with probability min(1, exp(-(Û(θ') - Û(θ))/T))

    Û, of the step's minibatch, is unbiased for U, but min and exp are not linear: a difference
    with an error of standard deviation s is taken too often, and the draws are too wide, the more
    so the larger s is. It is right only where the minibatch is all the data: `batch_size` N.

    Args:
        model: a NumPyro model of `(x, y)`.
        **settings: those of `StochasticGradientKernel`.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Bardenet, Doucet and Holmes (2017), arXiv:1505.02827, section 4, for what is right.
    """

    recorded = (*StochasticGradientKernel.recorded, "accept_prob")
    _normals = 2

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> AcceptanceVariables:
        return AcceptanceVariables(jnp.zeros((), position.dtype))

    def _step(
        self,
        position: Any,
        variables: AcceptanceVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, AcceptanceVariables]:
        spread = settings.noise * jnp.sqrt(settings.step_size / settings.mass)
        proposed = position + spread * normals[0]
        difference = gradient.potential(proposed) - gradient.potential(position)
        uniform = ndtr(normals[1][0])
        decision = metropolis(-difference / settings.temperature, uniform)
        return decision.choose(proposed, position), AcceptanceVariables(decision.accept_prob)
