"""The teaching notebooks as pages, from their stored outputs, and their small pictures.

Notebooks are copied before Sphinx reads, with what a page needs and a notebook has not: links from
one lesson to the next, texts in place of figures for those who do not see them, closed solutions,
and what the cells printed at full size.
"""

import base64
import io
import json
import re
from pathlib import Path

from lesson_graph import graph, lesson, timings

# A paragraph in italics, or one that begins with bold words.
_CAPTION = re.compile(r"\*(?!\*)(.+?)\*(?=\s*(?:\n\n|$))|(\*\*.+?)(?=\n\n|$)", re.DOTALL)
_MARKUP = re.compile(r"\\(?:mathcal|mathrm|text|[,;!])|[*`$\\{}]|\]\([^)]*\)|\[")
_POINT = re.compile(r"^[-*] (.+?)(?=\n[-*] |\n\n|\Z)", re.MULTILINE | re.DOTALL)
# What is a link already comes first, and stays as it is.
_NAMED = re.compile(
    r"\[[^\]]*\]\([^)]*\)|\*\*(?P<bold>\d\d) [^*]+\*\*|\bnotebooks? (?P<plain>\d\d)\b"
)
_LONGEST = 300  # characters of a figure's text, which is heard as a whole
_WIDTH = 560  # pixels of a small picture, twice what it is shown at
_FILES = "_generated/notebooks"


def setup(app):
    """What Sphinx calls."""
    app.connect("builder-inited", _write)
    app.connect("include-read", _to_pages)
    return {"parallel_read_safe": True}


def _write(app):
    folder = Path(app.srcdir) / _FILES
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted((Path(app.srcdir).parent / "notebooks").glob("*.ipynb"))
    pages = {path.name[:2]: path.name for path in sources}
    kept, cards, thumbnails, lessons = set(), [], [], []
    for path in sources:
        notebook = json.loads(path.read_text())
        title, summary = _title(notebook), _summary(notebook)
        picture = path.with_suffix(".png").name
        kept.add(_keep(folder / picture, _small(_picture(notebook))))
        lessons.append(lesson("".join(notebook["cells"][0]["source"]), f"{_FILES}/{path.stem}"))
        full = path.parent / "full" / f"{path.name[:2]}.json"
        record = json.loads(full.read_text()) if full.exists() else {}
        page = json.dumps(_page(notebook, title, path.name, pages, record))
        kept.add(_keep(folder / path.name, page.encode()))
        cards += _card(path.stem, picture, title, summary)
        thumbnails += _card(path.stem, picture, title, "")
    kept |= {
        _keep(folder / "cards.txt", _grid("1 2 2 3", cards)),
        _keep(folder / "thumbnails.txt", _grid("2 2 3 4", thumbnails)),
        _keep(folder / "timings.txt", timings(lessons).encode()),
        _keep(folder / "graph.html", graph(lessons).encode()),
    }
    for path in set(folder.iterdir()) - kept:
        path.unlink()


def _to_pages(_app, path, _document, content):
    """Links of CONTRIBUTING.md to notebooks, which it has for GitHub, as links to their pages."""
    if path.name == "CONTRIBUTING.md":
        content[0] = content[0].replace("](notebooks/", f"]({_FILES}/")


def _keep(path, content):
    """Write what is new: Sphinx reads again what is newer than its last reading."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)
    return path


def _page(notebook, title, name, pages, record):
    """The notebook as its page shows it; `record` is of its run at full size, or empty."""
    cells = notebook["cells"]
    figures = 0
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        text = "".join(cell["source"])
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "markdown":
            cell["source"] = _linked(text, pages)
        if cell["cell_type"] != "code":
            continue
        cell["outputs"] = [_still(output) for output in cell["outputs"] if not _is_live(output)]
        shown = {}
        if any("image/png" in output.get("data", {}) for output in cell["outputs"]):
            figures += 1
            shown["image"] = {"alt": _alternative(after, title, figures)}
        if "install" in tags:
            cell["metadata"]["tags"] = [*tags, "remove-cell"]
        if "solution" in tags:
            cell["metadata"]["tags"] = [*tags, "hide-cell"]
            shown["code_prompt_show"] = "Show a solution"
            shown["code_prompt_hide"] = "Hide the solution"
        cell["metadata"]["mystnb"] = shown
    first = cells[0]["source"].split("\n", 1)
    run = (
        f"The outputs were stored with the notebook. To run it, {{download}}`download it "
        f"<../../../notebooks/{name}>`, or get all of them by `bayesnn notebooks course`."
    )
    cells[0]["source"] = "\n".join([first[0], "", run, *first[1:]])
    notebook["cells"] = list(_with_record(cells, record))
    # The lexer of the notebook's own kernel comes with IPython, which a page does not need.
    notebook["metadata"] = {
        "kernelspec": notebook["metadata"]["kernelspec"],
        "language_info": {"name": "python", "pygments_lexer": "python"},
    }
    return notebook


def _with_record(cells, record):
    """The cells, each followed by what it printed at full size, which a reader may open."""
    for cell in cells:
        yield cell
        words = record.get("printed", {}).get(cell["id"])
        if words is not None and "solution" not in cell["metadata"].get("tags", []):
            title = f"At full size (FULL = True, {record['minutes']:.0f} min in all)"
            source = f":::{{dropdown}} {title}\n```text\n{words.rstrip()}\n```\n:::"
            identity = f"{cell['id']}-full"
            yield {"cell_type": "markdown", "id": identity, "metadata": {}, "source": source}


def _is_live(output):
    """Whether an output is a slider or the like, which nothing answers on a page."""
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def _still(output):
    """Lines that a terminal would have written over each other, as they ended."""
    if output["output_type"] == "stream":
        lines = "".join(output["text"]).split("\n")
        output["text"] = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)
    return output


def _linked(text, pages):
    """Other lessons that a text names, "notebook 04" or "**04 Title**", as links."""

    def link(found):
        page = pages.get(found["bold"] or found["plain"])
        return f"[{found[0]}]({page})" if page else found[0]

    return _NAMED.sub(link, text).replace("](../docs/", "](../../")


def _alternative(after, title, number):
    """What is said in place of a figure: the caption that follows it."""
    is_text = after is not None and after["cell_type"] == "markdown"
    is_caption = is_text and "exercise" not in after["metadata"].get("tags", [])
    caption = _CAPTION.match("".join(after["source"]).strip()) if is_caption else None
    if caption is None:
        return f"Figure {number} of the lesson {title}"
    words = " ".join(_MARKUP.sub("", caption[1] or caption[2]).split())
    if len(words) > _LONGEST:
        words = words[:_LONGEST].rsplit(" ", 1)[0] + " ..."
    return words


def _title(notebook):
    """The first heading, without its mark."""
    return "".join(notebook["cells"][0]["source"]).split("\n", 1)[0].lstrip("# ").strip()


def _summary(notebook):
    """The first paragraph below the title, or the first point of what is learnt."""
    blocks = "".join(notebook["cells"][0]["source"]).split("\n\n")[1:]
    if blocks and not blocks[0].startswith("**"):
        return " ".join(blocks[0].split())
    points = re.search(
        r"^[-*] (.+?)(?=\n[-*] |\n\n|\Z)", "\n\n".join(blocks), re.MULTILINE | re.DOTALL
    )
    words = " ".join(points[1].split()).rstrip(";,.") if points else ""
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _picture(notebook):
    """The figure that stands for a notebook: of the cell tagged `thumbnail`, or the first."""
    found = [
        (("thumbnail" not in cell["metadata"].get("tags", [])), output["data"]["image/png"])
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    if not found:
        raise ValueError(f"The notebook {_title(notebook)!r} has no stored figure: run it first.")
    return base64.b64decode("".join(min(found, key=lambda pair: pair[0])[1]))


def _small(image):
    """The upper left of a figure, 3 by 2, as small as its place."""
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        whole = opened.convert("RGB")
    width = min(whole.width, whole.height * 3 // 2)
    part = whole.crop((0, 0, width, min(whole.height, width * 2 // 3)))
    buffer = io.BytesIO()
    part.resize((_WIDTH, _WIDTH * 2 // 3), Image.Resampling.LANCZOS).save(
        buffer, "png", optimize=True
    )
    return buffer.getvalue()


def _card(page, picture, title, words):
    return [
        f":::{{grid-item-card}} {title}",
        f":link: /{_FILES}/{page}",
        ":link-type: doc",
        f":img-top: /{_FILES}/{picture}",
        f":img-alt: A figure of the lesson {title}",
        "",
        words,
        ":::",
        "",
    ]


def _grid(columns, cards):
    """Cards in a grid; columns on a telephone, a tablet, a laptop and a wide screen."""
    head = [f"::::{{grid}} {columns}", ":gutter: 3", ":class-container: lessons", ""]
    return "\n".join([*head, *cards, "::::", ""]).encode()
