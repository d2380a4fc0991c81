"""The stochastic-gradient Nosé-Hoover thermostat: friction that finds the gradients' noise."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp

from bayesnn_ppl.core.arguments import near_misses, positive
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StepSettings,
    StochasticGradientKernel,
)
from bayesnn_ppl.inference.schedules.simple import reference

__all__ = ["SGNHT", "ThermostatKernel", "ThermostatVariables", "sgnht_step", "thermostat_step"]

# Momentum relaxations in which a thermostat answers, unless its mass is given.
_RESPONSE = 100.0


class ThermostatVariables(NamedTuple):
    """What a chain has besides its position; vectors of shape (d,).

    Attributes:
        momentum: m.
        thermostat: ξ, per unit of time.
        gradient: ∇Û at the position, from the step before; None where it is not needed.
    """

    momentum: Any
    thermostat: Any
    gradient: Any = None


def sgnht_step(
    position: Any,
    momentum: Any,
    thermostat: Any,
    gradient: Any,
    noise: Any,
    *,
    step_size: Any,
    injected: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
    thermostat_mass: Any = 1.0,
) -> tuple[Any, Any, Any]:
    r"""One Euler step of the multivariate thermostat, as it was published.

        m' = (1 - hξ) m - h ∇Û(θ) + √(2hAT) M^{1/2} z,    θ' = θ + h M⁻¹ m'
        ξ' = ξ + (h/Q)(m'²/M - T),  coordinate by coordinate, h = √ε

    Gradient noise of unknown size, of variance 2TMB a unit of time on each momentum, leaves

        exp(-U(θ)/T - mᵀM⁻¹m/(2T) - Q|ξ - A - B|²/(2T))

    invariant as h → 0: ξ finds A + B. At a finite step the thermostat holds m'² at T, where
    symplectic Euler by itself has 2T/(2 - hξ), so Var(θ) is T/λ times 1 - hξ/2: a bias of
    first order in h.

    Args:
        position, momentum, thermostat, gradient: θ, m, ξ and ∇Û(θ), shape (d,).
        noise: z, standard normal, shape (d,).
        step_size: ε = h², on the summed loss, shape ().
        injected: A, the friction whose noise is added, per unit of time, shape ().
        temperature: T, shape ().
        mass: the diagonal of M, shape () or (d,).
        thermostat_mass: Q, shape ().

    Returns:
        `(position, momentum, thermostat)` after the step.

    References:
        Ding et al. (2014), Bayesian Sampling Using Stochastic Gradient Thermostats, algorithm 2,
        with a thermostat for each coordinate.
    """
    h = jnp.sqrt(step_size)
    spread = jnp.sqrt(2 * h * injected * temperature * mass)
    momentum = (1 - h * thermostat) * momentum - h * gradient + spread * noise
    position = position + h * momentum / mass
    thermostat = thermostat + h / thermostat_mass * (momentum**2 / mass - temperature)
    return position, momentum, thermostat


def thermostat_step(
    position: Any,
    momentum: Any,
    thermostat: Any,
    gradient: Any,
    noise: Any,
    gradient_at: Any,
    rates: Callable[[Any], tuple[Any, Any]],
    *,
    step_size: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
    thermostat_mass: Any = 1.0,
) -> tuple[Any, Any, Any, Any]:
    r"""One step of a thermostat by the symmetric splitting B-A-D-O-D-A-B.

        B: m ← m - ½h ∇Û(θ)      A: θ ← θ + ½h M⁻¹ m      D: ξ ← ξ + (h/2Q)(m²/M - T)
        O: m ← e^{-hζ} m + √(TA(1 - e^{-2hζ})/ζ) M^{1/2} z,  with (ζ, A) the rates at ξ

    O solves dm = -ζm dt + √(2AT) M^{1/2} dW over the time h = √ε, exactly, whatever the sign of
    ζ. The thermostat looks at the momenta in the middle of the step, which on a Gaussian are
    exactly N(0, T M) where θ has exp(-U/T): the bias is of second order in h, and on a
    Gaussian there is none but what the thermostat's own motion makes.

    Args:
        position, momentum, thermostat, noise, step_size, temperature, mass, thermostat_mass: as
            for `sgnht_step`.
        gradient: ∇Û(θ), left over from the step before, shape (d,).
        gradient_at: θ -> ∇Û(θ); called once.
        rates: ξ -> (ζ, A), friction and injected friction per unit of time, shape (d,) or ().

    Returns:
        `(position, momentum, thermostat, gradient)` after the step.

    References:
        Leimkuhler and Shang (2016), SIAM J. Sci. Comput. 38(2), who call it BADODAB.
    """
    h = jnp.sqrt(step_size)

    def half_thermostat(thermostat: Any, momentum: Any) -> Any:
        return thermostat + 0.5 * h / thermostat_mass * (momentum**2 / mass - temperature)

    momentum = momentum - 0.5 * h * gradient
    position = position + 0.5 * h * momentum / mass
    thermostat = half_thermostat(thermostat, momentum)
    friction, injected = rates(thermostat)
    spread = jnp.sqrt(temperature * injected * h * _saturation(h * friction) * mass)
    momentum = jnp.exp(-h * friction) * momentum + spread * noise
    thermostat = half_thermostat(thermostat, momentum)
    position = position + 0.5 * h * momentum / mass
    gradient = gradient_at(position)
    return position, momentum - 0.5 * h * gradient, thermostat, gradient


def _saturation(x: Any) -> Any:
    """(1 - e^{-2x})/x, which is 2 - 2x + ... near 0."""
    small = jnp.abs(x) < 1e-3
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, 2 - 2 * x + 4 / 3 * x**2, -jnp.expm1(-2 * safe) / safe)


class ThermostatKernel(StochasticGradientKernel):
    """What kernels with a thermostat for each coordinate share; see `SGNHT` for the arguments."""

    kinetic_distribution = "thermostat"

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        momentum_decay: float = 0.9,
        thermostat_mass: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(model, **settings)
        name = type(self).__name__
        self.momentum_decay = fraction(momentum_decay, f"`momentum_decay` of {name}", zero=True)
        if thermostat_mass is not None:
            positive(thermostat_mass, f"`thermostat_mass` of {name}")
        self._thermostat_mass = thermostat_mass
        if not self.posterior_temperature > 0:
            raise ValueError(
                f"The temperature of {name} must be positive: a thermostat held at T = 0 would "
                "have to stop every momentum that the gradients make."
            )

    @property
    def _injected(self) -> float:
        """A, the friction whose noise is added: (1 - β)/h."""
        return (1 - self.momentum_decay) / reference(self.step_size) ** 0.5

    @property
    def _inertia(self) -> float:
        """Q."""
        if self._thermostat_mass is not None:
            return self._thermostat_mass
        return _RESPONSE * self.posterior_temperature / self._injected**2


class SGNHT(ThermostatKernel):
    """The stochastic-gradient Nosé-Hoover thermostat, one for each coordinate.

    Friction goes up until the momenta have temperature T, so that gradient noise heats nothing,
    as long as it is Gaussian, alike everywhere, and independent between coordinates; nobody needs
    to know its size. See `sgnht_step` for the stationary distribution.

    Args:
        model: a NumPyro model of `(x, y)`.
        integrator: "BADODAB" (Leimkuhler and Shang; second order in h, the default) or "euler"
            (Ding et al.; first order).
        momentum_decay: β in [0, 1): noise is added as by `SGHMC` with this β, and the thermostat
            begins at that friction, A = (1 - β)/h.
        thermostat_mass: Q > 0; 1 in Ding et al. The thermostats' own distribution is N(A + B, T/Q),
            so Q = 100 T/A², the default, makes them fluctuate by a tenth of A; they answer within
            100 (A + B)/A relaxation times 1/A of the momenta, 100/(1 - β) steps. Larger ones are
            slower, smaller ones add to the bias.
        **settings: those of `StochasticGradientKernel`: step_size, batch_size, steps_per_draw,
            temperature, noise, preconditioner, gradient, minibatches, sub_batches, init_strategy.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Ding et al. (2014); Leimkuhler and Shang (2016), SIAM J. Sci. Comput. 38(2).
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        integrator: Literal["BADODAB", "euler"] = "BADODAB",
        **settings: Any,
    ) -> None:
        super().__init__(model, **settings)
        known = ("BADODAB", "euler")
        if integrator not in known:
            raise ValueError(
                f"`integrator` of SGNHT is {integrator!r}, which is not one of them. "
                + near_misses(str(integrator), known)
            )
        self.integrator = integrator

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> ThermostatVariables:
        momentum = (settings.temperature * settings.mass) ** 0.5 * normal
        return ThermostatVariables(
            momentum,
            jnp.full_like(momentum, self._injected),
            gradient(position) if self.integrator == "BADODAB" else None,
        )

    def _step(
        self,
        position: Any,
        variables: ThermostatVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, ThermostatVariables]:
        momentum, thermostat, before = variables
        noise = settings.noise * normals[0]
        common = {
            "step_size": settings.step_size,
            "temperature": settings.temperature,
            "mass": settings.mass,
            "thermostat_mass": self._inertia,
        }
        if self.integrator == "euler":
            position, *rest = sgnht_step(
                position,
                momentum,
                thermostat,
                gradient(position),
                noise,
                injected=self._injected,
                **common,
            )
            return position, ThermostatVariables(*rest)
        position, *rest = thermostat_step(
            position,
            momentum,
            thermostat,
            before,
            noise,
            gradient,
            lambda thermostat: (thermostat, self._injected),
            **common,
        )
        return position, ThermostatVariables(*rest)
