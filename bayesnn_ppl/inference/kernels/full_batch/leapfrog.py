"""Trajectories of leapfrogs, and the accept step at their end; pure functions of arrays."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.inference.kernels.common.acceptance import Decision, metropolis
from bayesnn_ppl.inference.kernels.common.adaptation import search_step_size
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, log_ratio, potential_energy
from bayesnn_ppl.modeling.temperature import positive_temperature

__all__ = [
    "Point",
    "Proposal",
    "hmc_proposal",
    "hmc_step",
    "izmailov_trajectory",
    "search_leapfrog",
    "unit_mass_step",
]


class Point(NamedTuple):
    """A position with what is known there: θ and ∇U(θ), shape (d,), and the terms of log p."""

    vector: Any
    gradient: Any
    terms: Terms


def izmailov_trajectory(prior_variance: float, temperature: float = 1.0) -> float:
    """τ = (π/2) √(T · prior variance), a quarter of the period of the prior N(0, prior variance).

    After a quarter of its period a harmonic oscillator of unit mass has forgotten where it was.

    Raises:
        TypeError, ValueError: either is not a positive and finite number.

    Example:
        >>> round(izmailov_trajectory(1 / 5), 4)
        0.7025

    References:
        Izmailov et al. (2021), arXiv:2104.14421, section 3.
    """
    prior_variance = positive(prior_variance, "The prior variance")
    temperature = positive_temperature(temperature, "`izmailov_trajectory`")
    return 0.5 * math.pi * math.sqrt(temperature * prior_variance)


def hmc_proposal(
    start: Point,
    noise: Any,
    density: Density,
    *,
    step_size: Any,
    inverse_mass: Any = 1.0,
    num_leapfrogs: Any,
) -> tuple[Point, Any, Any]:
    r"""The end of a trajectory of leapfrogs, the log acceptance ratio, and the kinetic energy.

    With p = M^{1/2} ξ, repeated L times:

        p ← p - (ε/2) ∇U(θ),    θ ← θ + ε M⁻¹ p,    p ← p - (ε/2) ∇U(θ)

    Adjacent half steps of the momentum are one step, so L leapfrogs take L gradients. The energy
    error is O(ε²) for a trajectory of fixed length. The log ratio is H(θ, p) - H(θ', p'), with
    H = U(θ) + pᵀM⁻¹p/2: differences are formed for each term of U and each coordinate of p, and
    then summed together by `log_ratio`: float32 cannot resolve 0.03 in a sum near 5e5.

    Args:
        start: where the trajectory begins.
        noise: ξ, standard normal, shape (d,).
        density: U, with any temperature already in it.
        step_size: ε, shape ().
        inverse_mass: the diagonal of M⁻¹, shape () or (d,).
        num_leapfrogs: L ≥ 1; a traced number makes a loop of traced length.

    Returns:
        `(end, log_ratio, kinetic)`: the latter two of shape (), kinetic energy p'ᵀM⁻¹p'/2.

    References:
        Neal (2011), MCMC using Hamiltonian dynamics, section 5.2.
    """
    momentum = noise / jnp.sqrt(inverse_mass)
    drift = step_size * inverse_mass

    def leapfrog(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        vector, half = carry
        half = half - step_size * density.gradient(vector)
        return vector + drift * half, half

    half = momentum - 0.5 * step_size * start.gradient
    # Flat vectors, and only gradients inside: both measured, benchmarks/speed/leapfrog.py.
    vector, half = jax.lax.fori_loop(
        1, num_leapfrogs, leapfrog, (start.vector + drift * half, half)
    )
    gradient, terms = density.gradient_and_terms(vector)
    end_momentum = half - 0.5 * step_size * gradient
    kinetic_differences = 0.5 * inverse_mass * (momentum - end_momentum) * (momentum + end_momentum)
    kinetic = 0.5 * jnp.sum(inverse_mass * end_momentum**2)
    ratio = log_ratio(terms, start.terms, kinetic_differences)
    return Point(vector, gradient, terms), ratio, kinetic


def hmc_step(
    start: Point, noise: Any, uniform: Any, density: Density, **settings: Any
) -> tuple[Point, Any, Decision]:
    """One draw that leaves exp(-U) invariant; T is part of U, and momenta have unit temperature.

    Args:
        start, noise, density, settings: as for `hmc_proposal`.
        uniform: uniform on [0, 1), shape ().

    Returns:
        `(point, energy, decision)`: a rejected proposal repeats `start`; the energy is the
        Hamiltonian H of the point that is kept.
    """
    end, ratio, kinetic = hmc_proposal(start, noise, density, **settings)
    decision = metropolis(ratio, uniform)
    point = decision.choose(end, start)
    # Momenta at the two ends of a rejected trajectory differ: |p|²_M = |ξ|² at its start.
    kinetic = decision.choose(kinetic, 0.5 * jnp.sum(noise**2))
    return point, potential_energy(point.terms) + kinetic, decision


def search_leapfrog(
    key: Any,
    point: Point,
    density: Density,
    inverse_mass: Any,
    step_size: Any,
    wanted: Any = True,
) -> Any:
    """A step size with which one leapfrog is accepted with a probability of about 0.8.

    Args:
        key: of its momentum.
        point: where it begins.
        density, inverse_mass: as for `hmc_proposal`.
        step_size: where the search begins, shape ().
        wanted: False to leave the step size as it is, without an evaluation.
    """
    noise = jax.random.normal(key, point.vector.shape, point.vector.dtype)

    def ratio(step_size: Any) -> Any:
        settings = {"step_size": step_size, "inverse_mass": inverse_mass, "num_leapfrogs": 1}
        return hmc_proposal(point, noise, density, **settings)[1]

    return search_step_size(ratio, step_size, wanted=wanted)


class Proposal(NamedTuple):
    """The end of a trajectory, and what became of it.

    Attributes:
        vector, momentum: θ' and p', shape (d,), in units where p ~ N(0, I).
        log_ratio: H(θ, p) - H(θ', p'), shape ().
        decision: whether it was accepted.
    """

    vector: Any
    momentum: Any
    log_ratio: Any
    decision: Decision


def unit_mass_step(
    start: Point, momentum: Any, uniform: Any, density: Density, *, drift: Any, leapfrogs: Any
) -> tuple[Point, Any, Proposal]:
    """One draw of a chain that leaves exp(-U) invariant, in units where p ~ N(0, I).

    Args:
        start: where the chain is.
        momentum: p, standard normal, shape (d,).
        uniform: uniform on [0, 1), shape ().
        density: U.
        drift: ε s, with s² the inverse mass; shape () or (d,).
        leapfrogs: L ≥ 1, shape ().

    Returns:
        `(point, momentum, proposal)`: where the chain is now, with what momentum (d,), and what
        it was offered.
    """
    end, moving = unit_mass_trajectory(start, momentum, density, drift, leapfrogs)
    # The difference of squares as a product: coordinate by coordinate, before the sum.
    ratio = log_ratio(end.terms, start.terms, 0.5 * (momentum - moving) * (momentum + moving))
    decision = metropolis(ratio, uniform)
    point, kept = decision.choose((end, moving), (start, momentum))
    return point, kept, Proposal(end.vector, moving, ratio, decision)


def unit_mass_trajectory(
    start: Point, momentum: Any, density: Density, drift: Any, leapfrogs: Any
) -> tuple[Point, Any]:
    """The end of a trajectory, and the momentum there.

    With s² the inverse mass and `drift` = ε s,

        p ← p - ½ε s ∇U(θ),   θ ← θ + ε s p,   p ← p - ½ε s ∇U(θ),

    where half steps of the momentum that meet are one step.
    """

    def step(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        vector, moving = carry
        moving = moving - drift * density.gradient(vector)
        return vector + drift * moving, moving

    moving = momentum - 0.5 * drift * start.gradient
    vector, moving = jax.lax.fori_loop(1, leapfrogs, step, (start.vector + drift * moving, moving))
    gradient, terms = density.gradient_and_terms(vector)
    return Point(vector, gradient, terms), moving - 0.5 * drift * gradient
