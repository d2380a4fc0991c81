"""Pooling whose gradients are slices and pads, which compilers fuse."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jax import lax


def max_pool(
    x: Any, window: int | Sequence[int], *, strides: int | Sequence[int] | None = None
) -> Any:
    """The greatest value of each window, per channel, without padding.

    Where a window has several greatest values its gradient is shared among them; `flax.linen`
    gives it to the first. After a relu the only ties are zeros, whose gradient is zero anyway.

    Args:
        x: shape (N, *space, channels).
        window: length of the window on each space axis, or one for all.
        strides: step between windows, likewise; by default the windows touch.

    Returns:
        Shape (N, *space', channels) with space' = ⌊(space − window) / stride⌋ + 1.

    Raises:
        ValueError: no space axis, a window or stride below 1, or a window longer than its axis.
    """
    return _pool(x, window, strides, jnp.maximum)


def average_pool(
    x: Any, window: int | Sequence[int], *, strides: int | Sequence[int] | None = None
) -> Any:
    """The mean of each window, per channel, without padding.

    Arguments, result and errors are those of `max_pool`.
    """
    lengths = _per_axis(window, x.ndim - 2, "window")
    return _pool(x, window, strides, jnp.add) / reduce(lambda a, b: a * b, lengths, 1)


def _pool(x: Any, window: Any, strides: Any, combine: Callable[[Any, Any], Any]) -> Any:
    if x.ndim < 3:
        raise ValueError(
            "Pooling needs inputs with axes (rows, space, channels), but their shape is "
            f"{tuple(x.shape)}."
        )
    lengths = _per_axis(window, x.ndim - 2, "window")
    steps = lengths if strides is None else _per_axis(strides, x.ndim - 2, "strides")
    if any(length > size for length, size in zip(lengths, x.shape[1:-1], strict=True)):
        raise ValueError(
            f"The pooling window {lengths} is larger than the input's space axes "
            f"{tuple(x.shape[1:-1])}: no output is left. The network needs larger inputs."
        )
    # One axis after the other: 3 + 3 slices instead of 3 · 3.
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True), start=1):
        last = x.shape[axis] - length
        x = reduce(
            combine, (lax.slice_in_dim(x, i, last + i + 1, step, axis) for i in range(length))
        )
    return x


def _per_axis(value: int | Sequence[int], axes: int, what: str) -> tuple[int, ...]:
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(values) != axes or any(v < 1 for v in values):
        raise ValueError(
            f"The pooling {what} {value!r} must be one integer from 1 on, or one for each of "
            f"the {axes} space axes."
        )
    return values
