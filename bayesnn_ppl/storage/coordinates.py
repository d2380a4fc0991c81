"""Are the stored coordinates what they must be? They have no checksum, but are known.

The numbers of an axis are 0, 1, 2, ...; those of the draws are the last of every `every`. No reader
of this library takes them from the disk (`zarr_store.open_store`), but xarray and ArviZ do.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesnn_ppl.storage.commits import read_config
from bayesnn_ppl.storage.hostile import check_chunk, packing_of
from bayesnn_ppl.storage.tree import draw_numbers
from bayesnn_ppl.storage.zarr_store import STORE, kept_before, stored_groups


class WrongCoordinate(NamedTuple):
    """A coordinate of the store that is not what it must be, how long it must be, and why."""

    group: str
    name: str
    size: int
    every: int
    reason: str

    def __str__(self) -> str:
        return (
            f"The coordinate `{self.name}` of `{self.group}` is damaged: {self.reason}. The draws "
            "are not touched; `bayesnn check --repair` writes it again."
        )


def wrong_coordinates(path: Path, record: Mapping[str, Any]) -> list[WrongCoordinate]:
    """The damaged coordinates of a store that `check_store` has let pass."""
    import zarr

    found = []
    root: Any = zarr.open_group(path / STORE, mode="r")
    for group, every in stored_groups(read_config(path)).items():
        arrays = dict(root[group].arrays())
        sizes: dict[str, int] = {}
        for array in arrays.values():
            if array.ndim > 1:
                sizes |= dict(zip(array.metadata.dimension_names or (), array.shape, strict=False))
        for name, array in sorted(arrays.items()):
            if array.ndim != 1:
                continue
            # A writer makes the draws longer before it commits them.
            draws = kept_before(record["in_store"], every)
            size = draws if name == "draw" else sizes.get(name, array.shape[0])
            reason = _why_wrong(path / STORE / group / name, array, size, _step(name, every))
            if reason:
                found.append(WrongCoordinate(group, name, size, every, reason))
    return found


def _step(name: str, every: int) -> int:
    return every if name == "draw" else 1


def _why_wrong(folder: Path, array: Any, size: int, every: int) -> str:
    """Why a coordinate is not that of `size` places; empty where it is."""
    if array.shape[0] < size or (folder.name != "draw" and array.shape[0] != size):
        return f"it has {array.shape[0]} numbers, and its axis has {size}"
    packing, rows = packing_of(folder), array.chunks[0]
    # A chunk at a time, to the first that is wrong: a store from anywhere may say that it has many.
    for index in range(-(-size // rows)):
        begin, end = index * rows, min((index + 1) * rows, size)
        wanted = draw_numbers(begin * every, end * every, every)
        file = folder / "c" / str(index)
        try:
            if file.is_file():  # that of [0] never had one
                check_chunk(file, packing)
            found = np.asarray(array[begin:end])
            if (other := found != wanted).any():
                place = int(np.flatnonzero(other)[0])
                return f"its number {begin + place} is {found[place]}, not {wanted[place]}"
        except (ValueError, RuntimeError, OSError) as error:
            return str(error).strip().removesuffix(".") or type(error).__name__
    return ""


def rewrite(path: Path, wrong: WrongCoordinate) -> None:
    """Write a coordinate as it must be."""
    import zarr

    folder, every = path / STORE / wrong.group / wrong.name, _step(wrong.name, wrong.every)
    # First: zarr would unpack the damaged chunk to write a part of it.
    shutil.rmtree(folder / "c", ignore_errors=True)
    with zarr.config.set({"array.write_empty_chunks": True}):
        array: Any = zarr.open_group(path / STORE, mode="r+")[f"{wrong.group}/{wrong.name}"]
        array.resize((wrong.size,))
        array[:] = draw_numbers(0, wrong.size * every, every)
