"""Where streamed rows come from: arrays that are read by index, and sources of records."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Arrays:
    """Rows of two arrays in memory or on disk: NumPy, memory map, zarr, HDF5."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows, ascending and each once, of both arrays."""
        x, y = (getattr(a, "oindex", a)[rows] for a in (self.x, self.y))
        return np.asarray(x), np.asarray(y)


class Records:
    """Records that are had by their number, such as a TFDS data source."""

    def __init__(self, source: Any, keys: tuple[Any, Any]) -> None:
        self.source, self.keys = source, keys

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The records, ascending and each once, as two arrays."""
        numbers = [int(row) for row in rows]
        many = getattr(self.source, "__getitems__", None)
        records = many(numbers) if many else [self.source[number] for number in numbers]
        x, y = (np.stack([np.asarray(record[key]) for record in records]) for key in self.keys)
        return x, y


def opened(array: Any, name: str) -> Any:
    """An array whose rows can be read by index, opened when it is a path."""
    if isinstance(array, str | os.PathLike):
        path = os.fspath(array)
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no file `{path}` to stream {name} from.")
        if path.endswith(".npy"):
            array = np.load(path, mmap_mode="r")
        else:
            import zarr

            array = zarr.open_array(path, mode="r")
    elif isinstance(array, Sequence):
        array = np.asarray(array)
    shape = getattr(array, "shape", None)
    if not shape or not hasattr(array, "__getitem__"):
        raise TypeError(
            f"`{name}` must be an array with a leading axis of rows, on disk or in memory, or the "
            f"path of one, not {type(array).__name__}."
        )
    return array


def record_keys(source: Any, keys: tuple[Any, Any] | None) -> tuple[Any, Any]:
    """Where a record has its input and its target; ValueError where that cannot be known."""
    if isinstance(source, str | os.PathLike) or not (
        hasattr(source, "__getitem__") and hasattr(source, "__len__")
    ):
        raise TypeError(
            "`stream` takes x and y, or one source of records with `len` and `[i]`, not "
            f"{source!r} alone."
        )
    if keys is None:
        keys = getattr(getattr(source, "dataset_info", None), "supervised_keys", None)
    record = source[0] if len(source) else (0, 0)
    if keys is None and isinstance(record, tuple | list) and len(record) == 2:
        keys = (0, 1)
    known = list(record) if isinstance(record, Mapping) else None
    if keys is None or len(keys) != 2 or (known is not None and not set(keys) <= set(known)):
        raise ValueError(
            "Say which parts of a record are input and target: `keys=(input, target)`"
            + ("." if known is None else f", of {known}.")
        )
    return keys[0], keys[1]
