"""A teaching notebook as slides, by nbconvert and reveal.js, shown without a connection.

A slide begins at each heading, and one below it at each figure, code, solution and where a text
would be too long. A figure is shown with its caption; claims, imports and settings are left out.
"""

import functools
import json
import re
import shutil
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bayesnn_ppl.cli.teaching.versions import tags

__all__ = ["copy_assets", "slide_cells", "slides_page"]

ASSETS = "assets"
_LEFT_OUT = {"claim", "install", "parameters"}
_SHORT = 16  # lines of code that one reads on a slide
_ROWS = 13  # of text on a slide
_WORDS = 12  # in a row
_NEEDED = ("nbconvert", "sphinx_revealjs", "sphinx-mathjax-offline")
_MESSAGE = re.compile(r"\*\*(Figure \d+\. [^*]+)\*\*")
_MATHS = ("tex-chtml.js", "output/chtml/fonts")


def slide_cells(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells that are shown, each with its place in `metadata.slideshow.slide_type`.

    Args:
        cells: of an .ipynb file, with stored outputs; they are left as they are.

    Returns:
        The same cells, or parts of them: "slide" begins a slide, "subslide" one below it, and "-"
        stays on the slide of the cell before.
    """
    shown: list[dict[str, Any]] = []
    for cell, after in zip(cells, [*cells[1:], {"source": ""}], strict=True):
        if cell["cell_type"] == "markdown":
            shown += _text(cell)
        else:
            message = _MESSAGE.match("".join(after["source"]))
            shown += _code(cell, message[1] if message else "A figure")
    return shown


def _text(cell: dict[str, Any]) -> list[dict[str, Any]]:
    source = "".join(cell["source"])
    if source.startswith("**Figure "):
        return [_placed(cell, "-")]
    places = ["slide" if source.startswith("#") else "subslide"]
    parts = list(_parts(source))
    places += ["subslide"] * (len(parts) - 1)
    return [
        _placed(cell | {"source": part, "id": f"{cell['id']}-{number}"}, place)
        for number, (part, place) in enumerate(zip(parts, places, strict=True))
    ]


def _parts(source: str) -> Iterator[str]:
    """A text in parts of whole paragraphs, each short enough for a slide where that can be."""
    taken: list[str] = []
    for paragraph in source.split("\n\n"):
        if taken and sum(map(_rows, taken)) + _rows(paragraph) > _ROWS:
            yield "\n\n".join(taken)
            taken = []
        taken.append(paragraph)
    yield "\n\n".join(taken)


def _rows(paragraph: str) -> float:
    """About how many rows a paragraph takes: a line of a table, list or formula is one or more."""
    if paragraph.startswith("#"):
        return 2
    if re.match(r"[|]|[-*] |\d+\. ", paragraph):
        return sum(max(1, len(line.split()) / _WORDS) for line in paragraph.splitlines()) + 0.5
    return max(3 if "$$" in paragraph else 1, len(paragraph.split()) / _WORDS) + 0.7


def _code(cell: dict[str, Any], message: str) -> list[dict[str, Any]]:
    if tags(cell) & _LEFT_OUT or re.match(r"import |from ", "".join(cell["source"])):
        return []
    figures = [o for o in cell["outputs"] if "image/png" in o.get("data", {})]
    if "solution" in tags(cell):
        return [_placed(cell, "subslide")]
    is_short = len("".join(cell["source"]).splitlines()) <= _SHORT
    printed = [output for output in cell["outputs"] if output not in figures]
    parts = []
    if is_short or printed:
        parts.append(_placed(cell | {"outputs": printed}, "subslide", hide_source=not is_short))
    if figures:
        told = {"metadata": {"image/png": {"alt": message}}}
        shown = {"outputs": [o | told for o in figures], "id": f"{cell['id']}-figure"}
        parts.append(_placed(cell | shown, "subslide", hide_source=True))
    return parts


def _placed(cell: dict[str, Any], place: str, hide_source: bool = False) -> dict[str, Any]:
    metadata = cell["metadata"] | {"slideshow": {"slide_type": place}}
    if hide_source:
        metadata |= {"transient": {"remove_source": True}}
    return cell | {"metadata": metadata}


def slides_page(notebook: dict[str, Any], title: str) -> str:
    """The page of one notebook; what it loads lies in the folder `assets` next to it.

    Args:
        notebook: the JSON of an .ipynb file with its outputs.
        title: of the page.

    Raises:
        ModuleNotFoundError: nbconvert, reveal.js or MathJax is not installed.
    """
    _check_installed()
    import nbformat

    cells = slide_cells(notebook["cells"])
    node = nbformat.reads(json.dumps(notebook | {"cells": cells}), as_version=4)
    body, _ = _exporter().from_notebook_node(node, {"metadata": {"name": title}})
    return body


@functools.cache  # its templates are compiled once for all notebooks
def _exporter() -> Any:
    from jinja2 import DictLoader
    from nbconvert import SlidesExporter

    template = files("bayesnn_ppl.cli.teaching").joinpath("slides.html").read_text()
    return SlidesExporter(
        template_file="offline.html.j2",
        extra_loaders=[DictLoader({"offline.html.j2": template})],
        reveal_url_prefix=f"{ASSETS}/reveal",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        reveal_theme="white",
    )


def copy_assets(folder: Path) -> None:
    """Lay reveal.js and MathJax, as their packages hold them, into `folder/assets`."""
    _check_installed()
    reveal = _package("sphinx_revealjs") / "_static" / "revealjs"
    maths = _package("sphinx-mathjax-offline") / "static" / "mathjax"
    shutil.copytree(reveal / "dist", folder / ASSETS / "reveal" / "dist")
    shutil.copytree(reveal / "plugin" / "notes", folder / ASSETS / "reveal" / "plugin" / "notes")
    for name in _MATHS:
        source, target = maths / name, folder / ASSETS / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)


def _package(name: str) -> Path:
    found = find_spec(name)
    assert found is not None and found.submodule_search_locations, name
    return Path(found.submodule_search_locations[0])


def _check_installed() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"Slides need {', '.join(missing)}, which is not installed. Nothing was written. "
            "Install it: pip install 'bayesnn_ppl[slides]'."
        )
