"""Stochastic-gradient microcanonical Langevin Monte Carlo."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.common.microcanonical_dynamics import (
    check_dimension,
    direction,
    kick,
    refresh,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StepSettings,
    StochasticGradientKernel,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.integrators import scaled_decay
from bayesnn_ppl.inference.schedules.simple import check_schedule

__all__ = ["SGMCLMC", "SGMCLMCVariables", "isokinetic_step"]


class SGMCLMCVariables(NamedTuple):
    """What a chain has besides its position.

    Attributes:
        momentum: m, shape (d,), with mᵀM⁻¹m = dT.
        kick_angle: δ of the last step, before it was shortened, shape ().
    """

    momentum: Any
    kick_angle: Any


def isokinetic_step(
    position: Any,
    momentum: Any,
    gradient: Any,
    noise: Any,
    *,
    step_size: Any,
    momentum_decay: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
    max_angle: Any = 1.0,
) -> tuple[Any, Any, Any]:
    r"""One step of microcanonical Langevin dynamics on exp(-U/T): kick, drift, refresh, drift.

    With q = M^{-1/2} m, whose length is always √(dT), h = √ε, f = -M^{-1/2} ∇Û(θ), e = f/|f|,
    c = q·e/|q|, the kick angle δ = h √(d/T) |f|/(d - 1) and ζ = (2 - δ)/(2 + δ):

        q ← √(dT) unit(2ζ q/|q| + (1 - ζ)(1 + ζ + c (1 - ζ)) e)
        θ ← θ + ½h M^{-1/2} q,   q ← √(dT) unit(q + √(T(β⁻² - 1)) ξ),   θ ← θ + ½h M^{-1/2} q

    where unit(v) = v/|v|. Every term has the size that it has for `symplectic_euler_step`: a step
    is as long, √(εdT) in the metric M, a small kick adds -h ∇Û to m, and β is what a step leaves
    of its direction.

    The flow of du/dt = -(I - u uᵀ) ∇Û/(d - 1) for a fixed gradient has ζ = e^{-δ}, which
    agrees to second order. On a Gaussian of many dimensions kicks by it leave variances that are
    (δ/2)/tanh(δ/2) = 1 + δ²/12 + ... times too large, whether force or noise makes the
    angle: the drift before and after a kick goes with the mean of both velocities, and the kick is
    too small for it by that factor. With this ζ it is not.

    Args:
        position, momentum, gradient: θ, m and ∇Û(θ), shape (d,), d ≥ 2. Of m only the direction
            of M^{-1/2} m counts.
        noise: ξ, standard normal, shape (d,); another size changes β.
        step_size: ε = h² > 0, shape ().
        momentum_decay: β in [0, 1], shape ().
        temperature: T > 0, shape ().
        mass: the diagonal of M, shape () or (d,).
        max_angle: kicks by a larger angle are shortened to it; below 2.

    Returns:
        `(position, momentum, δ)` after the step; δ is that of the whole kick, shape ().

    References:
        Robnik and Seljak (2024), arXiv:2303.18221; Sommer, Diao, Robnik, Seljak and Rügamer
        (2026), arXiv:2602.06500.
    """
    size = position.size
    root, h = jnp.sqrt(mass), jnp.sqrt(step_size)
    force = -gradient / root
    strength = jnp.sqrt(jnp.vdot(force, force)) / (size - 1)
    angle = h * jnp.sqrt(size / temperature) * strength
    # `kick` has ζ = e^{-time·strength}.
    time = 2 * jnp.arctanh(0.5 * jnp.minimum(angle, max_angle))
    time = time / jnp.maximum(strength, jnp.finfo(strength.dtype).tiny)
    velocity, _ = kick(momentum / root, force, time)
    half = 0.5 * h * jnp.sqrt(size * temperature) / root
    velocity = direction(velocity)
    position = position + half * velocity
    velocity = refresh(velocity, noise, -jnp.log(momentum_decay), 1.0)
    position = position + half * velocity
    return position, jnp.sqrt(size * temperature) * root * velocity, angle


class SGMCLMC(StochasticGradientKernel):
    """Microcanonical Langevin dynamics on minibatch gradients: the speed is fixed.

    A momentum has a fixed length, and gradients only turn it (`isokinetic_step`). So minibatch
    noise does not heat the chain as a whole, however large it is: with C_i the variance of
    the gradient in coordinate i and M = 1, the temperature of the coordinate is

        T_i = T (1 + κ_i)/(1 + mean κ),    κ_i = ε C_i/(2T(1 - β))

    for many coordinates and small steps, that is, the temperatures 1 + κ_i of `SGHMC` divided by
    their mean. Noise that is alike in all directions acts as part of the refreshment and leaves
    the target exp(-U/T) as it is; other noise makes noisy directions too wide and quiet ones too
    narrow. `preconditioner=bnn.preconditioners.GradientNoise()` makes it alike in all
    coordinates. It stays uneven where it is correlated: minibatch noise is large in the
    directions of which the data say much, and those of which they say nothing, which are what
    a network is uncertain of, keep the temperature T/(1 + mean κ). So keep mean κ small; with the
    kick angle δ, a statistic of the draws, it is at most δ²/(2(1 - β)).

    What is left without uneven noise is of second order in h = √ε. On a Gaussian of many dimensions
    with all rows in each minibatch it vanishes. Even noise leaves the mean of the temperatures and
    adds (ε/4)(λ_i - mean λ) κ/(1 + κ) of T to that of a coordinate of curvature λ_i (of
    M^{-1/2} ∇²U M^{-1/2}), to first order. With few coordinates there is a part of order δ²/d.

    The statistic `kinetic_temperature` of the sites shows noise that differs between them. Their
    mean over all coordinates is T always.

    Args:
        model: a NumPyro model of `(x, y)`, with at least two unconstrained coordinates.
        step_size: ε = h², a number or a schedule. A step has the length that it has on average
            in `SGHMC`; in the words of `MCLMC` it is √(εd).
        momentum_decay: β in [0, 1), at the schedule's reference step size: what a step leaves of
            the direction. In the words of `MCLMC` L = √(εd)/(1 - β). Where the step size is a
            schedule the friction (1 - β)/√ε is constant.
        max_angle: in (0, 2); larger kick angles are shortened to it, so one minibatch with
            an enormous gradient does not decide where a chain goes. If many kicks are
            shortened, as the statistic `kick_angle` tells, the draws are too wide.
        temperature: T > 0, a number or a schedule.
        **settings: those of `StochasticGradientKernel`: batch_size, steps_per_draw, noise,
            preconditioner, gradient, minibatches, sub_batches, init_strategy. `noise` is a factor
            on the refreshment; minibatch noise stays.

    Raises:
        TypeError, ValueError: an argument is out of range, or, when the model first runs, it has
            one coordinate.

    References:
        Sommer, Diao, Robnik, Seljak and Rügamer (2026), arXiv:2602.06500 (SMILE and pSMILE). They
        take two gradients a step, of one minibatch, have no refreshment but the noise (β = 1
        here, which is refused: coordinates without noise would stay cold), and tune the step by
        energy errors. The kick with ζ = (2 - δ)/(2 + δ) and the temperatures above are our own.
    """

    recorded = (*StochasticGradientKernel.recorded, "kick_angle")
    kinetic_distribution = "OBABO"

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        momentum_decay: float = 0.9,
        max_angle: float = 1.0,
        temperature: Any = 1.0,
        **settings: Any,
    ) -> None:
        check_schedule(temperature, "`temperature` of SGMCLMC, at which momenta have a length,")
        super().__init__(model, temperature=temperature, **settings)
        self.momentum_decay = fraction(momentum_decay, "`momentum_decay` of SGMCLMC", zero=True)
        self.max_angle = positive(max_angle, "`max_angle` of SGMCLMC")
        if self.max_angle >= 2:
            raise ValueError(
                f"`max_angle` of SGMCLMC is {self.max_angle:g}, but it must be below 2, where a "
                "kick leaves nothing of the velocity. Leave it out, or shorten the step."
            )

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> SGMCLMCVariables:
        check_dimension(position, "SGMCLMC", instead="SGHMC")
        length = jnp.sqrt(position.size * settings.temperature)
        momentum = length * jnp.sqrt(settings.mass) * direction(normal)
        return SGMCLMCVariables(momentum, jnp.zeros((), momentum.dtype))

    def _step(
        self,
        position: Any,
        variables: SGMCLMCVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, SGMCLMCVariables]:
        position, *rest = isokinetic_step(
            position,
            variables.momentum,
            gradient(position),
            settings.noise * normals[0],
            step_size=settings.step_size,
            momentum_decay=scaled_decay(
                self.momentum_decay, settings.step_size, self._reference_step_size
            ),
            temperature=settings.temperature,
            mass=settings.mass,
            max_angle=self.max_angle,
        )
        return position, SGMCLMCVariables(*rest)
