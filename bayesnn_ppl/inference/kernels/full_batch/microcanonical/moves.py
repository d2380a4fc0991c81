"""The moves of microcanonical Langevin Monte Carlo: a chain's state, a step, a stretch of steps."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.acceptance import select
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.microcanonical_dynamics import (
    Point,
    direction,
    refresh,
    trajectory,
)
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.adaptation import when

__all__ = ["Errors", "MCLMCState", "move", "warm_step"]


class Errors(NamedTuple):
    """What the moves of a draw add up to: the energy error, and whether one was undone."""

    total: Any
    diverging: Any


@named_fields
class MCLMCState(NamedTuple):
    """The state of one chain.

    Attributes:
        z: site -> unconstrained value.
        velocity, gradient, potential: u, ∇U and U there, shape (d,), (d,) and ().
        scale: s of the preconditioner, shape (d,), or () without one.
        step_size, length: ε and L.
        weight: of the step-size rule.
        moments, batches: what the warm-up has seen of the positions.
        iteration: draws made so far, warm-up included.
        rng_key: one key.
        statistics: potential_energy; energy_error, ΔE of the draw, the sum over its steps (moves
            that were undone left out); diverging, whether a move was not finite and was undone;
            num_steps, gradients of the draw; step_size.
    """

    z: Any
    velocity: Any
    gradient: Any
    potential: Any
    scale: Any
    step_size: Any
    length: Any
    weight: Any
    moments: Any
    batches: Any
    iteration: Any
    rng_key: Any
    statistics: Any


def warm_step(
    state: MCLMCState, errors: Errors, density: Density, key: Any, index: Any, stretch: Any
) -> tuple[MCLMCState, Errors, Any]:
    """Step `index` of the warm-up and its energy error, NaN where the step was undone.

    The velocity is refreshed every `stretch` steps.
    """
    noise_key, velocity_key = jax.random.split(key)

    def turn(velocity: Any) -> Any:
        noise = _normal(noise_key, velocity)
        return refresh(velocity, noise, stretch * state.step_size, state.length)

    velocity = when(index % stretch == 0, turn, state.velocity)
    old = Point(state.z, velocity, state.gradient)
    moved, kinetic = trajectory(
        old, density.gradient, steps=1, step_size=state.step_size, scale=state.scale
    )
    potential = density.potential(moved.position)
    error = kinetic + potential - state.potential
    finite = jnp.isfinite(error) & _sound(moved)
    point = select(finite, moved, old)
    velocity = when(
        ~finite, lambda velocity: direction(_normal(velocity_key, velocity)), point.velocity
    )
    state = state._replace(
        z=point.position,
        velocity=velocity,
        gradient=point.gradient,
        potential=jnp.where(finite, potential, state.potential),
    )
    errors = Errors(errors.total + jnp.where(finite, error, 0.0), errors.diverging | ~finite)
    return state, errors, jnp.where(finite, error, jnp.nan)


def move(
    state: MCLMCState, errors: Errors, density: Density, key: Any, steps: Any, stretch: Any
) -> tuple[MCLMCState, Errors]:
    """`steps` steps at fixed settings; `state.z` is a vector."""
    velocity_key, key = jax.random.split(key)

    def segment(carry: Any) -> Any:
        done, point, kinetic, diverging = carry
        count = jnp.minimum(stretch, steps - done)
        noise = _normal(jax.random.fold_in(key, done), point.velocity)
        turned = refresh(point.velocity, noise, count * state.step_size, state.length)
        moved, change = trajectory(
            point._replace(velocity=turned),
            density.gradient,
            steps=count,
            step_size=state.step_size,
            scale=state.scale,
        )
        finite = jnp.isfinite(change) & _sound(moved)
        return (
            done + count,
            select(finite, moved, point._replace(velocity=direction(noise))),
            kinetic + jnp.where(finite, change, 0.0),
            diverging | ~finite,
        )

    start = Point(state.z, state.velocity, state.gradient)
    done, point, kinetic, diverging = jax.lax.while_loop(
        lambda carry: carry[0] < steps,
        segment,
        (jnp.asarray(0), start, jnp.zeros_like(state.step_size), jnp.asarray(False)),
    )

    def finish(_: Any, carry: tuple[MCLMCState, Errors]) -> tuple[MCLMCState, Errors]:
        state, _ = carry
        potential = density.potential(point.position)
        # A finite gradient where U is not: the whole draw is undone.
        finite = jnp.isfinite(potential)
        fresh = direction(_normal(velocity_key, state.velocity))
        moved = state._replace(
            z=jnp.where(finite, point.position, state.z),
            velocity=jnp.where(finite, point.velocity, fresh),
            gradient=jnp.where(finite, point.gradient, state.gradient),
            potential=jnp.where(finite, potential, state.potential),
        )
        error = jnp.where(finite, kinetic + potential - state.potential, 0.0)
        return moved, Errors(error, diverging | ~finite)

    return jax.lax.fori_loop(0, jnp.minimum(done, 1), finish, (state, errors))


def _normal(key: Any, like: Any) -> Any:
    return jax.random.normal(key, like.shape, like.dtype)


def _sound(point: Point) -> Any:
    """Whether velocity and gradient are finite; a position is where the velocities before were."""
    return jnp.isfinite(jnp.vdot(point.velocity, point.gradient))
