"""Files that are complete or absent: written under another name, synchronised, then renamed."""

import fcntl
import io
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.core.npz import UNREADABLE, read_npz

_READERS_SECONDS = 0.1  # more than a reader holds the lock


@contextmanager
def writing_to(path: Path, advice: Callable[[], str]) -> Iterator[None]:
    """Say of a write that fails where, why and what to do, in an OSError of the same number.

    Args:
        path: the run folder.
        advice: what is kept and what to do, asked for when a write has failed.
    """
    try:
        yield
    except OSError as error:
        if error.strerror is None:  # a sentence of our own, such as that the folder is not empty
            raise
        said = OSError(f"`{path}` cannot be written to: {error.strerror}. {advice()}")
        said.errno = error.errno
        raise said from error


def is_written_to(folder: Path) -> bool:
    """Whether a process, this one or another, holds the lock of a run folder.

    To know it the lock is shared for an instant, which a writer that is just beginning waits for.
    """
    try:
        lock = os.open(folder / "lock", os.O_RDONLY)
    except OSError:  # never written to from here, or by somebody whose lock is not to be seen
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def lock_folder(path: Path) -> int:
    """Take the folder for this process; the system gives it back when the process ends."""
    with writing_to(
        path, lambda: "Only reading works without: load it, or copy it elsewhere first."
    ):
        lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # perhaps of a reader, `is_written_to`, who is gone at once
            time.sleep(_READERS_SECONDS)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = (path / "lock").read_text().strip() or "unknown"
        os.close(lock)
        raise BlockingIOError(
            f"Another process (number {owner}) is writing to `{path}`. Wait for it, or choose "
            "another folder."
        ) from None
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content`, so that after a crash the file holds all of it or what it held before."""
    beside = path.with_name(f"{path.name}.partial")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, value: Any) -> None:
    """`write_bytes` of JSON text."""
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> int:
    """Write named arrays as NPZ; returns the CRC-32 of the file."""
    buffer = io.BytesIO()
    numbered: dict[str, Any] = {f"a{i}": a for i, a in enumerate(arrays.values())}
    np.savez(buffer, **numbered)
    content = json.dumps(list(arrays)).encode() + b"\n" + buffer.getvalue()
    write_bytes(path, content)
    return zlib.crc32(content)


def read_arrays(path: Path, checksum: int) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote."""
    try:
        if path.is_symlink():
            raise ValueError(f"`{path}` is a link, and a run holds its own files.")
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"`{path}` is missing.") from None
    except IsADirectoryError:
        raise ValueError(f"`{path}` is damaged: it is a folder.") from None
    if zlib.crc32(content) != checksum:
        raise ValueError(f"`{path}` is damaged: its checksum is not the one committed.")
    names, _, body = content.partition(b"\n")
    try:
        arrays = read_npz(io.BytesIO(body))
        return {name: arrays[f"a{i}"] for i, name in enumerate(json.loads(names))}
    except UNREADABLE as error:
        raise ValueError(f"`{path}` is damaged: {error}.") from None
