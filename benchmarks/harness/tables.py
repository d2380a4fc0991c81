"""Tables: lines that are printed as they come, and Markdown."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_WIDTH = re.compile(r"([<>])\D*(\d+).*")


class Table:
    """A table whose lines are printed as they are measured.

    Args:
        columns: heading and format of each, such as "us/step >9.1f"; a cell of text keeps the
            width, and None is left blank.
    """

    def __init__(self, *columns: str) -> None:
        heads, self._formats = zip(*(column.rsplit(" ", 1) for column in columns), strict=True)
        self.row(*heads)

    def row(self, *cells: Any) -> None:
        """Print a line."""
        print("".join(map(_cell, cells, self._formats)).rstrip(), flush=True)


def _cell(value: Any, form: str) -> str:
    if value is None or isinstance(value, str):
        return format(value or "", _WIDTH.sub(r"\1\2", form))
    return format(value, form)


def markdown(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def mean_and_error(values: Any) -> tuple[float, float | None]:
    """The mean, and its standard error where there are two or more."""
    array = np.asarray(values, dtype=float)
    error = float(array.std(ddof=1) / len(array) ** 0.5) if len(array) > 1 else None
    return float(array.mean()), error


def plus_minus(mean: float | None, error: float | None = None, digits: int = 3) -> str:
    """A mean with its standard error, as far as they are known."""
    if mean is None:
        return "-"
    return f"{mean:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")
