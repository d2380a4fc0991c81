"""Langevin trajectories of minibatch gradients, and an accept step on the whole data at the end."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.inference.kernels.common.acceptance import fraction, metropolis, select
from bayesnn_ppl.inference.kernels.common.density import log_ratio
from bayesnn_ppl.inference.kernels.common.minibatches import data_shards
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StepSettings,
    StochasticGradientKernel,
    StochasticGradientState,
    WholeData,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import SVRG
from bayesnn_ppl.inference.kernels.stochastic_gradient.integrators import fluctuate

__all__ = ["OBABO", "OBABOVariables", "obabo_step_with_work"]

_AT_ONCE = 1024  # rows of the full potential


class OBABOVariables(NamedTuple):
    """What a chain has besides its position.

    Attributes:
        momentum: m, shape (d,).
        gradient: ∇Û at the position, on the minibatch of the step before, shape (d,).
        work: kinetic energy that the leapfrogs of the draw have added, shape ().
    """

    momentum: Any
    gradient: Any
    work: Any


def obabo_step_with_work(
    position: Any,
    momentum: Any,
    gradient: Any,
    noises: tuple[Any, Any],
    gradient_at: Any,
    *,
    step_size: Any,
    momentum_decay: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
) -> tuple[Any, Any, Any, Any]:
    r"""The step of `integrators.obabo_step`, and the kinetic energy that its leapfrog adds.

    Both halves of a leapfrog's kick may have gradients of different minibatches. Going back from
    its end, momentum reversed, with the two exchanged leads to its start, so that a trajectory of
    L steps, on minibatches b₀ ... b_L, is reversible: the same with b_L ... b₀, which is as
    probable. The noises keep N(0, T M) in detailed balance, and the leapfrogs keep volumes. So

        log ratio = -(U(θ_L) - U(θ_0) + Σ (K after - K before each leapfrog))/T,   K = ½ mᵀM⁻¹m

    is that of Metropolis and Hastings for the target exp(-U/T) N(m; 0, T M), with U of all the
    data.

    Args:
        As for `integrators.obabo_step`.

    Returns:
        `(position, momentum, gradient, work)`: work is K after minus K before, shape ().

    References:
        Garriga-Alonso and Fortuin (2021), arXiv:2102.01691; Bussi and Parrinello (2007).
    """
    h, half_decay = jnp.sqrt(step_size), jnp.sqrt(momentum_decay)
    before = fluctuate(momentum, noises[0], half_decay, temperature, mass)
    half_way = before - 0.5 * h * gradient
    position = position + h * half_way / mass
    gradient = gradient_at(position)
    after = half_way - 0.5 * h * gradient
    # The difference coordinate by coordinate: float32 cannot resolve it between the two sums.
    work = 0.5 * jnp.sum((after - before) * (after + before) / mass)
    momentum = fluctuate(after, noises[1], half_decay, temperature, mass)
    return position, momentum, gradient, work


class OBABO(StochasticGradientKernel):
    """Langevin dynamics on minibatches whose target is exactly exp(-U/T), whatever the step size.

    A draw is a trajectory of `steps_per_draw` steps with an accept step at its end, for which the
    potential is computed on the whole data, at both ends. A rejected trajectory repeats the draw,
    and turns the momentum round. The exactness has its price: each step's minibatch noise counts
    as an error of the energy, so the acceptance falls with the length of the trajectory, with the
    step size and with 1/B. The statistic `acceptance_rate` tells.

    Args:
        model: a NumPyro model of `(x, y)`.
        step_size: ε = h² > 0, a number: what changes on the way is not the same going back.
        momentum_decay: β in [0, 1).
        temperature: T > 0, a number.
        **settings: those of `StochasticGradientKernel` but `noise` and `minibatches`:
            batch_size, steps_per_draw, preconditioner (frozen after the warm-up), gradient (not
            SVRG, whose anchor follows the trajectory), sub_batches, init_strategy.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Garriga-Alonso and Fortuin (2021), arXiv:2102.01691.
    """

    accept_step = True
    recorded = (*StochasticGradientKernel.recorded, "accept_prob")
    kinetic_distribution = "OBABO"
    _normals = 2

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float,
        momentum_decay: float = 0.9,
        temperature: float = 1.0,
        **settings: Any,
    ) -> None:
        for name in ("noise", "minibatches"):
            if name in settings:
                raise TypeError(
                    f"OBABO has no `{name}`: its accept step is right for minibatches that are "
                    "drawn at random, and for all of the noise. Use `Langevin("
                    'integrator="OBABO")`, without an accept step.'
                )
        step_size = positive(step_size, "`step_size` of OBABO, whose steps are all alike,")
        temperature = positive(temperature, "`temperature` of OBABO, which does not change,")
        super().__init__(model, step_size=step_size, temperature=temperature, **settings)
        self.momentum_decay = fraction(momentum_decay, "`momentum_decay` of OBABO", zero=True)
        if self.preconditioner.always:
            raise ValueError(
                "The preconditioner of OBABO must not change while draws are made, but "
                f"{self.preconditioner} keeps moving. Use its frozen mode."
            )
        if isinstance(self.gradient, SVRG):
            raise ValueError(
                "`gradient=SVRG(...)` of OBABO has an anchor that follows the trajectory, which "
                "then cannot be gone back. Use `ControlVariate()`, whose anchor stays."
            )

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> OBABOVariables:
        momentum = (settings.temperature * settings.mass) ** 0.5 * normal
        return OBABOVariables(momentum, gradient(position), jnp.zeros((), momentum.dtype))

    def _step(
        self,
        position: Any,
        variables: OBABOVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, OBABOVariables]:
        position, momentum, after, work = obabo_step_with_work(
            position,
            variables.momentum,
            variables.gradient,
            (normals[0], normals[1]),
            gradient,
            step_size=settings.step_size,
            momentum_decay=self.momentum_decay,
            temperature=settings.temperature,
            mass=settings.mass,
        )
        return position, OBABOVariables(momentum, after, variables.work + work)

    def _finish(
        self,
        before: StochasticGradientState,
        after: StochasticGradientState,
        data: WholeData,
        key: Any,
    ) -> StochasticGradientState:
        old, new = ravel_pytree(before.z)[0], ravel_pytree(after.z)[0]
        ratio = self._log_ratio(new, old, data) - after.variables.work
        uniform = jax.random.uniform(key, (), new.dtype)
        decision = metropolis(ratio / self.temperature, uniform)
        # M may have changed on the way, in the warm-up, and the momentum is N(0, T M).
        masses = (self.preconditioner.mass(s.preconditioner) for s in (after, before))
        turned = self._rescale(before.variables, -jnp.sqrt(jnp.divide(*masses)))
        kept = (after.z, after.variables, after.statistics["kinetic_temperature"])
        repeated = (before.z, turned, before.statistics["kinetic_temperature"])
        z, variables, kinetic_temperature = select(decision.accepted, kept, repeated)
        told = {"kinetic_temperature": kinetic_temperature, "accept_prob": decision.accept_prob}
        return after._replace(
            z=z,
            variables=variables._replace(work=jnp.zeros_like(ratio)),
            statistics={**after.statistics, **told},
        )

    def _log_ratio(self, new: Any, old: Any, data: WholeData) -> Any:
        """-(U(new) - U(old)) of all rows, some at a time, differences formed term by term."""
        rows = data.x.shape[0]
        at_once = min(rows, _AT_ONCE if data_shards() == 1 else rows)

        def of(x: Any, y: Any) -> Any:
            settings = {"temperature": self.temperature, "share": x.shape[0] / rows}
            return log_ratio(*(data.density.terms(end, x, y, **settings) for end in (new, old)))

        def part(number: Any, total: Any) -> Any:
            cut = (
                jax.lax.dynamic_slice_in_dim(array, number * at_once, at_once)
                for array in (data.x, data.y)
            )
            return total + of(*cut)

        parts, rest = divmod(rows, at_once)
        total = jax.lax.fori_loop(0, parts, part, jnp.zeros((), new.dtype))
        return total + of(data.x[rows - rest :], data.y[rows - rest :]) if rest else total
