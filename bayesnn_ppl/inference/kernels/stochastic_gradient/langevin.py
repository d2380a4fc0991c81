"""Stochastic-gradient Langevin dynamics with momentum, by a choice of integrators."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StepSettings,
    StochasticGradientKernel,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.integrators import (
    baoab_step,
    bbk_step,
    leimkuhler_matthews_step,
    obabo_step,
    position_verlet_step,
    scaled_decay,
    symplectic_euler_step,
)

__all__ = ["Langevin", "LangevinVariables"]

type Integrator = Literal[
    "BAOAB", "OBABO", "symplectic_euler", "BBK", "position_verlet", "leimkuhler_matthews"
]
# Integrator -> the stationary distribution of its momenta, as the temperature diagnostics know it.
_KINETIC = {
    "BAOAB": "BAOAB",
    "OBABO": "OBABO",
    "symplectic_euler": "symplectic Euler",
    "BBK": "OBABO",
    "position_verlet": "OBABO",
    "leimkuhler_matthews": "none",
}


class LangevinVariables(NamedTuple):
    """What a chain has besides its position; None where the integrator has no use for it.

    Attributes:
        momentum: m, shape (d,).
        gradient: ∇Û at the position, from the step before, shape (d,).
        noise: the noise of the step before, shape (d,).
    """

    momentum: Any = None
    gradient: Any = None
    noise: Any = None


class Langevin(StochasticGradientKernel):
    """Langevin dynamics on minibatch gradients, one of them a step.

    Its target is exp(-U/T), up to the integrator's bias and that of the minibatch noise: noise of
    covariance V in the gradient adds εV to the momentum's 2T(1 - β)M of a step, as if T were
    larger by εV/(2(1 - β)M).

    Args:
        model: a NumPyro model of `(x, y)`.
        integrator: how a step of length h = √ε is made. On a Gaussian, for a curvature λ:

            * "BAOAB": Var(θ) = T/λ exactly; in general the least bias. The default.
            * "OBABO": (T/λ)/(1 - ελ/4); the momenta are exact, at the price of two noises.
            * "symplectic_euler": (T/λ)/(1 - ελ/(2(1 + β))); it is `SGHMC`. Its bias is O(ε) with
              a constant step, and O(√ε) with one that changes.
            * "BBK": (T/λ)/(1 - ελ/4); symplectic Euler with the step size ½(1 + β)ε.
            * "position_verlet": the gradient is taken in the middle of the step. O(ε).
            * "leimkuhler_matthews": SGLD with neighbouring noises averaged, without momentum:
              Var(θ) = T/λ exactly, with a constant step.
        momentum_decay: β in [0, 1), at the schedule's reference step size: the friction is
            (1 - β)/√ε, constant while ε changes. 0.9 unless given; Leimkuhler-Matthews has none.
        **settings: those of `StochasticGradientKernel`: step_size, batch_size, steps_per_draw,
            temperature, noise, preconditioner, gradient, minibatches, sub_batches, init_strategy.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Leimkuhler and Matthews (2013), Appl. Math. Res. Express 2013(1); see `integrators` for
        those of each.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        integrator: Integrator = "BAOAB",
        momentum_decay: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(model, **settings)
        if integrator not in _KINETIC:
            raise ValueError(
                f"`integrator` of Langevin is {integrator!r}, which is not one of them. "
                + near_misses(str(integrator), _KINETIC)
            )
        self.integrator = integrator
        self._normals = 2 if integrator == "OBABO" else 1
        if integrator == "leimkuhler_matthews":
            if momentum_decay is not None:
                raise ValueError(
                    "Leimkuhler-Matthews is the limit without momentum, so `momentum_decay="
                    f"{momentum_decay!r}` would change nothing. Leave it out, or choose "
                    '`integrator="BAOAB"`.'
                )
            self.momentum_decay = 0.0
            return
        decay = 0.9 if momentum_decay is None else momentum_decay
        zero = integrator != "position_verlet"
        self.momentum_decay = fraction(decay, "`momentum_decay` of Langevin", zero=zero)

    @property
    def kinetic_distribution(self) -> str:
        """By which the kinetic temperature of its momenta is judged."""
        return _KINETIC[self.integrator]

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> LangevinVariables:
        if self.integrator == "leimkuhler_matthews":
            return LangevinVariables(noise=settings.noise * normal)
        momentum = (settings.temperature * settings.mass) ** 0.5 * normal
        kept = self.integrator in ("BAOAB", "OBABO")
        return LangevinVariables(momentum, gradient(position) if kept else None)

    def _step(
        self,
        position: Any,
        variables: LangevinVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, LangevinVariables]:
        noises = tuple(settings.noise * normal for normal in normals)
        rates = {
            "step_size": settings.step_size,
            "temperature": settings.temperature,
            "mass": settings.mass,
        }
        if self.integrator == "leimkuhler_matthews":
            pair = (variables.noise, noises[0])
            position = leimkuhler_matthews_step(position, gradient(position), pair, **rates)
            return position, LangevinVariables(noise=noises[0])
        rates["momentum_decay"] = scaled_decay(
            self.momentum_decay, settings.step_size, self._reference_step_size
        )
        momentum = variables.momentum
        if self.integrator in ("symplectic_euler", "BBK"):
            step = bbk_step if self.integrator == "BBK" else symplectic_euler_step
            position, momentum = step(position, momentum, gradient(position), noises[0], **rates)
            return position, LangevinVariables(momentum)
        if self.integrator == "position_verlet":
            moved = position_verlet_step(position, momentum, noises[0], gradient, **rates)
            return moved[0], LangevinVariables(moved[1])
        if self.integrator == "OBABO":
            both = (noises[0], noises[1])
            end = obabo_step(position, momentum, variables.gradient, both, gradient, **rates)
        else:
            end = baoab_step(position, momentum, variables.gradient, noises[0], gradient, **rates)
        return end[0], LangevinVariables(*end[1:])
