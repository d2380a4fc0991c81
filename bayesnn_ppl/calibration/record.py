"""A calibration on disk: its settings, and one line for each replication that is done.

Lines are appended and synchronised one by one. A process that is killed leaves at most a part of
the last line, which is cut off when the calibration is resumed.
"""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.storage import writing_to
from bayesnn_ppl.storage.files import write_bytes, write_json

_CONFIG, _LINES, _AROUND = "calibration.json", "replications.jsonl", "around.npz"
_FORMAT = 1
# What may differ when a calibration is resumed: more replications, another budget for the verdict.
_FREE = ("replications", "false_alarm", "versions", "format", "command", "around_ess")

type Line = dict[str, Any]


class Replications:
    """The replications done so far, in memory; `CalibrationFolder` keeps them on disk as well."""

    def __init__(self) -> None:
        self.done: dict[int, Line] = {}
        self.around: dict[str, np.ndarray] | None = None

    def add(self, line: Line) -> None:
        """Keep a replication."""
        self.done[line["replication"]] = line

    def keep_around(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Keep the parameters that data are simulated from, around data at hand."""
        self.around = dict(parameters)

    def update(self, **changes: Any) -> None:
        """Write down what has been found out since the beginning."""


class CalibrationFolder(Replications):
    """A folder that holds a calibration, new or begun before with the same settings.

    Args:
        path: new, empty, or of the same calibration.
        config: JSON-ready settings.

    Attributes:
        config: the settings, and what was found out since.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.path = path
        new = {"format": _FORMAT, **config}
        with writing_to(path, lambda: "Choose another folder with `out`."):
            path.mkdir(parents=True, exist_ok=True)
            if (path / _CONFIG).exists():
                before, self.done = read_calibration(path)
                _require_same(path, before, new)
                new = {**before, **new, "around_ess": before.get("around_ess")}
                if (path / _LINES).exists():  # what a killed process has left of a line
                    os.truncate(path / _LINES, (path / _LINES).read_bytes().rfind(b"\n") + 1)
            elif any(path.iterdir()):
                raise FileExistsError(
                    f"The folder `{path}` is not empty, and holds no calibration. Choose a new "
                    "folder with `out`."
                )
            self.config = new
            write_json(path / _CONFIG, self.config)
        if (path / _AROUND).exists():
            with np.load(path / _AROUND) as arrays:
                names = self.config["around_sites"]
                self.around = {site: arrays[f"a{i}"] for i, site in enumerate(names)}

    def add(self, line: Line) -> None:
        """Append a replication, and wait until it is on the disk."""
        super().add(line)
        with (
            writing_to(self.path, lambda: "The replications before this one are kept."),
            open(self.path / _LINES, "a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def keep_around(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Write the parameters to a file."""
        super().keep_around(parameters)
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {f"a{i}": a for i, a in enumerate(parameters.values())}
        np.savez(buffer, **arrays)
        self.update(around_sites=list(parameters))
        write_bytes(self.path / _AROUND, buffer.getvalue())

    def update(self, **changes: Any) -> None:
        """Change entries of the settings."""
        self.config.update(changes)
        write_json(self.path / _CONFIG, self.config)


def read_calibration(path: Path) -> tuple[dict[str, Any], dict[int, Line]]:
    """The settings of a calibration on disk, and its replications by number."""
    if not (path / _CONFIG).is_file():
        raise FileNotFoundError(
            f"`{path}` holds no calibration: there is no `{_CONFIG}`. Give the folder that was "
            "`out` of `calibrate`."
        )
    try:
        config = json.loads((path / _CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"`{path / _CONFIG}` is damaged: {error}.") from None
    if config.get("format") != _FORMAT:
        raise ValueError(
            f"`{path}` has the format {config.get('format')}, and this version of bayesnn_ppl "
            f"reads {_FORMAT}."
        )
    done: dict[int, Line] = {}
    if (path / _LINES).is_file():
        text = (path / _LINES).read_bytes().decode("utf-8", errors="replace")
        whole = text[: text.rfind("\n") + 1]  # a killed process may have left part of a line
        for number, row in enumerate(whole.splitlines()):
            try:
                line = json.loads(row)
                done.setdefault(int(line["replication"]), line)
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"Line {number + 1} of `{path / _LINES}` is damaged. Delete the line: its "
                    "replication is then made again."
                ) from None
    return config, done


def _require_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    entries = [name for name in now if name not in _FREE and before.get(name) != now[name]]
    if entries:
        lines = "\n".join(f"  {n}: {before.get(n)!r} there, {now[n]!r} now" for n in entries)
        raise ValueError(
            f"`{path}` holds a calibration with other settings:\n{lines}\nGive the same settings "
            "to resume it, or another folder with `out`."
        )
