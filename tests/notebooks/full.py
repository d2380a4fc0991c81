"""`python -m tests.notebooks.full [NN ...]`: run notebooks with FULL = True, and record the results.

What a run printed goes to notebooks/full/NN.json, with its time; a notebook whose code has not
changed since its record is not run again, so the command continues where it was ended.
"""

import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from tests.notebooks.execution import NOTEBOOKS, execute, paths, read

FOLDER = NOTEBOOKS / "full"


def sources(notebook: nbformat.NotebookNode) -> str:
    """A hash of the code of a notebook, by which its record is known to be of this code."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\n\n".join(code).encode()).hexdigest()[:16]


def record(path: Path) -> dict:
    """Run a notebook at full size: its time in seconds, and cell -> what it printed."""
    notebook = read(path)
    made = {"notebook": path.name, "sources": sources(notebook)}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        run = execute(notebook, Path(folder), full=True)
    made["minutes"] = round((time.monotonic() - start) / 60, 1)
    if run.failure is not None:
        made["failed"] = f"{run.failure.cell.id}: {run.failure.name}: {run.failure.message}"
    made["printed"] = {
        cell.id: words for cell in run.notebook.cells if (words := _printed(cell)).strip()
    }
    return made


def _printed(cell: nbformat.NotebookNode) -> str:
    return "".join(o.text for o in cell.get("outputs", []) if o.get("name") == "stdout")


def main(wanted: list[str]) -> int:
    """Record the notebooks whose names begin with one of `wanted`, or all; 1 if one failed."""
    failed = False
    for path in paths():
        if wanted and not path.name.startswith(tuple(wanted)):
            continue
        file = FOLDER / f"{path.name[:2]}.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        if kept.get("sources") != sources(read(path)) or "failed" in kept:
            kept = record(path)
            FOLDER.mkdir(exist_ok=True)
            file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        failed = failed or "failed" in kept
        print(f"{path.name}: {kept['minutes']} min, {kept.get('failed', 'all claims hold')}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
