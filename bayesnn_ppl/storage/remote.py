"""The working copy of a run at an address: made, brought up to date, and sent (`mirror.py`)."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from bayesnn_ppl.distributed import current
from bayesnn_ppl.storage.files import is_written_to, write_json
from bayesnn_ppl.storage.mirror import Mirror, file_system, record_file

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")


def is_address(place: Any) -> bool:
    """Whether a text names a place of another file system, such as s3://bucket/run."""
    return isinstance(place, str) and _ADDRESS.match(place) is not None


def absolute(place: str | Path) -> str:
    """A place as processes in other folders name it."""
    return str(place) if is_address(place) else str(Path(place).resolve())


def working_copy(place: str | Path) -> Path:
    """The folder in which a run is made; of an address, the one that is sent there.

    Of several processes each has its own, since they need not share a file system.

    Raises:
        ValueError: the address is of a file system that fsspec does not know.
        ImportError: a package is missing that its file system needs.
    """
    if not is_address(place):
        return Path(place)
    address = str(place).rstrip("/")
    name = hashlib.sha256(address.encode()).hexdigest()[:16]
    index = current().index
    folder = _home() / (name if index == 0 else f"{name}-{index}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    file_system(address)
    record = record_file(folder)
    if not record.is_file() or not (folder / "commit.json").is_file():
        write_json(record, {"address": address, "commit": None, "here": {}, "there": {}})
    return folder


def fetched(place: str | Path) -> Path:
    """The folder of a run that is there; of an address, its working copy brought up to date.

    A working copy that a run is just writing to is left as it is: it is the newer one.

    Raises:
        FileNotFoundError: there is no run at the address.
        ValueError: address and working copy have gone different ways.
        OSError: the address cannot be reached.
    """
    if not is_address(place):
        return Path(place)
    folder = working_copy(place)
    mirror = mirror_of(folder)
    assert mirror is not None
    with _alone(record_file(folder).with_suffix(".lock")):
        if not is_written_to(folder):
            mirror.fetch()
    return folder


def remove_run(place: str) -> None:
    """Remove a run; of one at an address its working copy here as well."""
    folder = working_copy(place)
    if is_address(place):
        system, root = file_system(place)
        if system.exists(root):
            system.rm(root, recursive=True)
        record_file(folder).unlink(missing_ok=True)
        record_file(folder).with_suffix(".lock").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def send(folder: Path) -> None:
    """Of a working copy, send what has been added since its last commit, such as a diagnosis."""
    mirror = mirror_of(folder)
    if mirror is not None and folder.is_dir():
        mirror.send(strict=False)


def mirror_of(folder: Path) -> Mirror | None:
    """Of a working copy its mirror; None of any other folder."""
    return Mirror(folder) if folder.parent == _home() and record_file(folder).is_file() else None


def _home() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "bayesnn_ppl" / "runs"


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """A block that one process of this machine is in at a time."""
    lock = os.open(file, os.O_CREAT | os.O_RDWR)
    try:
        flock(lock, LOCK_EX)
        yield
    finally:
        os.close(lock)
