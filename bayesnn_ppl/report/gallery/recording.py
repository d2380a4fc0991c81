"""Kernels that record how a draw was made: proposals, minibatch gradients, and paths.

A draw of Hamiltonian Monte Carlo is a function of the state before it. Its path is computed from
that state again, by the same leapfrogs, and must end where the kernel's draw is; a test holds that.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer.hmc_util import euclidean_kinetic_energy, velocity_verlet

from bayesnn_ppl.inference.kernels import MALA, SGHMC, SGLD, RandomWalk
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, hmc_proposal
from bayesnn_ppl.inference.kernels.full_batch.macro_steps import MacroSteps, Place
from bayesnn_ppl.inference.kernels.full_batch.metropolis_kernel import Proposal

__all__ = [
    "RecordingMALA",
    "RecordingSGHMC",
    "RecordingSGLD",
    "RecordingWalk",
    "doublings",
    "leapfrog_path",
    "orbit_path",
    "tree_path",
]


class _Proposals:
    """A Metropolis kernel whose statistics have the proposal, accepted or not, shape (d,)."""

    def _start(self, key: Any, z: Any, density: Density) -> Any:
        state = super()._start(key, z, density)  # type: ignore[misc]
        return state._replace(statistics={**state.statistics, "proposed": ravel_pytree(z)[0]})

    def _propose(self, *arguments: Any) -> Proposal:
        proposal = super()._propose(*arguments)  # type: ignore[misc]
        told = {**proposal.statistics, "proposed": proposal.point.vector}
        return proposal._replace(statistics=told)


class RecordingWalk(_Proposals, RandomWalk):
    """`RandomWalk`, whose statistics have the proposal."""


class RecordingMALA(_Proposals, MALA):
    """`MALA`, whose statistics have the proposal."""


class _Gradient(NamedTuple):
    """Variables of SGLD: the minibatch gradient at the beginning of the last step, shape (d,)."""

    seen: Any


class _MomentumAndGradient(NamedTuple):
    """Variables of SGHMC: its momentum, and the gradient as for SGLD, each of shape (d,)."""

    momentum: Any
    seen: Any


class RecordingSGLD(SGLD):
    """`SGLD`, whose variables have the minibatch gradient of its last step."""

    def _begin(self, position: Any, *others: Any) -> Any:
        return _Gradient(jnp.zeros_like(position))

    def _step(
        self, position: Any, variables: Any, gradient: Any, normals: Any, settings: Any
    ) -> Any:
        seen = gradient(position)
        gradient.known.append((position, seen))
        position, _ = super()._step(position, (), gradient, normals, settings)
        return position, _Gradient(seen)


class RecordingSGHMC(SGHMC):
    """`SGHMC`, whose variables have the minibatch gradient of its last step."""

    def _begin(self, position: Any, *others: Any) -> Any:
        momentum = super()._begin(position, *others).momentum
        return _MomentumAndGradient(momentum, jnp.zeros_like(position))

    def _step(
        self, position: Any, variables: Any, gradient: Any, normals: Any, settings: Any
    ) -> Any:
        seen = gradient(position)
        gradient.known.append((position, seen))
        position, after = super()._step(position, variables, gradient, normals, settings)
        return position, _MomentumAndGradient(after.momentum, seen)


def leapfrog_path(key: Any, vector: Any, density: Density, *, most: int) -> Any:
    """Positions after 1, ..., `most` leapfrogs of step one of HMC's draw from a state.

    Args:
        key, vector: of the state before the draw; `vector` has shape (d,).
        density: U.
        most: how many; the draw's own `num_steps` says which is its proposal.

    Returns:
        Shape (most, d).
    """
    noise = jax.random.normal(jax.random.split(key, 5)[1], vector.shape, vector.dtype)
    start = Point(vector, *density.gradient_and_terms(vector))

    def after(count: Any) -> Any:
        settings = {"step_size": 1.0, "num_leapfrogs": count}
        return hmc_proposal(start, noise, density, **settings)[0].vector

    return jax.vmap(after)(jnp.arange(1, most + 1))


def tree_path(key: Any, vector: Any, density: Density, *, depth: int) -> tuple[Any, Any]:
    """Leaves of the tree of NumPyro's NUTS with step one, in the order in which it makes them.

    Args:
        key, vector: of the state before the draw; `vector` has shape (d,).
        density: U.
        depth: the deepest tree; the draw's own `num_steps` says how many leaves it has.

    Returns:
        `(leaves, forward)`: shapes (2^depth - 1, d), and (depth,), whether each doubling went
        forward in time.
    """
    _, momentum_key, tree_key = jax.random.split(key, 3)
    # Its mass matrix has one block, whose key is split off.
    momentum = jax.random.normal(jax.random.split(momentum_key, 1)[0], vector.shape)
    mass = jnp.ones_like(vector)
    begin, leapfrog = velocity_verlet(density.potential, euclidean_kinetic_energy)

    def along(sign: float) -> Any:
        def step(state: Any, _: Any) -> Any:
            state = leapfrog(sign, mass, state)
            return state, state.z

        return jax.lax.scan(step, begin(vector, momentum), None, length=2**depth - 1)[1]

    forward = []
    for _ in range(depth):
        tree_key, direction_key, _ = jax.random.split(tree_key, 3)
        forward.append(jax.random.bernoulli(direction_key))
    return _as_made(along(-1.0), along(1.0), forward)


def orbit_path(
    key: Any,
    vector: Any,
    density: Density,
    *,
    depth: int,
    energy_range: float,
    max_halvings: int,
) -> tuple[Any, Any]:
    """Ends of the macro steps of WALNUTS with step one, in the order in which it makes them.

    Args:
        key, vector: of the state before the draw; `vector` has shape (d,).
        density: U.
        depth: of the longest orbit; the draw's own `macro_steps` says how many it has.
        energy_range, max_halvings: of the kernel.

    Returns:
        As `tree_path`.
    """
    _, momentum_key, orbit_key, _ = jax.random.split(key, 4)
    momentum = jax.random.normal(momentum_key, vector.shape, vector.dtype)
    one = jnp.ones((), vector.dtype)
    start = Place(vector, momentum, *density.gradient_and_terms(vector), 0 * one)
    macro_steps = MacroSteps(density, start, one, one, energy_range, max_halvings)

    def along(sign: float) -> Any:
        def step(place: Place, _: Any) -> Any:
            place = macro_steps.step(place, sign).end
            return place, place.vector

        return jax.lax.scan(step, start, None, length=2**depth - 1)[1]

    keys = (jax.random.split(jax.random.fold_in(orbit_key, level), 3) for level in range(depth))
    return _as_made(along(-1.0), along(1.0), [jax.random.bernoulli(of[0]) for of in keys])


def _as_made(backward: Any, forward: Any, directions: list[Any]) -> tuple[Any, Any]:
    """Points of both ways, (2^depth - 1, d), in the order in which doublings make them."""
    stacked = jnp.stack(directions).astype(jnp.int32)
    side, place = doublings(stacked)
    return jnp.stack([backward, forward])[side, place], stacked


def doublings(forward: Any) -> tuple[Any, Any]:
    """For each leaf, in the order of making: its side, and its number of leapfrogs minus one.

    Args:
        forward: 0 or 1 for each doubling, shape (depth,).
    """
    sides, places = [], []
    done = jnp.zeros(2, jnp.int32)
    for level in range(forward.shape[0]):
        way = forward[level]
        sides.append(jnp.full(2**level, way))
        places.append(done[way] + jnp.arange(2**level))
        done = done.at[way].add(2**level)
    return jnp.concatenate(sides), jnp.concatenate(places)
