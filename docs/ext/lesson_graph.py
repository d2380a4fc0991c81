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
_BOX, _LANE, _GAP, _ROW = (128, 56), 6, 12, 94  # pixels: a box, a line, between them, a row
_LETTERS, _LINES = 18, 3  # in a line of a box, and its lines


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
    """The SVG: every lesson below those that it needs. What follows from other lines has none."""
    rows, needs = _rows(lessons), _direct(lessons)
    centres, lanes, width = _places(rows, needs)
    depth = {one.number: level for level, row in enumerate(rows) for one in row}
    lines = [
        _line(need, number, centres, lanes, depth) for number in needs for need in needs[number]
    ]
    boxes = [_box(one, centres[one.number], depth[one.number] * _ROW) for one in lessons]
    height = (len(rows) - 1) * _ROW + _BOX[1]
    told = "; ".join(f"{one.number} needs {', '.join(one.needs) or 'nothing'}" for one in lessons)
    return (
        f'<div class="lesson-graph"><svg viewBox="-2 -2 {width + 4} {height + 4}" '
        f'width="{width + 4}" role="img" aria-label="{html.escape(told)}">'
        f"{''.join(lines)}{''.join(boxes)}</svg></div>\n"
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


def _direct(lessons):
    """Number -> the lessons that it needs and that no other lesson it needs has needed already."""
    before = {}
    for one in sorted(lessons, key=lambda one: one.number):
        before[one.number] = set(one.needs).union(*(before[need] for need in one.needs))
    return {
        one.number: [n for n in one.needs if not any(n in before[other] for other in one.needs)]
        for one in lessons
    }


def _places(rows, needs):
    """Centres of the boxes, centres of lines that pass a row, (number, row) -> x, and the width."""
    centres, lanes = {}, {}
    below = {one.number: level for level, row in enumerate(rows) for one in row}
    last = {n: max((below[m] for m in needs if n in needs[m]), default=0) for n in needs}
    passing = [[n for n in needs if below[n] < level < last[n]] for level in range(len(rows))]
    width = max(
        len(row) * (_BOX[0] + _GAP) + len(lines) * (_LANE + _GAP) - _GAP
        for row, lines in zip(rows, passing, strict=True)
    )
    for level, row in enumerate(rows):

        def above(number, level=level):
            return lanes.get((number, level - 1), centres.get(number))

        items = [(above(number), number, _LANE) for number in passing[level]]
        for one in row:
            places = [above(need) for need in needs[one.number]] or [0]
            items.append((sum(places) / len(places), one.number, _BOX[0]))
        items.sort()
        for (_, number, size), x in zip(items, _lefts(items, width), strict=True):
            place, key = (lanes, (number, level)) if size == _LANE else (centres, number)
            place[key] = x + size / 2
    return centres, lanes, width


def _lefts(items, width):
    """Left ends of (wished centre, number, size), near their wishes, in order and apart."""
    found, free = [], 0
    for wish, _, size in items:
        found.append(max(free, wish - size / 2))
        free = found[-1] + size + _GAP
    end = width
    for place, (_, _, size) in reversed(list(enumerate(items))):
        found[place] = min(found[place], end - size)
        end = found[place] - _GAP
    return found


def _line(need, number, centres, lanes, depth):
    """From the bottom of one box to the top of another, between the boxes of the rows it passes."""
    x, y = centres[need], depth[need] * _ROW + _BOX[1]
    path = f"M{x:g} {y}"
    for level in range(depth[need] + 1, depth[number] + 1):
        top = level * _ROW
        end = centres[number] if level == depth[number] else lanes[need, level]
        middle = (y + top) / 2
        path += f"C{x:g} {middle:g} {end:g} {middle:g} {end:g} {top}"
        x, y = end, top + _BOX[1]
        path += f"V{y}" if level < depth[number] else ""
    return f'<path d="{path}"/>'


def _box(one, centre, y):
    words = _wrapped(f"{one.number} {one.title}")
    top = y + _BOX[1] / 2 + 4 - 7.5 * (len(words) - 1)
    spans = "".join(
        f'<tspan x="{centre:g}" y="{top + 15 * row:g}">{html.escape(line)}</tspan>'
        for row, line in enumerate(words)
    )
    return (
        f'<a href="{one.page}.html">'
        f'<rect x="{centre - _BOX[0] / 2:g}" y="{y}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6"/>'
        f"<text>{spans}</text></a>"
    )


def _wrapped(title):
    """A title in a few lines, the last cut where it is too long."""
    lines = [""]
    for word in title.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _LETTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines) <= _LINES:
        return lines
    return [*lines[: _LINES - 1], lines[_LINES - 1].rstrip(",:") + " …"]
