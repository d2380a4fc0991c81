"""`bayesnn notebooks`: the teaching notebooks, as they are or without their solutions."""

import argparse
import json
from pathlib import Path
from typing import Any

import bayesnn_ppl
from bayesnn_ppl.cli.output import paragraph, print_json

__all__ = ["run_notebooks", "student_version"]

_ANSWER = "# your answer"


def run_notebooks(arguments: argparse.Namespace) -> int:
    """Copy the notebooks to a folder."""
    sources = _sources()
    out = Path(arguments.out)
    taken = [path.name for path in sources if (out / path.name).exists()]
    if taken:
        raise FileExistsError(
            f"`{out}` already holds {taken[0]}"
            + (f" and {len(taken) - 1} more of the notebooks" if taken[1:] else "")
            + ". They may hold somebody's work: name another folder."
        )
    out.mkdir(parents=True, exist_ok=True)
    for path in sources:
        text = path.read_text(encoding="utf-8")
        if arguments.student:
            notebook = student_version(json.loads(text))
            text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        (out / path.name).write_text(text, encoding="utf-8")
    names = [path.name for path in sources]
    if arguments.json:
        print_json({"folder": str(out), "student": arguments.student, "notebooks": names})
        return 0
    kind = "student versions of notebooks" if arguments.student else "notebooks"
    print(paragraph(f"{len(names)} {kind} in {out}: {names[0]} to {names[-1]}."))
    print(paragraph("Open them with `jupyter lab`; `pip install jupyterlab ipywidgets` adds it."))
    return 0


def student_version(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook without outputs, whose solutions are places to write in.

    Args:
        notebook: the JSON of an .ipynb file, which is left as it is.
    """
    return notebook | {"cells": [_emptied(cell) for cell in notebook["cells"]]}


def _emptied(cell: dict[str, Any]) -> dict[str, Any]:
    # `bayesnn` says how a claim is broken, which is for the tests.
    metadata = {name: value for name, value in cell["metadata"].items() if name != "bayesnn"}
    if cell["cell_type"] != "code":
        return cell | {"metadata": metadata}
    emptied = cell | {"execution_count": None, "outputs": []}
    if "solution" in metadata.get("tags", ()):
        metadata.pop("jupyter", None)  # an empty cell need not be hidden
        emptied["source"] = [_ANSWER]
    return emptied | {"metadata": metadata}


def _sources() -> list[Path]:
    """The notebooks: inside an installed package, or at the top of the repository."""
    package = Path(bayesnn_ppl.__file__).parent
    for folder in (package / "notebooks", package.parent / "notebooks"):
        found = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
        if found:
            return found
    raise FileNotFoundError(
        "The notebooks are not in this installation. They stand in the folder notebooks/ of the "
        "repository: install from there, or copy them from a clone."
    )
