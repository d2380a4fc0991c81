"""Advance all chains on blocks of rows that come from outside, minibatch after minibatch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from bayesnn_ppl.inference.sampling.traced_functions import (
    Data,
    Settings,
    chain_recorder,
    empty_buffers,
    over_chains,
)

__all__ = ["BlockShape", "block_sharding", "streamed_advance"]


@dataclass(frozen=True)
class BlockShape:
    """The shape of a block of rows, (chains, transitions, steps·B, ...).

    Attributes:
        transitions: of each chain, that a block has rows for.
        steps: minibatches of a transition.
        batch: B.
        pieces: transitions that the kernel's own draw is cut into.
    """

    transitions: int
    steps: int
    batch: int
    pieces: int

    def rows(self, settings: Settings, x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        """Shapes and sharding of a block, where x and y have rows of the same kind."""
        lead = (settings.chains, self.transitions, self.steps * self.batch)

        def shape(array: np.ndarray) -> Any:
            sharding = block_sharding(settings)
            dtype = jax.dtypes.canonicalize_dtype(array.dtype)
            return jax.ShapeDtypeStruct((*lead, *array.shape[1:]), dtype, sharding=sharding)

        return shape(x), shape(y)


def block_sharding(settings: Settings) -> NamedSharding:
    """Chains over the mesh's chain axis, and the rows of a transition over its data axis."""
    return NamedSharding(settings.mesh, P("chain", None, "data"))


def streamed_advance(settings: Settings, blocks: BlockShape) -> Callable[..., Any]:
    """`advance` for a kernel that is handed its rows (`given_rows`).

    Returns:
        `(state, (x, y, probe), keys, (first, offset, begin, transitions, per_draw)) -> (state,
        groups)`. It makes `transitions` transitions with the rows of the block from transition
        `begin` on. A draw is kept after each `per_draw` of them; `offset` have been made of the
        draw `first`, or since. The groups' buffers hold the kept draws, from the start.
    """

    def one(carry: Any, key: Any, probe: Any, counts: Any, *, block: int) -> Any:
        state, x, y = carry
        first, offset, begin, transitions, per_draw = counts
        kernel, recorded = chain_recorder(settings, state, key, (x[0], y[0], probe))

        def record(state: Any, number: Any) -> Any:
            groups = recorded(state, number)
            statistics = groups["sample_stats"]
            if "n_steps" in statistics:
                statistics = statistics | {"n_steps": statistics["n_steps"] * blocks.pieces}
            return groups | {"sample_stats": statistics}

        def transition(index: Any, carry: Any) -> Any:
            state, buffers = carry
            rows = tuple(
                jax.lax.dynamic_index_in_dim(a, begin + index, keepdims=False) for a in (x, y)
            )
            state = kernel.sample(state, rows, {})
            made = offset + index + 1
            number = made // per_draw - 1

            def write(buffers: Any) -> Any:
                return jax.tree.map(
                    lambda buffer, value: buffer.at[number - offset // per_draw].set(value),
                    buffers,
                    record(state, first + number),
                )

            keeps = made % per_draw == 0
            return state, jax.lax.cond(keeps, write, lambda buffers: buffers, buffers)

        empty = empty_buffers(record, state, first, block)
        return jax.lax.fori_loop(0, transitions, transition, (state, empty))

    def advance(state: Any, data: Data, keys: Any, counts: Any, *, block: int) -> Any:
        x, y, probe = data
        return over_chains(settings, partial(one, block=block))((state, x, y), keys, probe, counts)

    return advance
