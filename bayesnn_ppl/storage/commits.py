"""`commit.json`, the one record of what counts in a run: its formats, and what it may not say.

    {"format": 2, "phase": "sample", "done": 40, "draws": 40, "in_store": 32, "complete": false,
     "journal":    [{"file": "journal/...npz", "begin": 32, "end": 40, "crc32": ..,
                     "chains": null}],
     "checkpoint": [{"file": "checkpoint/...npz", "crc32": .., "chains": null}],
     "moments":    null, "seconds": 71.5}

`seconds` are those of all processes that have written to the run, one after another.
`chains` is [begin, end) where several processes write, each its own chains, and null where one
process writes all. Format 1 had one writer: `journal` was a list of [file, end, crc32], and
`checkpoint` and `moments` were [file, crc32].

A run may come from anywhere, so a record names nothing outside its folder.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT = 2
_MOST_BYTES = 2**26  # of a file of JSON
_COUNTS = ("done", "draws", "in_store")
_INSIDE = {
    "journal": re.compile(r"journal/[\w.+-]+\.npz"),
    "checkpoint": re.compile(r"checkpoint/[\w.+-]+\.npz"),
    "moments": re.compile(r"checkpoint/[\w.+-]+\.npz"),
    "probe": re.compile(r"probe\.npz"),
    "starts": re.compile(r"starts\.npz"),
}


def empty_record() -> dict[str, Any]:
    """The record of a run that has nothing yet."""
    return {
        "format": FORMAT,
        "phase": "warmup",
        "done": 0,
        "draws": 0,
        "in_store": 0,
        "journal": [],
        "checkpoint": None,
        "moments": None,
        "complete": False,
        "seconds": 0.0,
    }


def read_json(file: Path) -> dict[str, Any]:
    """A file that holds one JSON object."""
    try:
        size = file.stat().st_size
        if size > _MOST_BYTES:
            raise ValueError(f"it has {size} bytes, and at most {_MOST_BYTES} are read")
        value = json.loads(file.read_bytes())
        if not isinstance(value, dict):
            raise ValueError("it holds no JSON object")
    except (FileNotFoundError, PermissionError):
        raise
    except (ValueError, RecursionError, OSError) as error:
        raise ValueError(f"`{file}` is damaged: {error}.") from None
    return value


def read_commit(path: Path) -> dict[str, Any]:
    """The commit record of a run, brought to the present format.

    Raises:
        FileNotFoundError: there is no run at `path`.
        ValueError: it is of a format that is not known, or damaged.
    """
    file = path / "commit.json"
    if not file.is_file():
        raise FileNotFoundError(
            f"There is no posterior at `{path}`: `{file}` does not exist. Give the folder that "
            "`sample(out=...)`, `Posterior.save` or `bayesnn sample --out` made."
        )
    record = read_json(file)
    known = record.get("format")
    if not isinstance(known, int) or (known not in _UPGRADES and known != FORMAT):
        raise ValueError(
            f"The run `{path}` has format {known}, and this version of bayesnn_ppl reads "
            f"{', '.join(map(str, _UPGRADES))} and {FORMAT}. Open it with the version that made it."
        )
    try:
        while record["format"] != FORMAT:
            record = _UPGRADES[record["format"]](record)
        record.setdefault("seconds", 0.0)  # earlier versions did not count them
        _check_record(record)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"`{file}` is damaged: {_words(error)}.") from None
    return record


def read_config(path: Path) -> dict[str, Any]:
    """What `config.json` of a run holds.

    Raises:
        FileNotFoundError: it is not there.
        ValueError: it is damaged.
    """
    file = path / "config.json"
    try:
        config = read_json(file)
    except FileNotFoundError:
        raise ValueError(f"The run `{path}` is damaged: its `config.json` is missing.") from None
    try:
        for what in ("probe", "starts"):
            if config.get(what):
                _check_file(what, config[what][0])
                _check_count("its checksum", config[what][1])
        names = config.get("site_names", {})
        if not all(isinstance(v, str) for v in names.values()):
            raise ValueError("`site_names` are texts")
        if "storage" in config:
            storage = config["storage"]
            _check_count("`chunk_draws`", storage["chunk_draws"], at_least=1)
            for group, every in storage.get("groups", {}).items():
                _check_count(f"the stride of `{group}`", every, at_least=1)
                if not group.replace("_", "").isalnum():
                    raise ValueError(f"`{group}` is not a name of a group")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(f"`{file}` is damaged: {_words(error)}.") from None
    return config


def files_of(record: Mapping[str, Any]) -> set[str]:
    """The files that a record counts on."""
    entries = [
        entry for what in ("journal", "checkpoint", "moments") for entry in record[what] or ()
    ]
    return {entry["file"] for entry in entries}


def _second(record: dict[str, Any]) -> dict[str, Any]:
    """Format 1 as format 2."""
    journal, begin = [], record["in_store"]
    for file, end, crc in record["journal"]:
        journal.append({"file": file, "begin": begin, "end": end, "crc32": crc, "chains": None})
        begin = end

    def alone(entry: Any) -> Any:
        return [{"file": entry[0], "crc32": entry[1], "chains": None}] if entry else None

    return record | {
        "format": 2,
        "journal": journal,
        "checkpoint": alone(record["checkpoint"]),
        "moments": alone(record.get("moments")),
    }


_UPGRADES = {1: _second}


def _check_record(record: Mapping[str, Any]) -> None:
    for name in _COUNTS:
        _check_count(f"`{name}`", record[name])
    if record["in_store"] > record["draws"]:
        raise ValueError("it counts more draws in the store than there are")
    if not isinstance(record["phase"], str) or not isinstance(record["complete"], bool):
        raise ValueError("`phase` is a word, and `complete` is true or false")
    seconds = record["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e12:
        raise ValueError(f"`seconds` is {str(seconds)[:40]!r}")
    for what in ("journal", "checkpoint", "moments"):
        for entry in record[what] or ():
            _check_file(what, entry["file"])
            _check_count("a checksum", entry["crc32"])
            if entry["chains"] is not None:
                begin, end = entry["chains"]
                _check_count("a chain", begin)
                _check_count("a chain", end, at_least=begin + 1)
    reached = record["in_store"]
    for entry in record["journal"]:
        _check_count("`begin`", entry["begin"])
        _check_count("`end`", entry["end"], at_least=entry["begin"] + 1)
        if entry["begin"] > reached:
            raise ValueError(f"the draws {reached} to {entry['begin']} are in no journal")
        reached = max(reached, entry["end"])
    if reached != record["draws"]:
        raise ValueError(f"it counts {record['draws']} draws, and its files hold {reached}")


def _check_count(what: str, value: Any, *, at_least: int = 0) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value < 2**53:
        raise ValueError(f"{what} is {str(value)[:40]!r}")


def _check_file(what: str, name: Any) -> None:
    if not isinstance(name, str) or not _INSIDE[what].fullmatch(name):
        raise ValueError(
            f"it names the file `{str(name)[:80]}` as its {what}, which is not a place of a run"
        )


def _words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
