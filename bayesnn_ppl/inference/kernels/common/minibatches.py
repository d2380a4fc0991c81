"""Which rows a step sees: drawn at random, or one permutation an epoch, for each data shard."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from bayesnn_ppl.core.fast_normals import mix

__all__ = ["EpochState", "Minibatches", "data_shards", "take_rows"]

_ROUNDS = 6


class EpochState(NamedTuple):
    """Where a chain is in its stream of permutations.

    Attributes:
        seed: two words, uint32, shape (2,).
        epoch: permutations that are used up, shape ().
        offset: rows of the present one that are, shape ().
    """

    seed: Any
    epoch: Any
    offset: Any


@dataclass(frozen=True)
class Minibatches:
    """Minibatches of B of N rows, which lie in equal shards; each shard gives B/shards rows.

    Attributes:
        rows: N.
        batch_size: B ≤ N.
        shards: data shards; divides N and B.
        order: "random", every row drawn independently of all others; "epoch": the rows of a
            shard come in a random order, and all of them before any comes again; or "given": the
            rows at hand, one after another. With B = N the first two are every row once, in the
            order of the data: the gradient is that of all the data.
    """

    rows: int
    batch_size: int
    shards: int
    order: str

    @property
    def whole(self) -> bool:
        """Whether a minibatch is all the data."""
        return self.order != "given" and self.batch_size == self.rows

    def start(self, bits: Any) -> EpochState | tuple[()]:
        """The state before the first minibatch; `bits` are two random words, shape (2,)."""
        if self.order != "epoch":
            return ()
        zero = jnp.zeros((), jnp.uint32)
        return EpochState(bits, zero, zero)

    def indices(self, state: Any, key: Any, steps: int, used: Any = None) -> tuple[Any, Any]:
        """The rows of the next `steps` minibatches, counted within each shard.

        Args:
            state: from `start`, or from the last call.
            key: for "random".
            steps: how many minibatches.
            used: how many of them count as seen; None: all.

        Returns:
            `(state, indices)`: indices has shape (steps, shards, B/shards).
        """
        each, per_shard = self.rows // self.shards, self.batch_size // self.shards
        shape = (steps, self.shards, per_shard)
        if self.whole:
            return state, jnp.broadcast_to(jnp.arange(per_shard), shape)
        if self.order == "random":
            return state, jax.random.randint(key, shape, 0, each)
        if self.order == "given":
            rows = jnp.arange(steps * per_shard).reshape(steps, 1, per_shard)
            return state, jnp.broadcast_to(rows, shape)
        # A minibatch may end one permutation and begin the next: every row is seen equally often.
        step = jax.lax.iota(jnp.uint32, steps) * jnp.uint32(per_shard)
        place = state.offset + step[:, None] + jax.lax.iota(jnp.uint32, per_shard)
        epoch = state.epoch + place // each
        shard = jax.lax.iota(jnp.uint32, self.shards)[None, :, None]
        found = permuted(place[:, None] % each, each, state.seed, epoch[:, None], shard)
        steps_used = jnp.asarray(steps if used is None else used, jnp.uint32)
        end = state.offset + steps_used * jnp.uint32(per_shard)
        after = EpochState(state.seed, state.epoch + end // each, end % each)
        return after, found.astype(jnp.int32)


def permuted(place: Any, size: int, seed: Any, epoch: Any, shard: Any) -> Any:
    """Where a random permutation of 0, ..., size - 1 sends `place`; element by element.

    A Feistel network of six rounds is a bijection of the words of 2k bits. A place that it sends
    beyond `size` is sent on until it lands inside, which is again a bijection. So no permutation
    is ever stored or sorted.

    Args:
        place, epoch, shard: uint32, of shapes that broadcast; each pair of an epoch and a shard
            has a permutation of its own.
        size: of the set, a Python number.
        seed: two words, shape (2,).
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    mask = jnp.uint32(2**half - 1)
    first = mix(seed[0] ^ mix(epoch * jnp.uint32(0x9E3779B9) + jnp.uint32(1)))
    second = mix(seed[1] + mix(shard * jnp.uint32(0x85EBCA6B) + first))

    def scramble(word: Any) -> Any:
        left, right = word >> half, word & mask
        for number in range(_ROUNDS):
            key = second + jnp.uint32(number * 0xC2B2AE35 & 0xFFFFFFFF)
            left, right = right, left ^ (mix(right + key) & mask)
        return (left << half) | right

    def onward(word: Any) -> Any:
        return jnp.where(word < size, word, scramble(word))

    shape = jnp.broadcast_shapes(jnp.shape(place), jnp.shape(epoch), jnp.shape(shard))
    place = jnp.broadcast_to(place, shape)
    return jax.lax.while_loop(lambda word: (word >= size).any(), onward, scramble(place))


def data_shards() -> int:
    """Over how many devices the rows are spread here, inside a traced function: 1 elsewhere."""
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if mesh.empty else dict(mesh.shape).get("data", 1)


def take_rows(array: Any, indices: Any) -> Any:
    """The rows of a minibatch, shape (B, ...), from each shard its own.

    Args:
        array: shape (N, ...).
        indices: shape (shards, B/shards), within each shard.
    """
    if indices.shape[0] == 1:
        return array.at[indices[0]].get(mode="promise_in_bounds")

    def own(array: Any, indices: Any) -> Any:
        return array.at[indices[0]].get(mode="promise_in_bounds")

    # Manual over the data axis: the compiler would gather all rows on every device.
    return jax.shard_map(
        own,
        in_specs=(P("data"), P("data")),
        out_specs=P("data"),
        axis_names={"data"},
        check_vma=False,
    )(array, indices)
