"""Which lesson needs which, and how long each takes: read from their first cells.

The graph is an inline SVG in the page's own colours, whose boxes are links.
"""

import html
import re
from dataclasses import dataclass

_NEEDS = re.compile(r"\*\*Prerequisites\*\*:(.*?)\*\*Time\*\*", re.DOTALL)
_TIME = re.compile(
    r"\*\*Time\*\*: about (\d+) s of computing.*?(\d+)\s+minutes of\s+reading"
    r".*?(\d+)\s+minutes of\s+exercises",
    re.DOTALL,
)
_BOX, _GAP, _ROW = (150, 46), 14, 92  # pixels: a box, between boxes, from row to row
_LETTERS = 22  # of a line in a box


@dataclass(frozen=True)
class Lesson:
    """The number and title of a lesson, the lessons that it needs, and its minutes.

    Attributes:
        page: its file below docs/, without an ending.
        needs: numbers, such as "05".
        computing: seconds.
        reading: minutes.
        exercises: minutes.
    """

    number: str
    title: str
    page: str
    needs: tuple[str, ...]
    computing: int
    reading: int
    exercises: int


def lesson(text, page):
    """What the first cell `text` of a lesson says of it."""
    number, title = re.match(r"# (\d\d) ([^\n]+)", text).groups()
    needs, times = _NEEDS.search(text), _TIME.search(text)
    if needs is None or times is None:
        raise ValueError(f"Lesson {number}: no line of prerequisites, or none of times.")
    found = tuple(re.findall(r"\b(\d\d)\b", needs[1]))
    return Lesson(number, title, page, found, *map(int, times.groups()))


def timings(lessons):
    """A Markdown table of all lessons, and their sums."""
    head = ["| Lesson | Needs | Reading | Exercises | Computing |", "|---|---|--:|--:|--:|"]
    rows = [
        f"| [{one.number} {one.title}]({one.page}.ipynb) | {', '.join(one.needs) or 'nothing'} "
        f"| {one.reading} min | {one.exercises} min | {one.computing} s |"
        for one in lessons
    ]
    reading, work, seconds = (
        sum(getattr(one, name) for one in lessons) for name in ("reading", "exercises", "computing")
    )
    hours = f"{reading / 60:.0f} h", f"{work / 60:.0f} h", f"{seconds / 60:.0f} min"
    return "\n".join([*head, *rows, f"| **all** | | {' | '.join(hours)} |", ""])


def graph(lessons):
    """The SVG: every lesson below those that it needs."""
    rows = _rows(lessons)
    width = max(len(row) for row in rows) * (_BOX[0] + _GAP)
    height = len(rows) * _ROW - (_ROW - _BOX[1])
    at = {}
    for depth, row in enumerate(rows):
        left = (width - len(row) * (_BOX[0] + _GAP) + _GAP) / 2
        for place, one in enumerate(row):
            at[one.number] = (left + place * (_BOX[0] + _GAP), depth * _ROW)
    lines = [_line(at[need], at[one.number]) for one in lessons for need in one.needs]
    boxes = [_box(one, *at[one.number]) for one in lessons]
    told = "; ".join(f"{one.number} needs {', '.join(one.needs) or 'nothing'}" for one in lessons)
    return (
        f'<div class="lesson-graph"><svg viewBox="-2 -2 {width + 4} {height + 4}" role="img" '
        f'aria-label="{html.escape(told)}">{"".join(lines)}{"".join(boxes)}</svg></div>\n'
    )


def _rows(lessons):
    """Lessons by how many others come before, one after the other."""
    depth = {}
    for one in sorted(lessons, key=lambda one: one.number):
        late = [need for need in one.needs if need not in depth]
        if late:
            raise ValueError(f"Lesson {one.number} needs {late[0]}, which does not come before it.")
        depth[one.number] = max((depth[need] + 1 for need in one.needs), default=0)
    rows = [[] for _ in range(max(depth.values()) + 1)]
    for one in lessons:
        rows[depth[one.number]].append(one)
    return rows


def _line(above, below):
    x, y = above[0] + _BOX[0] / 2, above[1] + _BOX[1]
    end = below[0] + _BOX[0] / 2
    bend = (below[1] - y) / 2
    return f'<path d="M{x} {y}C{x} {y + bend} {end} {below[1] - bend} {end} {below[1]}"/>'


def _box(one, x, y):
    words = _wrapped(f"{one.number} {one.title}")
    top = y + _BOX[1] / 2 + 4 - 7.5 * (len(words) - 1)
    spans = "".join(
        f'<tspan x="{x + _BOX[0] / 2}" y="{top + 15 * row}">{html.escape(line)}</tspan>'
        for row, line in enumerate(words)
    )
    return (
        f'<a href="{one.page}.html">'
        f'<rect x="{x}" y="{y}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6"/>'
        f"<text>{spans}</text></a>"
    )


def _wrapped(title):
    """A title in two lines at most, the second cut where it is too long."""
    lines = [""]
    for word in title.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _LETTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines if len(lines) <= 2 else [lines[0], lines[1].rstrip(",:") + " …"]
