"""Inputs and targets as the compiled functions take them; shared by sampling and predicting."""

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["check_array", "check_targets", "column_names", "data_hash", "has_hash", "same_index"]

_INT32 = np.iinfo(np.int32)
_BLOCK = 2**20  # values that are checked at a time
_JOIN = "Join its parts into one array, along the last axis, and take them apart in the network."


def check_array(
    values: Any,
    name: str,
    *,
    float64: bool,
    missing: str = "Drop or impute these rows first.",
    columns: Sequence[str] | None = None,
) -> np.ndarray:
    """`values` as an array of numbers, all finite, with a leading axis of rows.

    Floats become float32, or float64 where that is asked for; integers become int32, so
    that arithmetic on uint8 images does not wrap. A `np.memmap` that has the type already stays on
    disk: it is read once, block by block, and of several processes each then loads its own rows.

    Args:
        values: array-like of numbers.
        name: what it is called in errors.
        float64: keep double precision.
        missing: what to do about values that are not finite.
        columns: names of the training inputs' columns, where they are known.

    Raises:
        TypeError: not numbers, or a dictionary.
        ValueError: a frame whose columns are others than `columns`, or in another order; a scalar,
            no rows, or a value that is not finite or does not fit the type it becomes; the
            sentence says where.
    """
    if values is None:
        raise TypeError(f"`{name}` is None: `sample` needs inputs and targets.")
    if isinstance(values, Mapping):
        raise TypeError(
            f"`{name}` is a {type(values).__name__}, and a model takes one array with an axis of "
            f"rows. {_JOIN}"
        )
    _same_columns(values, name, columns)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise TypeError(
            f"`{name}` is not a rectangular array: {error}. "
            + (_JOIN if isinstance(values, tuple) else "Every row must have the same shape.")
        ) from None
    if array.dtype.kind == "O" and hasattr(values, "columns"):
        array = _of_columns(values, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"`{name}` must hold numbers, but its dtype is {array.dtype}. Encode text and "
            "categories as numbers first."
        )
    if array.ndim == 0 or array.shape[0] == 0:
        raise ValueError(f"`{name}` must have at least one row, but its shape is {array.shape}.")
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iu":
        _refuse(
            array,
            lambda part: (part < _INT32.min) | (part > _INT32.max),
            name,
            "do not fit 32 bits",
            "Give them as floating-point numbers, best standardised.",
        )
        wanted: Any = np.int32
    else:
        wanted = np.float64 if float64 else np.float32
        _refuse(
            array,
            lambda part: ~np.isfinite(part),
            name,
            "are not finite",
            missing,
        )
        with np.errstate(over="ignore"):
            _refuse(
                array,
                lambda part: ~np.isfinite(part.astype(wanted)),
                name,
                "are too large for single precision",
                "Standardise them, or sample with float64=True.",
            )
    if isinstance(values, np.memmap) and array.dtype == wanted:
        return array
    return array.astype(wanted)  # a copy, which the caller cannot change in the middle of a run


def check_targets(values: Any, name: str, *, float64: bool) -> np.ndarray:
    """`check_array`, whose advice on missing values is that for targets."""
    return check_array(
        values,
        name,
        float64=float64,
        missing="Drop rows without a target. Where a row lacks some of its several targets, put "
        "any number there, give their flags as columns of `x`, and mask them: "
        "`dist.Normal(mean, scale).mask(known).to_event(1)`.",
    )


def column_names(x: Any) -> list[str] | None:
    """Names of the columns of a frame, if all are text; None of anything else."""
    names = list(getattr(x, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _same_columns(x: Any, name: str, known: Sequence[str] | None) -> None:
    """Raise ValueError where x is a frame, and its columns are not those of the training inputs."""
    given = column_names(x)
    if known is None or given is None or given == list(known):
        return
    places = enumerate(itertools.zip_longest(given, known))
    place, pair = next((place, pair) for place, pair in places if pair[0] != pair[1])
    here, trained = ("missing" if column is None else f"`{column}`" for column in pair)
    raise ValueError(
        f"Column {place} is {here} in `{name}`, and {trained} in the training inputs. The model "
        "knows its inputs by their order alone. Give the columns that it was trained on in their "
        'order, which `provenance["input_columns"]` of the posterior has.'
    )


def same_index(x: Any, y: Any) -> None:
    """Raise ValueError where x and y are of pandas, and their indexes are not the same."""
    first: Any = getattr(x, "index", None)
    second: Any = getattr(y, "index", None)
    if hasattr(first, "equals") and hasattr(second, "equals") and not first.equals(second):
        raise ValueError(
            "`y` has another index than the frame `x`, so it is not known which row of `y` "
            "belongs to which of `x`. Use `y.loc[x.index]`; or, if they are in one order, "
            "`reset_index(drop=True)` on both."
        )


def _of_columns(frame: Any, name: str) -> np.ndarray:
    """A frame as one array: pandas makes one of objects where it has numbers and booleans."""
    columns = [np.asarray(frame[column]) for column in frame.columns]
    wrong = [
        f"`{column}` ({array.dtype})"
        for column, array in zip(frame.columns, columns, strict=True)
        if array.dtype.kind not in "biuf"
    ]
    if wrong:
        raise TypeError(
            f"`{name}` must hold numbers, but these of its columns do not: {', '.join(wrong)}. "
            "Encode text and categories as numbers first, or drop these columns."
        )
    return np.stack(columns, axis=1)


def _refuse(
    array: np.ndarray,
    is_bad: Callable[[np.ndarray], np.ndarray],
    name: str,
    what: str,
    advice: str,
) -> None:
    count = 0
    first: tuple[int, ...] = ()
    rows = max(_BLOCK // max(array[:1].size, 1), 1)  # so that the check itself needs no memory
    for begin in range(0, len(array), rows):
        bad = is_bad(array[begin : begin + rows])
        if bad.any():
            places = np.argwhere(bad)
            first = first or (begin + int(places[0][0]), *map(int, places[0][1:]))
            count += len(places)
    if count:
        place = ", ".join(map(str, first))
        raise ValueError(
            f"`{name}` has {count} values that {what}; the first is {name}[{place}] = "
            f"{array[first]}. {advice}"
        )


def has_hash(x: np.ndarray, y: np.ndarray, known: str) -> bool:
    """Whether these are the data of a `data_hash`, be it that counts are given as floats."""
    if data_hash(x, y) == known:
        return True
    whole = y.dtype.kind == "f" and np.array_equal(y, np.round(y))
    return whole and data_hash(x, y.astype(np.int32)) == known


def data_hash(x: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of shapes, types and values of the data as `check_array` gives them, in hex."""
    digest = hashlib.sha256()
    for array in (x, y):
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return digest.hexdigest()
