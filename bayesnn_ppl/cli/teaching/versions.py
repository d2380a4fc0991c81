"""The notebook for a student, and the notebook with badges that open it online."""

from typing import Any

__all__ = ["student_version", "tags", "with_badges"]

Notebook = dict[str, Any]  # the JSON of an .ipynb file

_ANSWER = "# your answer"
_COLAB = "https://colab.research.google.com"
_BINDER = "https://mybinder.org"


def student_version(notebook: Notebook) -> Notebook:
    """A notebook without outputs, whose solutions are places to write in.

    Args:
        notebook: the JSON of an .ipynb file, which is left as it is.
    """
    return notebook | {"cells": [_emptied(cell) for cell in notebook["cells"]]}


def with_badges(notebook: Notebook, name: str, *, repository: str, branch: str) -> Notebook:
    """A notebook whose first cell links to Colab and Binder, below its title.

    Args:
        notebook: the JSON of an .ipynb file, which is left as it is.
        name: its file, at the top of the repository.
        repository: "OWNER/NAME" on GitHub.
        branch: of the repository.
    """
    links = {
        f"{_COLAB}/assets/colab-badge.svg": (
            "Open in Colab",
            f"{_COLAB}/github/{repository}/blob/{branch}/{name}",
        ),
        f"{_BINDER}/badge_logo.svg": (
            "Open in Binder",
            f"{_BINDER}/v2/gh/{repository}/{branch}?labpath={name}",
        ),
    }
    badges = " ".join(f"[![{words}]({image})]({url})" for image, (words, url) in links.items())
    first, *others = notebook["cells"]
    title, _, text = "".join(first["source"]).partition("\n")
    return notebook | {"cells": [first | {"source": f"{title}\n\n{badges}\n{text}"}, *others]}


def tags(cell: dict[str, Any]) -> set[str]:
    """The tags of a cell."""
    return set(cell["metadata"].get("tags", ()))


def _emptied(cell: dict[str, Any]) -> dict[str, Any]:
    # `bayesnn` says how a claim is broken, which is for the tests.
    metadata = {name: value for name, value in cell["metadata"].items() if name != "bayesnn"}
    if cell["cell_type"] != "code":
        return cell | {"metadata": metadata}
    emptied = cell | {"execution_count": None, "outputs": []}
    if "solution" in tags(cell):
        metadata.pop("jupyter", None)  # an empty cell need not be hidden
        emptied["source"] = [_ANSWER]
    return emptied | {"metadata": metadata}
