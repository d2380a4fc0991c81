"""Inputs and targets as the compiled functions take them; shared by sampling and predicting."""

import hashlib
from typing import Any

import numpy as np

__all__ = ["check_array", "data_hash"]

_INT32 = np.iinfo(np.int32)


def check_array(values: Any, name: str, *, float64: bool) -> np.ndarray:
    """`values` as an array of numbers, all finite, with a leading axis of rows.

    Floats become float32, or float64 where that is asked for; whole numbers become int32, so
    that arithmetic on uint8 images does not wrap.

    Args:
        values: array-like of numbers.
        name: what it is called in errors.
        float64: keep double precision.

    Raises:
        TypeError: not numbers.
        ValueError: a scalar, no rows, or a value that is not finite or does not fit the type it
            becomes; the sentence says where.
    """
    if values is None:
        raise TypeError(f"`{name}` is None: `sample` needs inputs and targets.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise TypeError(f"`{name}` is not a rectangular array: {error}.") from None
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
            (array < _INT32.min) | (array > _INT32.max),
            name,
            "do not fit 32 bits",
            "Give them as floating-point numbers, best standardised.",
        )
        return array.astype(np.int32)
    _refuse(array, ~np.isfinite(array), name, "are not finite", "Drop or impute these rows first.")
    with np.errstate(over="ignore"):
        cast = array.astype(np.float64 if float64 else np.float32)
    _refuse(
        array,
        ~np.isfinite(cast),
        name,
        "are too large for single precision",
        "Standardise them, or sample with float64=True.",
    )
    return cast


def _refuse(array: np.ndarray, bad: np.ndarray, name: str, what: str, advice: str) -> None:
    if bad.any():
        places = np.argwhere(bad)
        place = ", ".join(str(int(i)) for i in places[0])
        raise ValueError(
            f"`{name}` has {len(places)} values that {what}; the first is {name}[{place}] = "
            f"{array[tuple(places[0])]}. {advice}"
        )


def data_hash(x: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of shapes, types and values of the data as `check_array` gives them, in hex."""
    digest = hashlib.sha256()
    for array in (x, y):
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
