"""Stochastic gradient descent from a mode on: where each member is, every so many steps.

What `SWAG` and `ConstantSGD` look at. One function is compiled for a model, its data and a size
of minibatch; rates and numbers of steps are its arguments.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.mesh import check_mesh, default_mesh, device_mesh, manual_axes
from bayesnn_ppl.inference.approximations.trained_networks.flat_loss import Layout, minibatch_loss
from bayesnn_ppl.inference.fitting.stages import Block, Collector, in_blocks
from bayesnn_ppl.inference.schedules.simple import evaluate
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.nn.rows_last import with_rows_last

__all__ = ["SGDResult", "SGDSettings", "run_sgd"]

_BLOCK_BYTES, _MOST_ITERATES = 2**24, 256  # of one block


@dataclass(frozen=True)
class SGDSettings:
    """What is asked of `run_sgd`.

    Attributes:
        batch_size: rows of a minibatch, drawn with replacement.
        momentum: μ of the heavy ball, 0 for none.
        schedule: number or function of the step that multiplies the rate.
        every: steps from one iterate that is looked at to the next.
        iterates: how many.
    """

    batch_size: int
    momentum: float
    schedule: Any
    every: int
    iterates: int


class SGDResult(NamedTuple):
    """The result.

    Attributes:
        losses: (members, iterates), the mean loss per observation over the steps of each.
        failed: (members,), whether a member became not finite; it stays where it was before.
        interrupted: whether Ctrl-C or the callback ended it; iterates not made are NaN in `losses`.
        asked: whether it was the callback.
        seconds: since the beginning, compilation included.
    """

    losses: np.ndarray
    failed: np.ndarray
    interrupted: bool
    asked: bool
    seconds: float


class _State(NamedTuple):
    """One member: θ and the velocity (d,), the number of steps made, and whether it failed."""

    position: Any
    velocity: Any
    step: Any
    failed: Any


def run_sgd(
    problem: Problem,
    starts: np.ndarray,
    rate: np.ndarray,
    layout: Layout,
    settings: SGDSettings,
    keys: Any,
    name: str,
    collector: Collector,
) -> SGDResult:
    r"""Run θ' = θ - c_t P v', v' = μ v + ∇J(θ), from each start; `collector` takes the iterates.

        J(θ) = -(1/N) [ (N/B) Σ_batch log p(y_i | x_i, θ) + log p(θ) + log |Jacobian| ]

    per observation, in NumPyro's unconstrained coordinates with their Jacobians: what the iterates
    are to look like is a density there. Temperatures of the model count in J. The rows of a
    minibatch are drawn with replacement, again at each step: over a shuffled epoch the noise of the
    minibatches adds up to nothing, and the iterates would stay much closer to the mode.

    Args:
        problem: the model and its data.
        starts: (members, d).
        rate: P for each member: (members, 1), (members, d) or (members, d, d).
        layout: of the vectors.
        settings: how, and how often the iterates are looked at.
        keys: one PRNG key a member.
        name: for the bar.
        collector: takes vectors (members, k, d), k iterates more.

    Raises:
        KeyboardInterrupt: before the first block was done.
    """
    members = len(starts)
    mesh = default_mesh(members) if problem.mesh is None else problem.mesh
    check_mesh(mesh, chains=members, rows=mesh.devices.size)  # the data are not spread
    mesh = device_mesh(*mesh.devices.shape, devices=list(mesh.devices.flat))
    room = int(np.clip(_BLOCK_BYTES // starts.nbytes, 1, _MOST_ITERATES))
    traced = _Traced(
        StaticValue(problem.model),
        layout,
        StaticValue(settings.schedule),
        settings.batch_size,
        room,
        mesh,
    )
    # Placed as they come back, or the second block would be compiled once more.
    state, rate, keys = jax.device_put(
        (
            _State(
                np.asarray(starts),
                np.zeros_like(starts),
                np.zeros(members, np.int32),
                np.zeros(members, bool),
            ),
            rate,
            keys,
        ),
        NamedSharding(mesh, P("chain")),
    )

    momentum = float(settings.momentum)

    def make(state: _State, count: int) -> Block:
        shared = (momentum, problem.x, problem.y, np.int32(settings.every), np.int32(count))
        new, vectors, losses = _advance(traced, state, rate, keys, shared)
        return Block(new, np.asarray(losses)[:, :count], np.asarray(vectors)[:, :count])

    done = in_blocks(
        problem,
        state,
        make,
        total=settings.iterates,
        members=members,
        most=room,
        name=name,
        collector=collector,
    )
    failed = np.asarray(done.state.failed)
    return SGDResult(done.losses, failed, done.interrupted, done.asked, done.seconds)


@dataclass(frozen=True)
class _Traced:
    """What the compiled function is made for, besides shapes; `room` is the most iterates."""

    model: StaticValue
    layout: Layout
    schedule: StaticValue
    batch_size: int
    room: int
    mesh: Mesh


@partial(jax.jit, static_argnums=0)
def _advance(traced: _Traced, state: _State, rate: Any, keys: Any, shared: Any) -> Any:
    """Iterates of every member; `shared` are μ, x, y, the steps between them and their number."""
    on_cpu = traced.mesh.devices.flat[0].platform == "cpu"

    def batched(state: Any, rate: Any, keys: Any, shared: Any) -> Any:
        if on_cpu:  # small matrices are no faster in a batch there
            return jax.lax.map(lambda own: _one_member(traced, own, shared), (state, rate, keys))
        return jax.vmap(lambda *own: _one_member(traced, own, shared))(state, rate, keys)

    return jax.shard_map(
        batched,
        mesh=traced.mesh,
        in_specs=(*[P("chain")] * 3, P()),
        out_specs=P("chain"),
        axis_names=manual_axes(traced.mesh),
        check_vma=False,
    )(state, rate, keys, shared)


def _one_member(traced: _Traced, own: tuple[_State, Any, Any], shared: Any) -> Any:
    (state, rate, key), (momentum, x, y, every, count) = own, shared
    rows = x.shape[0]
    of_rows = minibatch_loss(traced.model, traced.layout, rows)
    loss = with_rows_last(jax.value_and_grad(of_rows), traced.batch_size)

    def step(_: Any, carry: Any) -> Any:
        position, velocity, number, total = carry
        chosen = jax.random.randint(jax.random.fold_in(key, number), (traced.batch_size,), 0, rows)
        value, gradient = loss(position, x[chosen], y[chosen])
        velocity = momentum * velocity + gradient
        move = rate @ velocity if rate.ndim == 2 else rate * velocity
        factor = evaluate(traced.schedule.value, number).astype(position.dtype)
        return position - factor * move, velocity, number + 1, total + value

    def iterate(index: Any, carry: Any) -> Any:
        state, vectors, losses = carry
        start = (*state[:3], jnp.zeros((), vectors.dtype))
        position, velocity, number, total = jax.lax.fori_loop(0, every, step, start)
        failed = state.failed | ~(jnp.isfinite(position).all() & jnp.isfinite(total))
        state = _State(
            jnp.where(failed, state.position, position),
            jnp.where(failed, state.velocity, velocity),
            number,
            failed,
        )
        mean = jnp.where(failed, jnp.nan, total / every)
        return state, vectors.at[index].set(state.position), losses.at[index].set(mean)

    dtype = state.position.dtype
    empty = (
        jnp.zeros((traced.room, traced.layout.dimension), dtype),
        jnp.zeros(traced.room, dtype),
    )
    return jax.lax.fori_loop(0, count, iterate, (state, *empty))
