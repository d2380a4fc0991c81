"""Files in the folder that the environment variable BAYESNN_DATA names."""

import hashlib
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayesnn_ppl.core.npz import UNREADABLE, read_npz

VARIABLE = "BAYESNN_DATA"


def find_file(relative: str, subject: str, more: str = "") -> Path:
    """The path of a file in that folder.

    Args:
        relative: its place in the folder, with `/` between folders.
        subject: what is read from it, as the subject of a sentence.
        more: further sentences of the error.
    """
    folder = os.environ.get(VARIABLE)
    if folder and (path := Path(folder) / relative).is_file():
        return path
    state = (
        f"{VARIABLE} is set to `{folder}`, but `{Path(folder) / relative}` does not exist. "
        "Lay the file there"
        if folder
        else f"the environment variable {VARIABLE} is not set. Lay the file at "
        f"`<folder>/{relative}` and set {VARIABLE} to <folder>"
    )
    raise FileNotFoundError(f"{subject} is read from a file, and {state}.{more}")


def locate(relative: str, name: str, contents: str) -> Path:
    """The path of a file of the data set `name`, which is `contents`; as `find_file`."""
    hint = "Data sets that need no file are listed by `names()`, for example `diabetes`."
    return find_file(relative, f"The data set `{name}`", f" It is {contents}. {hint}")


def read_archive(path: Path, keys: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of a NumPy archive; `keys` None means all, and absent keys are left out."""
    try:
        with path.open("rb") as handle:
            return read_npz(handle, keys)
    except UNREADABLE as error:
        if str(error).startswith("Object arrays"):
            raise ValueError(
                f"The file `{path}` holds arrays of Python objects, which are not read because "
                "unpickling them could run code. Save arrays of numbers, for example with "
                "`numpy.savez(path, x=x.astype(float), y=y)`."
            ) from error
        raise ValueError(
            f"The file `{path}` is not a readable NumPy archive ({error}). Lay out a fresh copy."
        ) from error


def require_shapes(
    arrays: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
    advice: str = "Lay out a fresh copy.",
) -> None:
    """Refuse a file that lacks one of the arrays, or has one of another shape."""
    for key, shape in shapes.items():
        found = arrays[key].shape if key in arrays else "no such array"
        if found != shape:
            raise ValueError(
                f"The file `{path}` must hold the array `{key}` of shape {shape}, but has "
                f"{found}. {advice}"
            )


def verify(found: str, expected: str, what: str, path: Path) -> None:
    """Refuse content (`what` it is begins the sentence) without the published checksum."""
    if found != expected:
        raise ValueError(
            f"{what} read from `{path}` does not have the published checksum (found "
            f"{found[:12]}..., expected {expected[:12]}...): values, type or order of the rows "
            "differ, so results would not be comparable. Lay out a fresh copy; data of your own "
            "are loaded by path."
        )


def verify_arrays(
    arrays: Mapping[str, np.ndarray], checksums: Mapping[str, str], name: str, path: Path
) -> None:
    """Refuse arrays of which one is absent or not the published one; make them read-only.

    Args:
        checksums: array -> SHA-256 of its bytes, or the MD5 of the idx file that would hold it.
    """
    for key, expected in checksums.items():
        if key not in arrays:
            raise ValueError(
                f"`{path}` must hold the array `{key}`, but has no such array. Lay out a "
                "fresh copy."
            )
        array = np.ascontiguousarray(arrays[key])
        idx = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        found = (
            hashlib.md5(idx + array.tobytes(), usedforsecurity=False)
            if len(expected) == 32
            else hashlib.sha256(array)
        )
        verify(found.hexdigest(), expected, f"The array `{key}` of the data set `{name}`", path)
        arrays[key].flags.writeable = False
