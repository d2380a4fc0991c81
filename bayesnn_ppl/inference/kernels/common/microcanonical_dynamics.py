"""Microcanonical dynamics on vectors: a velocity of length one, turned by the gradient.

For U on R^d and |u| = 1 the flow

    dx/dt = u,    du/dt = -(I - u uᵀ) ∇U(x) / (d - 1)

conserves H = (d - 1) K + U with a kinetic part K that only its changes enter, and leaves
exp(-U(x)) dx du, u uniform on the sphere, invariant. It is split in drifts (A: x moves along u)
and kicks (B: u is turned at fixed x), which are both solved exactly.

A preconditioner is a vector of scales s: the dynamics run in x/s, with gradient s ∇U. Positions and
gradients here are those of x; step sizes and lengths are in units of x/s.

References:
    Robnik, De Luca, Silverstein and Seljak (2023), Microcanonical Hamiltonian Monte Carlo,
    arXiv:2212.08549. Robnik and Seljak (2024), Fluctuation without dissipation,
    arXiv:2303.18221 (the Langevin form). Omelyan, Mryglod and Folk (2003), Computer Physics
    Communications 151 (the coefficients).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

__all__ = [
    "MINIMAL_NORM",
    "Point",
    "check_dimension",
    "check_preconditioning",
    "direction",
    "kick",
    "refresh",
    "trajectory",
]

# The first coefficient of the second-order splitting B-A-B-A-B whose error is least.
MINIMAL_NORM = 0.1931833275037836


class Point(NamedTuple):
    """Where a trajectory is: vectors of shape (d,).

    Attributes:
        position: x.
        velocity: u, of length one.
        gradient: ∇U(x), not scaled.
    """

    position: Any
    velocity: Any
    gradient: Any


def check_preconditioning(value: object, name: str) -> str:
    """`value` if it is one of the words; ValueError otherwise."""
    if value not in ("diagonal", "identity"):
        raise ValueError(
            f'`preconditioning` of {name} must be "diagonal" or "identity", not {value!r}.'
        )
    return str(value)


def check_dimension(vector: Any, name: str, instead: str = "NUTS") -> None:
    """Raise ValueError where the velocity of the kernel `name` would have nowhere to turn."""
    if vector.size < 2:
        raise ValueError(
            f"{name} needs a model with at least two unconstrained coordinates: the velocity lives "
            f"on a sphere, which in one dimension is two points. This model has {vector.size}. "
            f"Use {instead}."
        )


def direction(noise: Any) -> Any:
    """A vector of length one, uniform on the sphere when `noise` (d,) is standard normal."""
    return noise / jnp.sqrt(jnp.vdot(noise, noise))


def refresh(velocity: Any, noise: Any, time: Any, length: Any) -> Any:
    """Forget part of the velocity, as much as a time t forgets at the decoherence length L.

    u' = (u + ν z)/|u + ν z|,    ν = √((e^{2t/L} - 1)/d)

    The velocity stays uniformly distributed on the sphere for every ν. The direction decays as
    e^{-t/L}; half a step is t = ε/2, where ν is the √((e^{ε/L} - 1)/d) of the papers.

    Args:
        velocity, noise: shape (d,); `noise` is standard normal.
        time, length: t and L > 0, shape ().
    """
    # Beyond e^40 nothing of u is left, and the exponential would overflow.
    strength = jnp.sqrt(jnp.expm1(jnp.minimum(2 * time / length, 40.0)) / velocity.size)
    return direction(velocity + strength * noise)


def kick(velocity: Any, force: Any, time: Any) -> tuple[Any, Any]:
    """Turn the velocity towards the force at a fixed position; `(u', ΔK)`.

    With e = f/|f|, c = u·e, δ = t |f|/(d - 1) and ζ = e^{-δ}:

        u' ∝ 2ζ u + (1 - ζ)(1 + ζ + c (1 - ζ)) e
        ΔK = (d - 1) log(cosh δ + c sinh δ)

    -ΔK is also the log-determinant of the map on the sphere. Below δ = 1 the logarithm is
    that of 1 + 2 sinh²(δ/2) + c sinh δ, which loses nothing as δ → 0; above, it is
    δ + log((1 + c + (1 - c) ζ²)/2), which does not overflow. The velocity is brought back to
    length one on entry, so rounding does not pile up.

    Args:
        velocity: u, shape (d,), d ≥ 2.
        force: f = -s ∇U(x), shape (d,). Where it is 0 nothing turns.
        time: t ≥ 0, shape ().
    """
    tiny = jnp.finfo(velocity.dtype).tiny
    speed = jnp.sqrt(jnp.vdot(velocity, velocity))
    size = jnp.sqrt(jnp.vdot(force, force))
    inverse = 1 / jnp.maximum(size, tiny)
    # Straight against the force the direction after a strong kick is 0/0.
    lowest = -1 + jnp.finfo(velocity.dtype).eps
    cosine = jnp.clip(jnp.vdot(velocity, force) * inverse / speed, lowest, 1.0)
    angle = time * size / (velocity.size - 1)
    zeta = jnp.exp(-angle)
    rest = -jnp.expm1(-angle)
    total = (1 + cosine) + (1 - cosine) * zeta**2
    along = rest * (1 + zeta + cosine * rest)
    turned = (2 * zeta / (speed * total)) * velocity + (along * inverse / total) * force
    near = jnp.minimum(angle, 1.0)
    growth = jnp.where(
        angle < 1,
        jnp.log1p(2 * jnp.sinh(near / 2) ** 2 + cosine * jnp.sinh(near)),
        angle + jnp.log(jnp.maximum(total / 2, tiny)),
    )
    return turned, (velocity.size - 1) * growth


def trajectory(
    point: Point, gradient: Callable[[Any], Any], *, steps: Any, step_size: Any, scale: Any
) -> tuple[Point, Any]:
    """`steps` steps of B-A-B-A-B without a refreshment, and the change of the kinetic energy.

    One step is kick b₁ε, drift ε/2, kick (1 - 2b₁)ε, drift ε/2, kick b₁ε, of second order: the
    energy error of a step is O(ε³), that of a trajectory of fixed length O(ε²). It is
    reversible: after u → -u it leads back. Kicks at one position add up, so the last of a step
    and the first of the next are one; each step evaluates two gradients, and the one at the
    start is the caller's.

    Args:
        point: where to start.
        gradient: x -> ∇U(x).
        steps: at least 1; may be traced.
        step_size: ε, shape ().
        scale: s, shape (d,) or ().

    Returns:
        `(point, ΔK)`. The energy error is ΔK + U(x') - U(x).
    """

    def push(velocity: Any, gradient: Any, fraction: Any) -> tuple[Any, Any]:
        return kick(velocity, -scale * gradient, fraction * step_size)

    def step(index: Any, carry: tuple[Point, Any]) -> tuple[Point, Any]:
        (position, velocity, _), kinetic = carry
        position = position + (0.5 * step_size) * scale * velocity
        velocity, middle = push(velocity, gradient(position), 1 - 2 * MINIMAL_NORM)
        position = position + (0.5 * step_size) * scale * velocity
        last = gradient(position)
        share = jnp.where(index + 1 < steps, 2 * MINIMAL_NORM, MINIMAL_NORM)
        velocity, end = push(velocity, last, share)
        return Point(position, velocity, last), kinetic + middle + end

    velocity, kinetic = push(point.velocity, point.gradient, MINIMAL_NORM)
    return jax.lax.fori_loop(0, steps, step, (point._replace(velocity=velocity), kinetic))
