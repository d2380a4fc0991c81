r"""Adaptive thermostat Monte Carlo: as much noise is added as the gradients lack.

The sampler here is derived from the principle that Heek and Kalchbrenner state: momentum and noise
of each parameter's update are adjusted, as it goes, so as to compensate for the stochastic
gradients. Their own equations were not at hand, and the details may differ. With a thermostat ξ
for each coordinate, ξ is an estimate of the friction B that the gradient noise, of unknown
variance 2TMB a unit of time, asks for; γ is the friction that is wanted; and

    dθ = M⁻¹ m dt,    dm = -∇U dt - ζ m dt + √(2AT) M^{1/2} dW + √(2BT) M^{1/2} dW',
    dξ = (1/Q)(m²/M - T) dt,    A = max(γ - ξ, 0),  ζ = A + ξ = max(γ, ξ).

Noise in the gradients takes the place of noise that would have been added; only where it is more
than the friction γ balances does friction go up. Friction is never below γ, unlike SGNHT's.

Proof that exp(-U/T - mᵀM⁻¹m/(2T)) N(ξ; B, T/Q) is stationary. The Hamiltonian part preserves it. In
one coordinate with M = 1 the rest of the Fokker-Planck equation is, applied to the density ρ,

    ∂_m(ζ m ρ) + T(A + B) ∂_m² ρ - ∂_ξ((m² - T) ρ)/Q
        = ρ (1 - m²/T) ζ + ρ (m²/T - 1)(A + B) + ρ (m² - T)(ξ - B)/T
        = ρ (m²/T - 1)(-ζ + A + B + ξ - B) = 0,  as ζ = A + ξ,

whatever the function A(ξ) ≥ 0. A constant A gives SGNHT, with ξ shifted by A.
"""

from typing import Any

import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.stochastic_gradient.base import StepSettings
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgnht import (
    ThermostatKernel,
    ThermostatVariables,
    thermostat_step,
)

__all__ = ["ATMC", "adaptive_rates"]


def adaptive_rates(thermostat: Any, friction: Any) -> tuple[Any, Any]:
    """(ζ, A) = (max(γ, ξ), max(γ - ξ, 0)): the friction, and the part of it that adds noise.

    Args:
        thermostat: ξ, shape (d,).
        friction: γ, shape ().
    """
    return jnp.maximum(friction, thermostat), jnp.maximum(friction - thermostat, 0.0)


class ATMC(ThermostatKernel):
    """Adaptive thermostat Monte Carlo: added noise makes way for that of the gradients.

    Its target is exp(-U/T), under gradient noise of unknown size that is Gaussian, alike everywhere
    and independent between coordinates; see the module for the proof. Integrated by the splitting
    of `thermostat_step`, of second order in h. Compared with SGNHT's, its friction is not
    higher than it needs to be, and never negative.

    Args:
        model: a NumPyro model of `(x, y)`.
        momentum_decay: β in [0, 1): the friction wanted is γ = (1 - β)/h.
        thermostat_mass: Q > 0; the thermostats' own distribution is N(B, T/Q), and the default
            Q = 100 T/γ² makes them fluctuate by a tenth of γ.
        **settings: those of `StochasticGradientKernel`: step_size, batch_size, steps_per_draw,
            temperature, noise, preconditioner, gradient, minibatches, sub_batches, init_strategy.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Heek and Kalchbrenner (2019), arXiv:1908.03491, for the principle.
    """

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> ThermostatVariables:
        momentum = (settings.temperature * settings.mass) ** 0.5 * normal
        return ThermostatVariables(momentum, jnp.zeros_like(momentum), gradient(position))

    def _step(
        self,
        position: Any,
        variables: ThermostatVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, ThermostatVariables]:
        position, *rest = thermostat_step(
            position,
            variables.momentum,
            variables.thermostat,
            variables.gradient,
            settings.noise * normals[0],
            gradient,
            lambda thermostat: adaptive_rates(thermostat, self._injected),
            step_size=settings.step_size,
            temperature=settings.temperature,
            mass=settings.mass,
            thermostat_mass=self._inertia,
        )
        return position, ThermostatVariables(*rest)
