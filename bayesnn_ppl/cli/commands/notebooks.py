"""`bayesnn notebooks`: the teaching notebooks, as they are or without their solutions."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayesnn_ppl
from bayesnn_ppl.cli.shared.options import Argument, Command, Output
from bayesnn_ppl.cli.shared.output import paragraph, print_json
from bayesnn_ppl.settings.declaring import switch

__all__ = ["COMMAND", "student_version"]

_ANSWER = "# your answer"


@dataclass(frozen=True)
class NotebookSettings:
    """For whom the copies are."""

    student: bool = switch("without outputs, and with solutions left empty")


def run_notebooks(out: str, *, settings: NotebookSettings, output: Output) -> int:
    """Copy the notebooks to a folder."""
    sources = _sources()
    folder = Path(out)
    taken = [path.name for path in sources if (folder / path.name).exists()]
    if taken:
        raise FileExistsError(
            f"`{folder}` already holds {taken[0]}"
            + (f" and {len(taken) - 1} more of the notebooks" if taken[1:] else "")
            + ". They may hold somebody's work: name another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path in sources:
        text = path.read_text(encoding="utf-8")
        if settings.student:
            notebook = student_version(json.loads(text))
            text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        (folder / path.name).write_text(text, encoding="utf-8")
    names = [path.name for path in sources]
    if output.json:
        print_json({"folder": str(folder), "student": settings.student, "notebooks": names})
        return 0
    kind = "student versions of notebooks" if settings.student else "notebooks"
    print(paragraph(f"{len(names)} {kind} in {folder}: {names[0]} to {names[-1]}."))
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
        "The notebooks are not in this installation. They are in the folder notebooks/ of the "
        "repository: install from there, or copy them from a clone."
    )


COMMAND = Command(
    "notebooks",
    "copy the teaching notebooks to a folder",
    run_notebooks,
    (Argument("out", "folder to copy them to", "OUT"),),
    {"Options": ("settings", NotebookSettings)},
)
