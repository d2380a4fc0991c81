"""`diagnosis.json` of a run: the last diagnosis, as long as it is of the draws that are there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesnn_ppl import storage

__all__ = ["keep_diagnosis", "kept_status"]

_FILE = "diagnosis.json"


def kept_status(folder: Path, draws: int, config: Mapping[str, Any]) -> str | None:
    """The status of the diagnosis that a run keeps; None where there is none, or it is older.

    Args:
        folder: of the run.
        draws: how many there are of each chain.
        config: what `config.json` holds.
    """
    try:
        found = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        sampler = found.get("sampler")  # a fit has none, and cannot be extended
        judged = {sampler["draws"], sampler["recorded_draws"]} if sampler else set()
        status = str(found["status"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    # Of weights perhaps every k-th draw is kept.
    strides = {1, *config.get("storage", {}).get("groups", {}).values()}
    return status if judged <= {draws // every for every in strides} else None


def keep_diagnosis(folder: Path, diagnosis: Any) -> None:
    """Keep a diagnosis where the run has none of these draws, or one that could not judge.

    A folder that cannot be written to, or that a run is just writing to, is left as it is.
    """
    draws, config = storage.read_commit(folder)["draws"], storage.read_config(folder)
    if kept_status(folder, draws, config) not in (None, "not judged"):
        return
    if storage.is_written_to(folder):
        return
    try:
        (folder / _FILE).write_text(diagnosis.to_json() + "\n", encoding="utf-8")
    except OSError:
        return
    storage.send(folder)
