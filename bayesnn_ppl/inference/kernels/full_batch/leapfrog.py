"""Trajectories of leapfrogs, and the accept step at their end; pure functions of arrays."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.inference.kernels.common.acceptance import Decision, metropolis
from bayesnn_ppl.inference.kernels.common.adaptation import search_step_size
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, log_ratio
from bayesnn_ppl.modeling.temperature import positive_temperature

__all__ = [
    "Point",
    "Proposal",
    "hmc_proposal",
    "hmc_step",
    "izmailov_trajectory",
    "search_leapfrog",
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


def hmc_proposal(
    start: Point, momentum: Any, density: Density, *, drift: Any, num_leapfrogs: Any
) -> tuple[Point, Any, Any]:
    r"""The end of a trajectory of leapfrogs, the momentum there, and the log acceptance ratio.

    In units where p ~ N(0, I), with `drift` = ε M^{-1/2}, repeated L times:

        p ← p - ½ε M^{-1/2} ∇U(θ),    θ ← θ + ε M^{-1/2} p,    p ← p - ½ε M^{-1/2} ∇U(θ)

    Adjacent half steps of the momentum are one step, so L leapfrogs take L gradients. The energy
    error is O(ε²) for a trajectory of fixed length. The log ratio is H(θ, p) - H(θ', p'), with
    H = U(θ) + |p|²/2: differences are formed for each term of U and each coordinate of p, and
    then summed together by `log_ratio`: float32 cannot resolve 0.03 in a sum near 5e5.

    Args:
        start: where the trajectory begins.
        momentum: p, standard normal, shape (d,).
        density: U, with any temperature already in it.
        drift: ε times the root of the diagonal of M⁻¹, shape () or (d,).
        num_leapfrogs: L ≥ 1; a traced number makes a loop of traced length.

    Returns:
        `(end, momentum, log_ratio)`: the point, p' of shape (d,), and the ratio of shape ().

    References:
        Neal (2011), MCMC using Hamiltonian dynamics, section 5.2.
    """

    def leapfrog(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        vector, half = carry
        half = half - drift * density.gradient(vector)
        return vector + drift * half, half

    half = momentum - 0.5 * drift * start.gradient
    # Flat vectors, and only gradients inside: both measured, benchmarks/speed/leapfrog.py.
    vector, half = jax.lax.fori_loop(
        1, num_leapfrogs, leapfrog, (start.vector + drift * half, half)
    )
    gradient, terms = density.gradient_and_terms(vector)
    end = half - 0.5 * drift * gradient
    # The difference of squares as a product: coordinate by coordinate, before the sum.
    ratio = log_ratio(terms, start.terms, 0.5 * (momentum - end) * (momentum + end))
    return Point(vector, gradient, terms), end, ratio


def hmc_step(
    start: Point, momentum: Any, uniform: Any, density: Density, **settings: Any
) -> tuple[Point, Any, Proposal]:
    """One draw that leaves exp(-U) invariant; T is part of U, and momenta have unit temperature.

    Args:
        start, momentum, density, settings: as for `hmc_proposal`.
        uniform: uniform on [0, 1), shape ().

    Returns:
        `(point, momentum, proposal)`: where the chain is now, with what momentum (d,), and what it
        was offered. A rejected proposal repeats `start` and the momentum that was given.
    """
    end, moving, ratio = hmc_proposal(start, momentum, density, **settings)
    decision = metropolis(ratio, uniform)
    point, kept = decision.choose((end, moving), (start, momentum))
    return point, kept, Proposal(end.vector, moving, ratio, decision)


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
        density: U.
        inverse_mass: the diagonal of M⁻¹, shape () or (d,).
        step_size: where the search begins, shape ().
        wanted: False to leave the step size as it is, without an evaluation.
    """
    noise = jax.random.normal(key, point.vector.shape, point.vector.dtype)

    def ratio(step_size: Any) -> Any:
        drift = step_size * jnp.sqrt(inverse_mass)
        return hmc_proposal(point, noise, density, drift=drift, num_leapfrogs=1)[2]

    return search_step_size(ratio, step_size, wanted=wanted)
