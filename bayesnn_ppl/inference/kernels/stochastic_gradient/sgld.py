"""Stochastic-gradient Langevin dynamics."""

from typing import Any

import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StepSettings,
    StochasticGradientKernel,
)

__all__ = ["SGLD", "sgld_step"]


def sgld_step(
    position: Any,
    gradient: Any,
    noise: Any,
    *,
    step_size: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
    drift: Any = 0.0,
) -> Any:
    r"""One step of overdamped Langevin dynamics on exp(-U(θ)/T).

        θ' = θ - ε M⁻¹ ∇U(θ) + ε T Γ + √(2εT) M^{-1/2} ξ

    For a curvature λ (of M^{-1/2} ∇²U M^{-1/2}) and a constant M the stationary variance is
    (T/λ)/(1 - ελ/2): the bias is O(ε), and it is stable for ελ < 2. Noise of covariance V in the
    gradient adds ε²V to that of a step, as if T were larger by εV/2.

    Args:
        position, gradient: θ and ∇U(θ), shape (d,).
        noise: ξ, standard normal, shape (d,).
        step_size: ε, shape ().
        temperature: T ≥ 0, shape ().
        mass: the diagonal of M, shape () or (d,).
        drift: Γ = ∂M⁻¹/∂θ where M moves with the position, shape () or (d,).

    Returns:
        θ', shape (d,).

    References:
        Welling and Teh (2011), whose step size is 2ε; Patterson and Teh (2013) for M and Γ.
    """
    spread = jnp.sqrt(2 * step_size * temperature / mass)
    return position - step_size * (gradient / mass - temperature * drift) + spread * noise


class SGLD(StochasticGradientKernel):
    """Stochastic-gradient Langevin dynamics.

    Its target is exp(-U/T), up to a bias O(ε) of the discretisation and of the minibatch noise. It
    has no momenta, hence no kinetic temperature.

    The arguments are those of `StochasticGradientKernel`.

    References:
        Welling and Teh (2011), Bayesian Learning via Stochastic Gradient Langevin Dynamics.
    """

    _takes_drift = True

    def _begin(self, position: Any, normal: Any, settings: StepSettings, gradient: Any) -> Any:
        return ()

    def _step(
        self,
        position: Any,
        variables: Any,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, Any]:
        position = sgld_step(
            position,
            gradient(position),
            settings.noise * normals[0],
            step_size=settings.step_size,
            temperature=settings.temperature,
            mass=settings.mass,
            drift=settings.drift,
        )
        return position, variables
