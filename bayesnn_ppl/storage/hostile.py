"""What a store from anywhere may not hold: foreign types and codecs, links, sizes that lie.

zarr would look codecs up by name, make arrays of Python objects, follow links out of the run, and
allocate what a chunk says it unpacks to. So metadata and the first bytes of each chunk are read
here first, and anything that this library does not write itself is refused.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesnn_ppl.core.npz import memory_limit
from bayesnn_ppl.storage.commits import read_json

_TYPES = (
    {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {f"float{bits}" for bits in (16, 32, 64)}
    | {"bool"}
)
_CODECS = ("bytes", "zstd", "blosc", "crc32c")
_METADATA = "zarr.json"
_ZSTD = b"\x28\xb5\x2f\xfd"


def check_store(store: Path, groups: Mapping[str, int]) -> None:
    """Check every array of the store against what this library writes.

    Args:
        store: the folder `posterior.zarr`.
        groups: the groups that the run says it has.
    """
    _check_node(store, "group")
    for group in groups:
        _check_node(store / group, "group")
        for folder in sorted((store / group).iterdir()):
            if folder.is_dir():
                check_array(folder)


def check_array(folder: Path) -> tuple[int, ...]:
    """The chunk shape of an array of the store, whose metadata are what they may be."""
    metadata = _check_node(folder, "array")
    try:
        shape = _sizes(metadata["shape"])
        grid = metadata["chunk_grid"]
        chunk = _sizes(grid["configuration"]["chunk_shape"])
        kind, codecs = metadata["data_type"], [codec["name"] for codec in metadata["codecs"]]
        separator = metadata["chunk_key_encoding"]
    except (KeyError, TypeError) as error:
        raise _refused(folder, f"its metadata lack {error}") from None
    if not isinstance(kind, str) or kind not in _TYPES:
        raise _refused(folder, f"its type is {str(kind)[:60]!r}, and not a number's")
    foreign = [name for name in codecs if name not in _CODECS]
    if foreign or codecs[:1] != ["bytes"]:
        raise _refused(folder, f"it is packed by {str(foreign or codecs)[:80]}")
    if grid.get("name") != "regular" or separator.get("name") != "default":
        raise _refused(folder, "its chunks are not laid out as in a run")
    if metadata.get("storage_transformers"):
        raise _refused(folder, "it has storage transformers")
    if len(chunk) != len(shape) or min(chunk, default=1) < 1:
        raise _refused(folder, f"its chunks {chunk} do not fit its shape {shape}")
    whole = [max(size, 1) for axis, size in enumerate(shape) if axis != 1]
    if len(shape) > 1 and [size for axis, size in enumerate(chunk) if axis != 1] != whole:
        raise _refused(folder, f"its chunks {chunk} do not fit its shape {shape}")
    if _bytes(chunk, kind) > memory_limit():
        raise _refused(folder, f"a chunk of it would take {_bytes(chunk, kind) / 2**30:.0f} GiB")
    return chunk


class Packing(NamedTuple):
    """How the chunks of an array are packed: their bytes when unpacked, and the codecs."""

    unpacked: int
    codecs: tuple[str, ...]


def packing_of(array: Path) -> Packing:
    """The packing of an array of the store that `check_store` has let pass."""
    metadata = read_json(array / _METADATA)
    shape = _sizes(metadata["chunk_grid"]["configuration"]["chunk_shape"])
    codecs = tuple(codec["name"] for codec in metadata["codecs"])
    return Packing(_bytes(shape, metadata["data_type"]), codecs)


def check_chunk(file: Path, packing: Packing) -> None:
    """Raise ValueError unless a chunk unpacks to what its array says, by its own header."""
    with file.open("rb") as handle:
        header = handle.read(18)
    said = found = packing.unpacked
    if "zstd" in packing.codecs:
        found = _unpacked_by_zstd(header)
    elif "blosc" in packing.codecs and len(header) >= 8:
        found = struct.unpack("<I", header[4:8])[0]
    if found != said:
        raise ValueError(
            f"The chunk `{file}` is damaged: it says that it unpacks to {found} bytes, and a chunk "
            f"of its array has {said}."
        )


def _unpacked_by_zstd(header: bytes) -> int:
    """The content size of a Zstandard frame (RFC 8878, section 3.1.1.1); -1 where it says none."""
    if header[:4] != _ZSTD or len(header) < 6:
        return -1
    descriptor = header[4]
    single, flag = descriptor >> 5 & 1, descriptor >> 6
    size = (1 if single else 0, 2, 4, 8)[flag]
    begin = 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    field = header[begin : begin + size]
    if not size or len(field) < size:
        return -1
    return int.from_bytes(field, "little") + (256 if size == 2 else 0)


def _check_node(folder: Path, kind: str) -> dict[str, Any]:
    if folder.is_symlink() or (folder / _METADATA).is_symlink():
        raise _refused(folder, "it is a link, and a run holds its own files")
    if not folder.is_dir():
        raise _refused(folder, "it is missing")
    try:
        metadata = read_json(folder / _METADATA)
    except FileNotFoundError:
        raise _refused(folder, f"its `{_METADATA}` is missing") from None
    if metadata.get("zarr_format") != 3 or metadata.get("node_type") != kind:
        raise _refused(folder, f"its {kind} metadata are not of zarr's format 3")
    return metadata


def _sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > 32:
        raise ValueError(f"The run is damaged: {str(values)[:60]} is not a shape.")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
            raise ValueError(f"The run is damaged: {str(values)[:60]} is not a shape.")
    return tuple(values)


def _bytes(shape: tuple[int, ...], kind: str) -> int:
    return math.prod(shape) * np.dtype(kind).itemsize


def _refused(folder: Path, why: str) -> ValueError:
    return ValueError(
        f"`{folder}` cannot be read: {why}. No run of bayesnn_ppl holds such a thing."
    )
