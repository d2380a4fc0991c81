"""Convergence of more draws than fit into memory: the source is read a few variables at a time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bayesnn_ppl.diagnostics.convergence.measures import Convergence, convergence_summary

type Index = tuple[slice, ...]

_MEMORY = 2**28


def convergence_by_block(draws: Any, *, memory: int = _MEMORY, workers: int = 1) -> Convergence:
    """`convergence_summary` of an array that is read by slices and never as a whole.

    Every measure belongs to one variable alone, so the numbers are those of `convergence_summary`.
    In addition to the blocks, memory holds the six results, 48 bytes a variable. A slice of an
    array that is stored in chunks of draws reads all its chunks: the larger `memory`, the fewer
    passes.

    Args:
        draws: shape (chain, draw, ...): anything with `shape`, `dtype` and slicing of its axes
            that `numpy.asarray` can read, such as a `zarr.Array`, an `h5py.Dataset`, a
            `numpy.memmap` or an `xarray.DataArray`. With more than one worker its slices are read
            from several threads.
        memory: bytes of draws held at a time by all workers together; at least one variable each.
        workers: threads that read and measure blocks of their own.

    Returns:
        A `Convergence`, each field an array of the trailing shape.

    Raises:
        ValueError: `draws` has fewer than two axes; `memory` or `workers` is not positive.
        TypeError: `draws` has no shape or dtype, or is not real.
    """
    for name, value in (("memory", memory), ("workers", workers)):
        if value < 1:
            raise ValueError(f"`{name}` is {value}, but must be at least 1.")
    if not (hasattr(draws, "shape") and hasattr(draws, "dtype")):
        raise TypeError(
            f"`draws` is a {type(draws).__name__}, but must have `shape`, `dtype` and slicing, "
            "as a Zarr or NumPy array has. Pass other sequences to `convergence_summary`."
        )
    shape = tuple(draws.shape)
    if len(shape) < 2:
        raise ValueError(
            f"`draws` has shape {shape}, but needs the leading axes (chain, draw). "
            "Store a single chain as one row."
        )
    trailing = shape[2:]
    found = Convergence(*(np.full(trailing, np.nan) for _ in Convergence._fields))
    bytes_each = max(1, shape[0] * shape[1]) * np.dtype(draws.dtype).itemsize
    blocks = list(_blocks(trailing, max(1, memory // workers // bytes_each)))

    def measure(share: list[Index]) -> None:
        for index in share:
            block = convergence_summary(np.asarray(draws[:, :, *index]))
            for whole, part in zip(found, block, strict=True):
                whole[index] = part

    if workers == 1:
        measure(blocks)
    else:
        with ThreadPoolExecutor(workers) as pool:
            # Consumed, so that an error of a thread is raised here.
            list(pool.map(measure, (blocks[first::workers] for first in range(workers))))
    return Convergence(*(field[()] for field in found))


def _blocks(shape: tuple[int, ...], most: int) -> Iterator[Index]:
    """Indices of blocks of at most `most` elements, each one run of elements in C order."""
    inner = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    cut = next((axis for axis, size in enumerate(inner) if size <= most), None)
    if cut is None:
        yield ()
        return
    width = max(1, most // max(1, inner[cut]))
    rest = tuple(slice(size) for size in shape[cut + 1 :])
    for position in np.ndindex(*shape[:cut]):
        single = tuple(slice(i, i + 1) for i in position)
        for start in range(0, shape[cut], width):
            yield (*single, slice(start, min(start + width, shape[cut])), *rest)
