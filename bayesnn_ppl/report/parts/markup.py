"""Pieces of HTML, every text of which is escaped here and nowhere else."""

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What a status is worth, in a colour and, for those who see none, a sign.
_SIGNS = {"good": "✓", "care": "!", "bad": "✕", "none": "?"}
_WORTH = {
    "converged": "good",
    "fitted": "good",
    "right": "good",
    "passed": "good",
    "approximate": "care",
    "doubtful": "care",
    "not known": "none",
    "not judged": "none",
}


def text(value: Any) -> str:
    """Any value as text that is safe in HTML."""
    return html.escape(str(value))


def badge(status: str) -> str:
    """A status as a word, a sign and a colour."""
    worth = _WORTH.get(status, "bad")
    sign = f'<span aria-hidden="true">{_SIGNS[worth]}</span>'
    return f'<strong class="badge {worth}">{sign} {text(status)}</strong>'


def paragraph(words: str, kind: str = "") -> str:
    """A paragraph of plain text, in which words between back-ticks are code."""
    marked = re.sub("`([^`]+)`", r"<code>\1</code>", text(words))
    return f"<p{f' class={kind}' if kind else ''}>{marked}</p>"


def note(words: str) -> str:
    """A remark in smaller letters."""
    return paragraph(words, "note")


def section(name: str, title: str, body: str, half: bool = False) -> str:
    """A part of the page under a heading of its own; nothing where the body is empty.

    One that is `half` as wide shares its line with the next one, where there is room.
    """
    if not body:
        return ""
    kind = ' class="half"' if half else ""
    return (
        f'<section{kind} id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{text(title)}</h2>\n{body}\n</section>\n'
    )


def columns(left: str, right: str) -> str:
    """Two parts side by side where there is room, one below the other where there is not."""
    if not left or not right:
        return left + right
    return f'<div class="columns"><div>{left}</div><div>{right}</div></div>\n'


def details(summary: str, body: str) -> str:
    """A part that can be folded away, with scripts or without."""
    return f"<details><summary>{text(summary)}</summary>\n{body}\n</details>\n"


def folded_table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, words: Sequence[int] = ()
) -> str:
    """A `table` inside `details` of the same name."""
    return details(caption, table(caption, header, rows, words=words))


def definitions(pairs: Iterable[tuple[str, Any]]) -> str:
    """Names and values in two columns."""
    rows = "".join(f"<div><dt>{text(n)}</dt><dd>{text(v)}</dd></div>" for n, v in pairs)
    return f'<dl class="pairs">{rows}</dl>' if rows else ""


def code(words: str) -> str:
    """A command or a program, with a button to copy it where scripts run."""
    return f'<div class="copied"><pre tabindex="0"><code>{text(words)}</code></pre></div>'


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, words: Sequence[int] = ()
) -> str:
    """A table that scripts can sort by any column, and that scrolls where it is too wide.

    Args:
        caption: what it shows.
        header: names of the columns; the first one names the rows.
        rows: cells, as texts or numbers.
        words: columns that hold words, besides the first.
    """
    named = {0, *words}

    def cell(index: int, value: Any) -> str:
        kind = "" if index in named else ' class="number"'
        if index == 0:
            return f'<th scope="row">{text(value)}</th>'
        return f"<td{kind}>{text(value)}</td>"

    head = "".join(
        f'<th scope="col"{"" if i in named else " class=number"}>{text(name)}</th>'
        for i, name in enumerate(header)
    )
    body = "\n".join(
        "<tr>" + "".join(cell(i, value) for i, value in enumerate(row)) + "</tr>" for row in rows
    )
    label = text(caption)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<caption>{label}</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
        "</table></div>\n"
    )


def number(value: Any, digits: int = 4) -> str:
    """A number in so many figures; a dash where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, int):
        return f"{value}"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{max(digits - 2, 2)}g}"
    # Trailing zeros stay: columns of numbers are read by their places.
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(digits - max(whole, 1), 0)}f}"


def share(value: float) -> str:
    """A share in per cent; only a whole is 100 %."""
    if math.isnan(value):
        return "–"
    return "100 %" if value == 1 else f"{math.floor(1000 * value + 1e-9) / 10:.1f} %"


def settings(values: Mapping[str, Any]) -> str:
    """Settings as `name=value` words."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
