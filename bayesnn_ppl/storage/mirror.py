"""A run at an address, such as s3://bucket/run: worked on here, and kept there commit by commit.

    s3://bucket/run                          the address, of any file system that fsspec knows
    ~/.cache/bayesnn_ppl/runs/<hash>         the working copy: a run folder like any other
    ~/.cache/bayesnn_ppl/runs/<hash>.json    what both held when they were last the same

Object stores have neither renames nor locks, but an object is replaced whole or not at all. So a
commit is made in the working copy; then what is new is sent, `commit.json` after everything that it
names, and what it no longer names is removed last. The address holds a whole run at any moment, and
an upload that fails loses nothing: the next one sends what is missing.

Nothing is locked there. A second writer is noticed, and refused, by a `commit.json` that is not the
one which this working copy last sent or fetched.
"""

import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from bayesnn_ppl.storage.files import write_json

_COMMIT, _LOCK = "commit.json", "lock"
_PARTS = ("journal", "checkpoint")  # files of a run that only its record names
_TRIES = 5


class Mirror:
    """What holds an address and its working copy together; OSErrors where it cannot be reached.

    Attributes:
        folder: the working copy.
        address: where it is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        record = json.loads(record_file(folder).read_text())
        self.address: str = record["address"]
        # Of the `commit.json` that both had; sizes and times here, and the same there, of files.
        self._commit: int | None = record["commit"]
        self._here: dict[str, list[int]] = record["here"]
        self._there: dict[str, str] = record["there"]
        self._warned = False

    def require_nothing_there(self) -> None:
        """Raise FileExistsError where there is a run at the address."""
        if self._commit_there() is not None:
            raise FileExistsError(
                f"There is a run at {self.address}, and a run is never written over. Choose "
                "another address, or remove it first. To continue a run, `resume` it."
            )

    def send(self, *, strict: bool) -> None:
        """Send what the address lacks, the commit after what it names, and remove the rest.

        Args:
            strict: raise where the address cannot be reached; else that is a warning, and the
                next `send` makes up for it.
        """
        try:
            self._send()
        except OSError as error:
            said = (
                f"{error} The run is whole in its working copy, `{self.folder}`, as far as it was "
                "committed"
            )
            if strict:
                raise OSError(
                    f"{said}; `resume` sends it when the address can be reached."
                ) from error
            if not self._warned:
                warnings.warn(
                    f"{said}, and is sent with a later commit.", RuntimeWarning, stacklevel=2
                )
                self._warned = True

    def _send(self) -> None:
        there = self._commit_there()
        if there is not None and not self._is_ours(there) and _is_whole(there):
            raise ValueError(
                f"{self.address} was written to by another process since this one began, and "
                f"this one's draws are in `{self.folder}` alone. Let one process write to a run: "
                "end the other one, then keep one of the two by removing the other."
            )
        files = self._files()
        changed = [name for name, mark in files.items() if self._here.get(name) != mark]
        for name in sorted(changed, key=lambda name: name == _COMMIT):
            self._put(name)
        with self._reaching() as (system, root):
            for name in set(self._here) - set(files):
                if system.exists(f"{root}/{name}"):
                    system.rm_file(f"{root}/{name}")
                self._here.pop(name)
                self._there.pop(name, None)
        self._write()

    def put(self, names: Iterable[str]) -> None:
        """Send files that a commit of all processes is about to name."""
        for name in names:
            self._put(name)

    def get(self, names: Iterable[str]) -> None:
        """Fetch files that other processes have sent."""
        for name in names:
            if not (self.folder / name).is_file():
                self._get(name)
                self._here[name] = _mark(self.folder / name)

    def remove_uncommitted(self) -> None:
        """Remove what a writer that has ended sent for a commit that it did not come to."""
        content = self._commit_there() or b""
        if self._is_ours(content):
            self._commit = zlib.crc32(content)
        there = content.decode(errors="replace")
        with self._reaching() as (system, root):
            for part in _PARTS:
                for path in system.find(f"{root}/{part}"):
                    name = f"{part}/{PurePosixPath(path).name}"
                    if f'"{name}"' not in there:
                        system.rm_file(f"{root}/{name}")
                        self._here.pop(name, None)  # to be sent again, if it is of a later commit

    def fetch(self) -> None:
        """Bring the working copy to what the address holds."""
        for _ in range(_TRIES):
            there = self._commit_there()
            here = self._commit_here()
            if there is None:
                raise FileNotFoundError(
                    f"There is no run at {self.address}."
                    + (f" A working copy of one is in `{self.folder}`." if here else "")
                )
            if here is not None and self._is_ours(there):
                return  # nobody has written to it since; what is here is the same, or newer
            if here is not None and zlib.crc32(here) != self._commit:
                raise ValueError(
                    f"{self.address} and its working copy `{self.folder}` have gone different "
                    "ways: both were written to since they were the same. Move one of them away."
                )
            try:
                self._fetch_files()
                if self._commit_there() != there:
                    continue
            except FileNotFoundError:
                continue  # the writer has just removed it: a newer commit names others
            self._get(_COMMIT)
            self._commit = zlib.crc32(there)
            self._here = self._files()
            self._write()
            return
        raise OSError(
            f"{self.address} changed {_TRIES} times while it was fetched. Try again when its run "
            "has ended, or commits less often."
        )

    def _fetch_files(self) -> None:
        with self._reaching() as (system, root):
            system.invalidate_cache()
            listed = system.find(root, detail=True)
            start = len(system._strip_protocol(root).rstrip("/")) + 1
            tokens = {
                path[start:]: hashlib.sha256(repr(sorted(info.items())).encode()).hexdigest()
                for path, info in listed.items()
            }
        for name in self._files().keys() - tokens.keys():
            (self.folder / name).unlink()
        for name, token in tokens.items():
            if name != _COMMIT and (
                self._there.get(name) != token or not (self.folder / name).is_file()
            ):
                self._get(name)
                self._there[name] = token

    def _is_ours(self, commit: bytes) -> bool:
        """Whether a commit that is there was last sent or fetched by this working copy.

        One that was sent just before the process was killed is in no record yet, but is here.
        """
        return zlib.crc32(commit) == self._commit or commit == self._commit_here()

    def _put(self, name: str) -> None:
        mark = _mark(self.folder / name)
        with self._reaching() as (system, root):
            system.makedirs(str(PurePosixPath(root, name).parent), exist_ok=True)
            system.put_file(str(self.folder / name), f"{root}/{name}")
        if name == _COMMIT:
            self._commit = zlib.crc32((self.folder / name).read_bytes())
        self._here[name] = mark
        self._there.pop(name, None)

    def _get(self, name: str) -> None:
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute():
            raise ValueError(f"{self.address} names a file outside of it, `{name[:80]}`.")
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f"{target.name}.partial")
        with self._reaching() as (system, root):
            system.get_file(f"{root}/{name}", str(beside))
        os.replace(beside, target)

    def _commit_there(self) -> bytes | None:
        try:
            with self._reaching() as (system, root):
                system.invalidate_cache()
                content: bytes = system.cat_file(f"{root}/{_COMMIT}")
                return content
        except FileNotFoundError:
            return None

    def _commit_here(self) -> bytes | None:
        file = self.folder / _COMMIT
        return file.read_bytes() if file.is_file() else None

    @contextmanager
    def _reaching(self) -> Iterator[tuple[Any, str]]:
        """The file system and the address's path in it; its failures are OSErrors that say so."""
        try:
            yield file_system(self.address)
        except FileNotFoundError:
            raise
        except Exception as error:  # each file system has exceptions of its own
            raise OSError(
                f"{self.address} cannot be reached: {type(error).__name__}: {error}."
            ) from error

    def _files(self) -> dict[str, list[int]]:
        """The files of the working copy that belong to the run, and what tells their versions."""
        return {
            file.relative_to(self.folder).as_posix(): _mark(file)
            for file in sorted(self.folder.rglob("*"))
            if file.is_file() and file.name != _LOCK and file.suffix != ".partial"
        }

    def _write(self) -> None:
        both = {"commit": self._commit, "here": self._here, "there": self._there}
        write_json(record_file(self.folder), {"address": self.address, **both})


def _mark(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_mtime_ns, stat.st_size]


def _is_whole(commit: bytes) -> bool:
    """Whether it is a record at all: a file server, unlike an object store, may tear one."""
    try:
        json.loads(commit)
    except ValueError:
        return False
    return True


def record_file(folder: Path) -> Path:
    """What a working copy and its address held when they were last the same."""
    return folder.with_name(f"{folder.name}.json")


def file_system(address: str) -> tuple[Any, str]:
    """What fsspec opens an address with, and the path in it."""
    try:
        import fsspec.core
    except ImportError as error:
        raise ImportError(
            f"A run at {address} needs the package fsspec: `pip install 'bayesnn_ppl[remote]'`."
        ) from error
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ValueError as error:
        raise ValueError(f"`{address}` is not an address that fsspec knows: {error}.") from error
    except ImportError as error:
        raise ImportError(f"{address} cannot be opened: {error}.") from error
    return system, str(path).rstrip("/")
