"""The compiled heart of the trainer: start all members, and train all members by up to k epochs.

One program is compiled for a model, optimiser, objective and data shape, and kept for the next
call that has the same. Epochs and patience are arguments of the compiled function. A member that
has stopped costs nothing where members run one after another, and keeps its best position.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bayesnn_ppl.core.identity import identity_key
from bayesnn_ppl.core.mesh import manual_axes
from bayesnn_ppl.core.small_products import products_as_sums
from bayesnn_ppl.inference.runtime.program_cache import ProgramCache, compiling
from bayesnn_ppl.inference.training.objective import held_out_loss, trace_at, training_loss
from bayesnn_ppl.inference.training.settings import TrainingSettings
from bayesnn_ppl.modeling.network_initialisers import start_position
from bayesnn_ppl.nn.rows_last import with_rows_last

__all__ = ["MemberModel", "MemberState", "Recipe", "TrainingProgram", "compile_training"]

_BLOCK = 100  # the most epochs of one call
_OWN = 0x6F77_6E  # stream of what a model has of a member's own


@runtime_checkable
class MemberModel(Protocol):
    """A model that differs between members, by constants that it draws at its start."""

    def draw_own(self, key: Any, x: Any, y: Any) -> Any:
        """The constants of a member, a pytree of arrays."""

    def with_own(self, own: Any) -> Callable[..., Any]:
        """The model of a member."""


@dataclass(frozen=True)
class Recipe:
    """What, besides data shapes, a training program is compiled for; see `train`."""

    model: Callable[..., Any]
    latents: tuple[str, ...]
    settings: TrainingSettings  # their batch size and start resolved
    members: int
    held_out: bool
    mesh: Mesh
    arrangement: str  # "vmap" or "map": how the members of one device run
    float64: bool


class MemberState(NamedTuple):
    """One member: where it is, where it was best, and whether it is still trained."""

    z: Any
    optimiser: Any
    key: Any
    epoch: Any
    best_z: Any
    best_loss: Any
    best_epoch: Any
    stopped: Any
    failed: Any
    own: Any = ()  # constants of a `MemberModel`


@dataclass(frozen=True)
class TrainingProgram:
    """Compiled functions on arrays whose leading axis is the member.

    Attributes:
        begin: `(keys, active, x, y) -> state`; members that are not active have stopped.
        advance: `(state, x, y, x_held, y_held, count, epochs, patience) -> (state, training
            losses, held-out losses, values)`; the losses have shape (members, block), NaN where
            no epoch was made, and the values are those of the latent sites at the best position.
        block: the most epochs of one call of `advance`.
        state: shapes, dtypes and shardings of the state.
        place: puts an array where the compiled functions expect it.
        compile_seconds: what it took, 0 when the program was in the cache.
    """

    begin: Callable[..., Any]
    advance: Callable[..., Any]
    block: int
    state: Any
    place: Callable[[Any], jax.Array]
    compile_seconds: float


_programs: ProgramCache[TrainingProgram] = ProgramCache(kept=4)


def compile_training(recipe: Recipe, keys: Any, active: Any, *data: Any) -> TrainingProgram:
    """The program for this recipe and the shapes of `data`, compiled now or from the cache.

    Args:
        recipe: what is trained, and how.
        keys: one PRNG key a member.
        active: (members,), which members are to be trained.
        *data: x, y, and the held-out x and y (of no rows where nothing is held out).
    """
    settings = recipe.settings
    parts = (
        *(identity_key(part) for part in (recipe.model, settings.optimiser, settings.schedule)),
        *(getattr(settings, name) for name in ("objective", "start", "batch_size")),
        *(getattr(recipe, name) for name in ("latents", "members", "held_out", "mesh")),
        *(recipe.arrangement, recipe.float64),
        tuple((array.shape, str(array.dtype)) for array in data),
        str(keys.dtype),
    )
    return _programs.get(parts, lambda: _compile(recipe, keys, active, *data))


def _compile(recipe: Recipe, keys: Any, active: Any, *data: Any) -> TrainingProgram:
    began = time.perf_counter()
    everywhere = NamedSharding(recipe.mesh, P())
    by_member = NamedSharding(recipe.mesh, P("chain"))
    on_cpu = recipe.mesh.devices.flat[0].platform == "cpu"

    def place(array: Any) -> jax.Array:
        return jax.device_put(array, everywhere)

    placed = [place(array) for array in data]
    begin = jax.jit(_over_members(recipe, partial(_begin, recipe)), out_shardings=by_member).lower(
        (keys, active), *placed[:2]
    )
    begin_compiled = compiling(
        begin,
        float64=recipe.float64,
        # It runs once: on a CPU, optimising it takes longer than it can save.
        options={"xla_backend_optimization_level": 0} if on_cpu else None,
    )
    state = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=by_member),
        begin.out_info,
    )
    advance = compiling(
        jax.jit(_over_members(recipe, partial(_advance, recipe)), out_shardings=by_member).lower(
            state, *placed, *(jnp.int32(1) for _ in range(3))
        ),
        float64=recipe.float64,
    )
    made = begin_compiled.result(), advance.result()
    return TrainingProgram(*made, _BLOCK, state, place, time.perf_counter() - began)


def _over_members(recipe: Recipe, function: Callable[..., Any]) -> Callable[..., Any]:
    """Batch `function` over its first argument, and shard it over the mesh's chain axis."""

    def batched(first: Any, *shared: Any) -> Any:
        if recipe.arrangement == "map":
            return jax.lax.map(lambda one: function(one, *shared), first)
        together = jax.vmap(function, in_axes=(0, *(None for _ in shared)))
        if recipe.mesh.devices.flat[0].platform == "cpu":
            together = products_as_sums(together)
        return together(first, *shared)

    def sharded(first: Any, *shared: Any) -> Any:
        return jax.shard_map(
            batched,
            mesh=recipe.mesh,
            in_specs=(P("chain"), *(P() for _ in shared)),
            out_specs=P("chain"),
            axis_names=manual_axes(recipe.mesh),
            check_vma=False,
        )(first, *shared)

    return sharded


def _begin(recipe: Recipe, member: Any, x: Any, y: Any) -> MemberState:
    """A member at its start; one that is not active has stopped before its first epoch."""
    key, active = member
    start_key, key = jax.random.split(key)
    z = start_position(recipe.model, recipe.latents, recipe.settings.start, start_key, x, y)
    own: Any = ()
    if isinstance(recipe.model, MemberModel):
        own = recipe.model.draw_own(jax.random.fold_in(start_key, _OWN), x, y)
    return MemberState(
        z=z,
        optimiser=recipe.settings.optimiser.init(z),
        key=key,
        epoch=jnp.int32(0),
        best_z=z,
        best_loss=jnp.asarray(jnp.inf),
        best_epoch=jnp.int32(0),
        stopped=~active,
        failed=jnp.bool_(False),
        own=own,
    )


def _advance(
    recipe: Recipe,
    state: MemberState,
    x: Any,
    y: Any,
    x_held: Any,
    y_held: Any,
    count: Any,
    epochs: Any,
    patience: Any,
) -> Any:
    """Train a member for `count` ≤ block epochs of `epochs`, or until it stops."""
    if isinstance(recipe.model, MemberModel):
        recipe = replace(recipe, model=recipe.model.with_own(state.own))

    def unfinished(carry: Any) -> Any:
        return (carry[0] < count) & ~carry[1].stopped

    def body(carry: Any) -> Any:
        number, state, losses, held_losses = carry
        state, loss, held_loss = _epoch(recipe, state, (x, y, x_held, y_held), epochs, patience)
        return (
            number + 1,
            state,
            losses.at[number].set(loss.astype(losses.dtype)),
            held_losses.at[number].set(held_loss.astype(losses.dtype)),
        )

    empty = jnp.full((_BLOCK,), jnp.nan, state.best_loss.dtype)
    _, state, losses, held_losses = jax.lax.while_loop(
        unfinished, body, (jnp.int32(0), state, empty, empty)
    )
    trace = trace_at(recipe.model, state.best_z, state.key, x, y)
    return state, losses, held_losses, {name: trace[name]["value"] for name in recipe.latents}


def _epoch(
    recipe: Recipe, state: MemberState, data: tuple[Any, ...], epochs: Any, patience: Any
) -> tuple[MemberState, Any, Any]:
    """One pass over the rows, in a random order; rows that fill no batch wait for the next."""
    x, y, x_held, y_held = data
    settings, rows = recipe.settings, x.shape[0]
    batch = rows if settings.batch_size is None else settings.batch_size
    steps = rows // batch
    order_key, noise_key, held_key = jax.random.split(jax.random.fold_in(state.key, state.epoch), 3)
    order = None
    if settings.batch_size is not None:
        order = jax.random.permutation(order_key, rows)[: steps * batch].reshape(steps, batch)
    optimiser = optax.with_extra_args_support(settings.optimiser)

    def step(carry: Any, number: Any) -> Any:
        z, memory = carry
        loss_of = partial(
            training_loss,
            recipe.model,
            settings.objective,
            key=jax.random.fold_in(noise_key, number),
            x=x,
            y=y,
            index=None if order is None else order[number],
        )
        loss, gradient = with_rows_last(jax.value_and_grad(loss_of), batch)(z)
        updates, memory = optimiser.update(
            gradient, memory, z, value=loss, grad=gradient, value_fn=loss_of
        )
        if settings.schedule is not None:
            factor = settings.schedule((state.epoch * steps + number) / (epochs * steps))
            updates = jax.tree.map(lambda update: factor * update, updates)
        return (optax.apply_updates(z, updates), memory), loss

    (z, memory), losses = jax.lax.scan(step, (state.z, state.optimiser), jnp.arange(steps))
    loss = jnp.mean(losses)
    finite = jnp.isfinite(loss)
    for leaf in jax.tree.leaves(z):
        finite &= jnp.isfinite(leaf).all()
    if recipe.held_out:
        held_loss = held_out_loss(recipe.model, z, held_key, x_held, y_held)
        finite &= jnp.isfinite(held_loss)
        judged, better = held_loss, finite & (held_loss < state.best_loss)
    else:
        held_loss = jnp.full_like(loss, jnp.nan)
        judged, better = loss, finite
    epoch = state.epoch + 1
    best_epoch = jnp.where(better, epoch, state.best_epoch)
    return (
        MemberState(
            z=z,
            optimiser=memory,
            key=state.key,
            epoch=epoch,
            best_z=jax.tree.map(partial(jnp.where, better), z, state.best_z),
            best_loss=jnp.where(better, judged.astype(state.best_loss.dtype), state.best_loss),
            best_epoch=best_epoch,
            stopped=~finite | (epoch - best_epoch >= patience),
            failed=~finite,
            own=state.own,
        ),
        loss,
        held_loss,
    )
