"""The finished parts of a study, kept in a file as it goes."""

import datetime
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesnn_ppl.core.wording import json_text, plain
from bayesnn_ppl.storage.files import write_bytes

RESULTS = Path("benchmarks/results")


class Record:
    """Rows of finished parts by their keys, in a file that is whole after each of them.

    The file holds `made` (command, machine, versions and date of the last part), `settings`, what
    `summary` says and the rows. Files that hold nothing but rows are read as well. A name that ends
    with .jsonl gets a line for each row and nothing else.

    Args:
        path: of the file; None keeps the rows in memory.
        part: what the rows are called in the file.
        key: the fields that tell rows apart, which are then stored as a list; without them they
            are stored by name.
        settings: of all parts; a file with others is refused.
        summary: rows -> what else the file holds.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        part: str = "rows",
        key: Sequence[str] = (),
        settings: Any = None,
        summary: Callable[[list[Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        self.path, self._part, self._key, self._summary = path, part, key, summary
        self._other = {} if settings is None else {"settings": plain(settings)}
        self.rows: dict[Hashable, Any] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        text = path.read_text()
        if self._lines:
            stored = [json.loads(line) for line in text.splitlines()]
        else:
            stored = json.loads(text)
        if isinstance(stored, dict) and self._part in stored:
            if (
                self._other
                and stored.setdefault("settings", self._other["settings"])
                != (self._other["settings"])
            ):
                raise SystemExit(
                    f"{path} was made with other settings, {stored['settings']}. Give those, or "
                    "another --out, or move it away."
                )
            stored.pop("made", None)
            self._other, stored = stored, stored.pop(self._part)
        self.rows = {self._key_of(row): row for row in stored} if self._key else stored

    @property
    def _lines(self) -> bool:
        return self.path is not None and self.path.suffix == ".jsonl"

    def _key_of(self, row: Mapping[str, Any]) -> Hashable:
        key = tuple(row[name] for name in self._key)
        return key if len(key) > 1 else key[0]

    def __setitem__(self, key: Hashable, row: Any) -> None:
        """Keep a row, and write the file."""
        if self._key:
            fields = key if isinstance(key, tuple) else (key,)
            row = dict(zip(self._key, fields, strict=True)) | row
        self.rows[key] = row
        if self.path is None:
            return
        if self._lines:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(plain(row)) + "\n")
            return
        rows = list(self.rows.values()) if self._key else self.rows
        summary = {} if self._summary is None else self._summary(list(self.rows.values()))
        write_result(self.path, {**self._other, **summary, self._part: rows})

    def missing(self, wanted: Iterable[Any], minutes: float = float("inf")) -> Iterator[Any]:
        """The keys without a row; after so many minutes the rest is left for another call."""
        left, began = [key for key in wanted if key not in self.rows], time.perf_counter()
        for count, key in enumerate(left):
            if count and time.perf_counter() - began > 60 * minutes:
                print(f"{len(left) - count} parts are left: call the same command again.")
                return
            yield key


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result with how it was made; numbers that are not finite become null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json_text({"made": made(), **result}) + "\n").encode())


def made() -> dict[str, Any]:
    """How and where a result is made: command, machine, versions and date."""
    from bayesnn_ppl.inference.runtime.provenance import versions_here

    # A path says where things are on one machine only.
    words = [Path(word).name if os.path.isabs(word) else word for word in sys.argv[1:]]
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "command": shlex.join(["python", "-m", "benchmarks", *words]),
        "machine": {
            "processor": names[0] if names else platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
        },
        "versions": versions_here(),
        "date": datetime.date.today().isoformat(),
    }
