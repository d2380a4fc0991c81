"""A state on the devices as named arrays, and back: what a checkpoint holds."""

import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from bayesnn_ppl.core.mesh import own_part, shard

__all__ = ["arrays_to_state", "state_to_arrays"]

_STATISTIC = re.compile(r"\.statistics\['(\w+)'\]")


def state_to_arrays(state: Any, chains: tuple[int, int] | None = None) -> dict[str, np.ndarray]:
    """A sampler's state as arrays named by their place; PRNG keys as their raw words.

    Args:
        state: of all chains.
        chains: (begin, end) of those that this process writes, of several processes.
    """
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    return {jax.tree_util.keystr(path): own_part(_raw(leaf), chains) for path, leaf in leaves}


def _raw(leaf: jax.Array) -> jax.Array:
    is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def arrays_to_state(arrays: Mapping[str, np.ndarray], shapes: Any) -> Any:
    """Put a state that `state_to_arrays` gave back on the devices.

    Args:
        arrays: what it gave.
        shapes: the state's shapes, dtypes and shardings, as that of a `Program`.

    Raises:
        ValueError: names, shapes or dtypes are not those.
    """

    def place(path: Any, shape: Any) -> jax.Array:
        name = jax.tree_util.keystr(path)
        is_key = jax.dtypes.issubdtype(shape.dtype, jax.dtypes.prng_key)
        array = arrays.get(name)
        if array is None and (field := _STATISTIC.fullmatch(name)):
            array = arrays.get(
                f".{field[1]}"
            )  # as checkpoints had it before statistics stood apart
        fits = array is not None and (
            is_key or (array.shape == shape.shape and array.dtype == shape.dtype)
        )
        if array is None or not fits:
            raise ValueError(
                f"The checkpoint does not fit this run: `{name}` is "
                + ("missing. " if array is None else f"{array.dtype}{array.shape}, ")
                + ("" if array is None else f"where {shape.dtype}{shape.shape} is needed. ")
                + "It was made by another kernel, or another version of NumPyro or bayesnn_ppl."
            )
        if is_key and jax.process_count() == 1:
            words = jax.random.wrap_key_data(jax.numpy.asarray(array))
            return jax.device_put(words, shape.sharding)
        leaf = shard(array, shape.sharding)
        return jax.random.wrap_key_data(leaf) if is_key else leaf

    return jax.tree_util.tree_map_with_path(place, shapes)
