"""What goes to the screen: results to stdout, everything else to stderr."""

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bayesnn_ppl.core.wording import json_text

__all__ = ["note", "paragraph", "print_error", "print_json", "standard_output", "table"]

WIDTH = 88
# How the library's Python options are written in a shell.
_PYTHON_OPTION = re.compile(r"`(target|task|split|test_fraction)=(?:\"?)([^`\"]*)(?:\"?)`")


def print_error(sentence: str, *, kind: str = "error") -> None:
    """One line `bayesnn: error: sentence` to stderr, folded only where a person reads it."""
    sentence = " ".join(_PYTHON_OPTION.sub(_shell_option, sentence).split())
    note(f"bayesnn: {kind}: {sentence}")


def _shell_option(match: re.Match[str]) -> str:
    name, value = match.group(1).replace("_", "-"), match.group(2)
    return f"`--{name} {value}`" if value else f"`--{name}`"


def note(text: str) -> None:
    """A line to stderr."""
    if sys.stderr.isatty():
        text = textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr, flush=True)


def paragraph(text: str, *, indent: str = "") -> str:
    """`text` folded to the width of the output."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """Columns of text; the last one is folded to the width of the output.

    Args:
        header: the names of the columns.
        rows: one string for each column.
        right: the columns that are aligned to the right, as numbers are.
    """
    body = [list(row) for row in rows]
    cells = [list(header), *body]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header) - 1)]
    lines = []
    for row in cells:
        first = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lead = "  ".join([*first, ""])
        rest = textwrap.wrap(row[-1], max(20, WIDTH - len(lead)), break_on_hyphens=False) or [""]
        lines.append((lead + rest[0]).rstrip())
        lines += [" " * len(lead) + line for line in rest[1:]]
    return "\n".join(lines)


def print_json(value: Any) -> None:
    """`value` to stdout as strict JSON; numbers that are not finite become null."""
    with standard_output():
        print(json_text(value))


@contextmanager
def standard_output() -> Iterator[None]:
    """Say of a write to stdout that fails what failed, in an OSError; a reader may leave."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(
            f"Standard output cannot be written to: {error.strerror}. Send it to another place, "
            "such as a file on a disk with space."
        ) from error
