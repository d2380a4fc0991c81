"""Integrators of Langevin dynamics at temperature T, each with one gradient a step; pure steps.

All of them sample exp(-U(θ)/T), and the momenta N(0, T M), as their step goes to zero. The words
are the same for each: the step size ε is h², on the summed loss; the momentum decay β is what a
step leaves of a momentum, so the friction is γ = (1 - β)/h to first order; M is diagonal.
"""

from typing import Any

import jax.numpy as jnp

__all__ = [
    "baoab_step",
    "bbk_step",
    "fluctuate",
    "leimkuhler_matthews_step",
    "obabo_step",
    "position_verlet_step",
    "scaled_decay",
    "symplectic_euler_step",
]


def scaled_decay(momentum_decay: Any, step_size: Any, reference: Any) -> Any:
    """β at a step size ε that changes while the friction (1 - β)/√ε stays: 1 - √(ε/ε₀)(1 - β).

    A negative one, where ε is far above ε₀, becomes 0: no momentum. It happens only in the burn-in
    of a schedule of `schedules` that begins far above its reference, since that of any other
    function is its largest value.

    Args:
        momentum_decay: β at the step size ε₀.
        step_size, reference: ε and ε₀, positive.
    """
    return jnp.maximum(1 - jnp.sqrt(step_size / reference) * (1 - momentum_decay), 0.0)


def symplectic_euler_step(
    position: Any,
    momentum: Any,
    gradient: Any,
    noise: Any,
    *,
    step_size: Any,
    momentum_decay: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
) -> tuple[Any, Any]:
    r"""One step of underdamped Langevin dynamics; SGHMC's.

        m' = β m - √ε ∇U(θ) + √(2T(1 - β)) M^{1/2} ξ,    θ' = θ + √ε M⁻¹ m'

    The position moves with the *new* momentum: with the old one the bias of Var(θ) is O(h).
    For a curvature λ (of M^{-1/2} ∇²U M^{-1/2}) the stationary variances are exactly

        Var(θ) = F T/λ,  Var(M^{-1/2} m') = F 2T/(1 + β),  F = 1/(1 - ελ/(2(1 + β)))

    so the bias of θ is of second order in h = √ε, and the step is stable for ελ < 2(1 + β). With
    β = 0 it is SGLD, whose F = 1/(1 - ελ/2).

    Args:
        position, momentum, gradient: θ, m and ∇U(θ), shape (d,).
        noise: ξ, standard normal, shape (d,).
        step_size: ε = h² > 0, shape ().
        momentum_decay: β in [0, 1), shape ().
        temperature: T ≥ 0, shape ().
        mass: the diagonal of M, shape () or (d,).

    Returns:
        `(position, momentum)` after the step.

    References:
        Wenzel et al. (2020), arXiv:2002.02405, algorithm 1; Izmailov et al. (2021),
        arXiv:2104.14421, for the words.
    """
    h = jnp.sqrt(step_size)
    spread = jnp.sqrt(2 * temperature * (1 - momentum_decay) * mass)
    momentum = momentum_decay * momentum - h * gradient + spread * noise
    return position + h * momentum / mass, momentum


def bbk_step(
    position: Any,
    momentum: Any,
    gradient: Any,
    noise: Any,
    *,
    step_size: Any,
    momentum_decay: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
) -> tuple[Any, Any]:
    r"""One step of the method of Brünger, Brooks and Karplus, with momenta at half steps.

        m' = β m - ½(1 + β)√ε ∇U(θ) + √(T(1 - β²)) M^{1/2} ξ,    θ' = θ + √ε M⁻¹ m'

    Eliminating the momenta gives their recursion of positions, with β = (1 - hγ/2)/(1 + hγ/2):

        (1 + hγ/2) θ' - 2θ + (1 - hγ/2) θ_before = -h² M⁻¹ ∇U(θ) + h √(2hγT) M^{-1/2} ξ.

    It is symplectic Euler at the step size ½(1 + β)ε, with the momenta times √(½(1 + β)): the
    stationary variances are F T/λ and F T with F = 1/(1 - ελ/4), whatever the friction.

    Args and returns: those of `symplectic_euler_step`.

    References:
        Brünger, Brooks and Karplus (1984), Chem. Phys. Lett. 105(5).
    """
    h = jnp.sqrt(step_size)
    spread = jnp.sqrt(temperature * (1 - momentum_decay**2) * mass)
    kick = 0.5 * (1 + momentum_decay) * h
    momentum = momentum_decay * momentum - kick * gradient + spread * noise
    return position + h * momentum / mass, momentum


def baoab_step(
    position: Any,
    momentum: Any,
    gradient: Any,
    noise: Any,
    gradient_at: Any,
    *,
    step_size: Any,
    momentum_decay: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
) -> tuple[Any, Any, Any]:
    r"""Kick, drift, fluctuate, drift, kick: the splitting with the least bias in θ.

        B: m ← m - ½√ε ∇U(θ)         A: θ ← θ + ½√ε M⁻¹ m
        O: m ← β m + √(T(1 - β²)) M^{1/2} ξ        then A, and B with the gradient at the end

    For a Gaussian, Var(θ) = T/λ at every stable step (ελ < 4), and Var(M^{-1/2} m) is
    T(1 - ελ/4). In general the bias of θ is of second order in h = √ε, and of fourth in the
    limit of much friction.

    Args:
        position, momentum, noise, step_size, momentum_decay, temperature, mass: as for
            `symplectic_euler_step`.
        gradient: ∇U(θ), left over from the step before; shape (d,).
        gradient_at: θ -> ∇U(θ); called once.

    Returns:
        `(position, momentum, gradient)` after the step, the gradient at that position.

    References:
        Leimkuhler and Matthews (2013), Appl. Math. Res. Express 2013(1).
    """
    h = jnp.sqrt(step_size)
    momentum = momentum - 0.5 * h * gradient
    position = position + 0.5 * h * momentum / mass
    momentum = fluctuate(momentum, noise, momentum_decay, temperature, mass)
    position = position + 0.5 * h * momentum / mass
    gradient = gradient_at(position)
    return position, momentum - 0.5 * h * gradient, gradient


def obabo_step(
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
) -> tuple[Any, Any, Any]:
    r"""Fluctuate, leapfrog, fluctuate: the splitting whose momenta have exactly N(0, T M).

        O: m ← √β m + √(T(1 - β)) M^{1/2} ξ,  B,  A of a whole step,  B,  and O again

    For a Gaussian, Var(θ) = (T/λ)/(1 - ελ/4) and Var(M^{-1/2} m) = T, at every stable step
    (ελ < 4): second order in h = √ε.

    Args:
        noises: two vectors (d,), standard normal, for the two O.
        The others: as for `baoab_step`.

    Returns:
        `(position, momentum, gradient)` after the step, the gradient at that position.

    References:
        Bussi and Parrinello (2007), Phys. Rev. E 75, 056707.
    """
    h, half_decay = jnp.sqrt(step_size), jnp.sqrt(momentum_decay)
    momentum = fluctuate(momentum, noises[0], half_decay, temperature, mass)
    momentum = momentum - 0.5 * h * gradient
    position = position + h * momentum / mass
    gradient = gradient_at(position)
    momentum = momentum - 0.5 * h * gradient
    momentum = fluctuate(momentum, noises[1], half_decay, temperature, mass)
    return position, momentum, gradient


def position_verlet_step(
    position: Any,
    momentum: Any,
    noise: Any,
    gradient_at: Any,
    *,
    step_size: Any,
    momentum_decay: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
) -> tuple[Any, Any]:
    r"""Stochastic position Verlet: half a drift, the momentum's equation exactly, half a drift.

        θ½ = θ + ½√ε M⁻¹ m,    θ' = θ½ + ½√ε M⁻¹ m'
        m' = β m - √ε (1 - β)/(-log β) ∇U(θ½) + √(T(1 - β²)) M^{1/2} ξ

    which is the solution, over a time h = √ε, of dm = -∇U(θ½) dt - γ m dt + √(2γT) M^{1/2} dW
    with β = e^{-γh}. Second order in h.

    Args:
        position, momentum, noise, step_size, temperature, mass: as for `symplectic_euler_step`.
        gradient_at: θ -> ∇U(θ); called once, in the middle of the step.
        momentum_decay: β in (0, 1), shape (): without momentum nothing moves.

    Returns:
        `(position, momentum)` after the step.

    References:
        Melchionna (2007), J. Chem. Phys. 127, 044108.
    """
    h = jnp.sqrt(step_size)
    middle = position + 0.5 * h * momentum / mass
    kick = h * (1 - momentum_decay) / -jnp.log(momentum_decay)
    momentum = fluctuate(momentum, noise, momentum_decay, temperature, mass)
    momentum = momentum - kick * gradient_at(middle)
    return middle + 0.5 * h * momentum / mass, momentum


def leimkuhler_matthews_step(
    position: Any,
    gradient: Any,
    noises: tuple[Any, Any],
    *,
    step_size: Any,
    temperature: Any = 1.0,
    mass: Any = 1.0,
) -> Any:
    r"""One step of overdamped Langevin dynamics, with the mean of two neighbouring noises.

        θ' = θ - ε M⁻¹ ∇U(θ) + √(2εT) M^{-1/2} ½(ξ_n + ξ_{n+1})

    For a Gaussian, Var(θ) = T/λ at every stable step (ελ < 2), where SGLD has a factor
    1/(1 - ελ/2); in general the bias of θ is of second order in ε. It is BAOAB with β = 0 and
    step size 2ε.

    Args:
        position, gradient: θ and ∇U(θ), shape (d,).
        noises: (ξ_n, ξ_{n+1}), standard normal, each of shape (d,). The second is the first of
            the next step.
        step_size, temperature, mass: as for `symplectic_euler_step`.

    Returns:
        The position after the step.

    References:
        Leimkuhler and Matthews (2013), Appl. Math. Res. Express 2013(1).
    """
    spread = jnp.sqrt(2 * step_size * temperature / mass)
    return position - step_size * gradient / mass + spread * 0.5 * (noises[0] + noises[1])


def fluctuate(momentum: Any, noise: Any, decay: Any, temperature: Any, mass: Any) -> Any:
    """β m + √(T(1 - β²)) M^{1/2} ξ: the Ornstein-Uhlenbeck process around N(0, T M)."""
    return decay * momentum + jnp.sqrt(temperature * (1 - decay**2) * mass) * noise
