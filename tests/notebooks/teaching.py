"""The parts of a lesson: what it is for, captions, exercises, corrections of its source."""

import base64
import re
import struct

import nbformat

from tests.notebooks.execution import tags

WIDEST = 790  # pixels of a figure: seven inches, legible when shown at half of that
GRADES = ["★", "★★", "★★★"]
_HEAD = re.compile(
    r"# \d\d [^\n]+\n\n\*\*You will learn\*\*\n\n(?P<points>(?:- .+\n(?:  .+\n)?){3})\n"
    r"\*\*Prerequisites\*\*: [^*]+\*\*Time\*\*: about \d+ s of computing[^.]*"
    r"minutes of reading[^.]*minutes of exercises\."
)
_CAPTION = re.compile(r"\*\*Figure (\d+)\. [^*]+[.?!]\*\*(?: |\n|$)")
_EXERCISE = re.compile(r"### Exercise (\d+) (★{1,3}) \S")


def objectives(notebook: nbformat.NotebookNode) -> list[str]:
    """The first cell says in three points what one will learn, what one needs, and how long."""
    text = "\n".join(line.rstrip() for line in notebook.cells[0].source.splitlines())
    if _HEAD.match(text):
        return []
    return [
        "The first cell must have its title, `**You will learn**` with three points of at most two "
        "lines, `**Prerequisites**: ...` and `**Time**: about N s of computing on two cores, M "
        "minutes of reading, K minutes of exercises.`"
    ]


def captions(notebook: nbformat.NotebookNode) -> list[str]:
    """Every figure is numbered, is followed by its message, and a claim tests the message."""
    found, number = [], 0
    claimed = {tag for cell in notebook.cells if "claim" in tags(cell) for tag in tags(cell)}
    for index, cell in enumerate(notebook.cells):
        widths = _widths(cell)
        if not widths or "solution" in tags(cell):
            continue
        number += 1
        if len(widths) > 1:
            found.append(f"{cell.id}: shows {len(widths)} figures; one for each cell.")
        if max(widths) > WIDEST:
            found.append(f"{cell.id}: a figure of {max(widths)} pixels, above {WIDEST}.")
        after = notebook.cells[index + 1]
        caption = _CAPTION.match(after.source) if after.cell_type == "markdown" else None
        if caption is None or int(caption[1]) != number:
            found.append(f"{cell.id}: the next cell must begin `**Figure {number}. Message.**`.")
        if f"figure-{number}" not in claimed:
            found.append(f"{cell.id}: no claim is tagged `figure-{number}`.")
    return found


def _widths(cell: nbformat.NotebookNode) -> list[int]:
    """The widths in pixels of the figures of a cell."""
    images = [output.get("data", {}).get("image/png") for output in cell.get("outputs", [])]
    heads = [base64.b64decode(image)[16:20] for image in images if image]
    return [struct.unpack(">I", head)[0] for head in heads]


def exercises(notebook: nbformat.NotebookNode) -> list[str]:
    """Exercises are numbered and graded, and each has a hidden solution."""
    found, grades = [], []
    for index, cell in enumerate(notebook.cells):
        if "exercise" not in tags(cell):
            continue
        head = _EXERCISE.match(cell.source)
        if head is None or int(head[1]) != len(grades) + 1:
            found.append(f"{cell.id}: must begin `### Exercise {len(grades) + 1} ★ Short title`.")
        grades.append(head[2] if head else "")
        following = notebook.cells[index + 1 : index + 2]
        if not following or "solution" not in tags(following[0]):
            found.append(f"{cell.id}: an exercise without a solution after it.")
        elif not following[0].metadata.get("jupyter", {}).get("source_hidden"):
            found.append(f"{following[0].id}: the source of a solution must be hidden.")
    if sorted(set(grades)) != GRADES or grades != sorted(grades):
        found.append("It needs an exercise of each grade, ★ to ★★★, the easiest first.")
    return found


def corrections(notebook: nbformat.NotebookNode) -> list[str]:
    """What a source has wrong stands in one box."""
    text = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    boxes = [cell.id for cell in text if "**Corrections to the source.**" in cell.source]
    if len(boxes) > 1:
        return [f"Corrections stand in {', '.join(boxes)}: put them into one box."]
    return []
