"""Runs as text for a page: integers of 16 bits, their differences, compressed."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.report.gallery.results import Runs

__all__ = ["PER_UNIT", "UNKNOWN", "as_numbers", "packed_arrays", "packed_runs", "unpacked"]

PER_UNIT = 128  # numbers to a unit of the plane: half a pixel
UNKNOWN = -32768
_MOST = 32512
# Numbers to one, and how many times differences are taken along the last axis.
_SERIES = {"rhat": 1000, "ess": 1, "accepted": 1000, "configurational": 100, "kinetic": 100}


def packed_runs(runs: Runs) -> dict[str, Any]:
    """The arrays of `Runs`, for `packed_arrays`; points only as many as there are."""
    arrays: dict[str, tuple[NDArray[Any], int]] = {
        "draws": (as_numbers(np.moveaxis(runs.draws, -1, -2), PER_UNIT), 1),
        "made": (runs.made.astype(np.int16), 0),
    }
    for name, scale in _SERIES.items():
        series = getattr(runs, name)
        if series is not None:
            arrays[name] = as_numbers(series, scale), 1
    if runs.points is not None and runs.counts is not None:
        kept = np.arange(runs.points.shape[-2]) < runs.counts[..., None]
        points = runs.points
        if runs.forward is not None:
            # Along the path, where differences are small; the script puts them back in order.
            order = np.argsort(np.where(kept, in_time(runs.forward), _MOST), axis=-1)
            points = np.take_along_axis(points, order[..., None], axis=-2)
        arrays["counts"] = runs.counts.astype(np.uint8), 0
        arrays["points"] = as_numbers(points[kept].T, PER_UNIT), 2
    if runs.moved is not None:
        arrays["moved"] = runs.moved.astype(np.uint8), 0
    if runs.forward is not None:
        bits = 1 << np.arange(runs.forward.shape[-1])
        arrays["forward"] = (runs.forward * bits).sum(-1).astype(np.uint8), 0
    for name in ("gradient", "noise"):
        vectors = getattr(runs, name)
        if vectors is not None:
            # The arrows need no more than a sixteenth of a unit.
            arrays[name] = as_numbers(np.moveaxis(vectors, -1, -2), 16), 0
    return packed_arrays(arrays)


def in_time(forward: NDArray[Any]) -> NDArray[np.int64]:
    """When each leaf of a tree is, in leapfrogs from the draw before: (..., 2^depth - 1).

    Args:
        forward: 0 or 1 for each doubling, (..., depth).
    """
    found, done = [], np.zeros((*forward.shape[:-1], 2), np.int64)
    for level in range(forward.shape[-1]):
        way = forward[..., level, None]
        begun = np.take_along_axis(done, way, axis=-1)
        found.append((2 * way - 1) * (begun + 1 + np.arange(2**level)))
        np.put_along_axis(done, way, begun + 2**level, axis=-1)
    return np.concatenate(found, axis=-1)


def packed_arrays(arrays: dict[str, tuple[NDArray[Any], int]]) -> dict[str, Any]:
    """Arrays of int16 or uint8 as one text, and the parts that say how to read it.

    Args:
        arrays: name -> array, and how many times differences are taken along its last axis.

    Returns:
        `parts`, a list of name, kind, shape and differences; and `data`, base64 of a zlib stream in
        which the low bytes of an array come before the high ones, and differences have their sign
        as the lowest bit.
    """
    parts, whole = [], []
    for name, (array, order) in arrays.items():
        kind = {"uint8": "u1", "int16": "i2"}[array.dtype.name]
        parts.append([name, kind, list(array.shape), order])
        for _ in range(order):
            # Numbers wrap around, and wrap back where they are added up.
            array = np.diff(array, axis=-1, prepend=np.zeros_like(array[..., :1]))
        if order:
            # The sign as the lowest bit: high bytes of small numbers are then all zero.
            array = (array << 1) ^ (array >> 15)
        flat = np.ascontiguousarray(array.astype(f"<{kind}")).view(np.uint8)
        whole.append(flat.reshape(-1, array.dtype.itemsize).T.tobytes())
    data = base64.b64encode(zlib.compress(b"".join(whole), 9)).decode()
    return {"parts": parts, "data": data}


def unpacked(record: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays of `packed_arrays`, as the page's script reads them."""
    raw, at, found = zlib.decompress(base64.b64decode(record["data"])), 0, {}
    for name, kind, shape, order in record["parts"]:
        kind = np.dtype(f"<{kind}")
        size = int(np.prod(shape)) * kind.itemsize
        planes = np.frombuffer(raw[at : at + size], np.uint8).reshape(kind.itemsize, -1)
        array = np.ascontiguousarray(planes.T).view(kind).reshape(shape)
        if order:
            bits = array.view(np.uint16)
            array = (bits >> 1).astype(kind) ^ -(bits & 1).astype(kind)
        for _ in range(order):
            array = np.cumsum(array, axis=-1, dtype=kind)
        found[name], at = array, at + size
    return found


def as_numbers(values: Any, scale: float) -> NDArray[np.int16]:
    """Values times `scale` as int16; what is too large is clipped, and NaN is `UNKNOWN`."""
    scaled = scale * np.clip(np.asarray(values, np.float64), -_MOST / scale, _MOST / scale)
    return np.where(np.isnan(scaled), UNKNOWN, np.round(scaled)).astype(np.int16)
