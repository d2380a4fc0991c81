"""Of the kill campaign: do two runs agree bit for bit, and what does the record say?"""

import json
import os
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl import storage

__all__ = ["apart", "compare", "summary"]

GROUPS = ("starts", "posterior", "sample_stats", "predictions")


def compare(path: Path, reference: Path) -> dict[str, Any] | None:
    """Where two finished runs first differ in a bit; None where they do not.

    Returns:
        group, variable, how many draws of which chain are alike, and the size of the difference in
        the first that is not: one of rounding is a program's, a large one a file's.
    """
    record = storage.read_commit(path)
    if not record["complete"] or storage.check(path):
        return {"record": record, "problems": storage.check(path)}
    one, two = storage.read(path), storage.read(reference)
    found = []
    for group in (group for group in GROUPS if group in two.children):
        for name, values in one[group].data_vars.items():
            a, b = values.values, two[group][name].values
            if a.shape != b.shape:
                return {"group": group, "variable": str(name), "shapes": [a.shape, b.shape]}
            if a.tobytes() == b.tobytes():
                continue
            a, b = (v.reshape(len(v), 1 if group == "starts" else v.shape[1], -1) for v in (a, b))
            other = (a.view(np.uint8) != b.view(np.uint8)).any(-1)
            for chain in np.flatnonzero(other.any(1)).tolist():
                draw = int(np.argmax(other[chain]))
                size = np.abs(a[chain, draw].astype(float) - b[chain, draw].astype(float)).max()
                where = {"group": group, "variable": str(name), "chain": chain, "alike": draw}
                found.append(where | {"difference": float(size)})
    return min(found, key=lambda f: f["alike"]) | {"places": len(found)} if found else None


def apart(look: Callable[[], Any]) -> Any:
    """What `look()` returns, found by a child: zarr's threads must not be there at a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = look()
        except BaseException:
            found = {"error": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(found, pipe, default=str)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    return found


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the record says so far."""
    kills = [(row, kill) for row in rows for kill in row.get("kills", ())]
    return {
        "trials": len(rows),
        "kills": len(kills),
        "kills_of_a_run_with_a_commit": sum(kill["committed"] for _, kill in kills),
        "in_warmup": sum(kill["committed"] and kill["phase"] == "warmup" for _, kill in kills),
        "of_each": dict(Counter(f"{r['case']} x {r['processes']}" for r, _ in kills)),
        "crashes": sum(len(row.get("crashes", ())) for row in rows),
        "of_each_start": dict(Counter(row["start"] for row, _ in kills)),
        "never_killed": sum(not (row.get("kills") or row.get("crashes")) for row in rows),
        "programs": {
            name: len({p for r in rows if _named(r) == name for p in r.get("programs", ())})
            for name in sorted({_named(row) for row in rows})
        },
        "differing": [row for row in rows if row["same"] is False],
        "ended_by_themselves": [row for row in rows if row["same"] is None],
    }


def _named(row: dict[str, Any]) -> str:
    return f"{row['case']} x {row['processes']}, {row['source']}"
