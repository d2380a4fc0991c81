"""NumPy archives from anywhere: read without unpickling, and without more memory than there is."""

import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

__all__ = ["UNREADABLE", "machine_memory", "memory_limit", "read_npz"]

UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    TypeError,
    KeyError,
    SyntaxError,  # of a header that NumPy evaluates as a literal
    tokenize.TokenError,
    RecursionError,
    MemoryError,
    OverflowError,
    NotImplementedError,  # zipfile's, of a compression it does not know
    RuntimeError,  # zipfile's, of an encrypted member
    zipfile.BadZipFile,
    zlib.error,
)
_NUMBERS_AND_TEXT = "biufcSU"
_HEADER_BYTES = 10_000
_PIECE = 2**22


def machine_memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_limit() -> int:
    """Bytes that what is read may take: half of this machine's memory."""
    return machine_memory() // 2


def read_npz(
    file: BinaryIO, keys: Sequence[str] | None = None, *, limit: int | None = None
) -> dict[str, np.ndarray]:
    """The arrays of an open archive; absent keys are left out, and None means all.

    Sizes are read in the headers and compared with each other and with `limit` before anything
    is unpacked, so that a small file cannot ask for all the memory.

    Args:
        file: opened for reading bytes.
        keys: names of arrays.
        limit: bytes of all arrays together; by default half of the memory.

    Raises:
        ValueError: an array is of Python objects ("Object arrays ..."), has another size than its
            header says, or all are larger than `limit`; and what `UNREADABLE` lists, where the
            file is not an archive.
    """
    limit = memory_limit() if limit is None else limit
    with zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = list(members) if keys is None else [key for key in keys if key in members]
        total = sum(members[key].file_size for key in wanted)
        if total > limit:
            raise ValueError(
                f"its arrays would take {total / 2**30:.1f} GiB of memory, and at most "
                f"{limit / 2**30:.1f} GiB are read"
            )
        return {key: _array(archive, key, members[key]) for key in wanted}


def _array(archive: zipfile.ZipFile, key: str, info: zipfile.ZipInfo) -> np.ndarray:
    opened: Any = archive.open(info)
    with opened as member:
        version: Any = npy.read_magic(member)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"the array `{key}` is of an unknown version, {version}")
        read: Any = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(member, max_header_size=_HEADER_BYTES)
        if dtype.hasobject:
            raise ValueError(f"Object arrays are not read: `{key}` holds Python objects")
        if dtype.kind not in _NUMBERS_AND_TEXT:
            raise ValueError(f"the array `{key}` is of the type {dtype}, and not of numbers")
        said = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or said != info.file_size - member.tell():
            raise ValueError(
                f"the array `{key}` says that it has the shape {shape}, {said} bytes, but the file "
                f"holds {info.file_size - member.tell()} bytes of it"
            )
        content, held = bytearray(said), 0
        # Into its place piece by piece: in one, there would be two copies of it.
        while count := member.readinto(memoryview(content)[held : held + _PIECE]):
            held += count
    if held != said:
        raise ValueError(f"the array `{key}` ends after {held} of {said} bytes")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
