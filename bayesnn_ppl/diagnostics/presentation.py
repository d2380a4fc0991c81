"""Results as text of 88 columns, and as values that JSON has."""

import textwrap
from collections.abc import Iterable

__all__ = ["WIDTH", "cut", "paragraph", "value_lines"]

WIDTH = 88


def paragraph(text: str) -> list[str]:
    """A paragraph in lines."""
    return textwrap.wrap(text, WIDTH)


def value_lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Names on the left and their values in one column, long ones wrapped below themselves."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return [
        line
        for name, value in pairs
        for line in textwrap.wrap(
            f"  {name:<{width}}  {value}", WIDTH, subsequent_indent=" " * (width + 4)
        )
    ]


def cut(name: str, width: int) -> str:
    """The end of a name tells more than its beginning, because it holds the index."""
    return name if len(name) <= width else "…" + name[-(width - 1) :]
