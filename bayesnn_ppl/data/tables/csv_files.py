"""The table of a CSV file, with a checked header."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayesnn_ppl.core.npz import memory_limit
from bayesnn_ppl.data.common import checks

if TYPE_CHECKING:
    import pandas

_BYTES_OF_TEXT = 4  # of memory for one: a digit and its delimiter become eight bytes
_DELIMITERS = (",", ";", "\t")


def read_csv(path: Path, *, text: Sequence[str] = ()) -> pandas.DataFrame:
    """The table as pandas infers it, but for the columns `text`, whose cells stay text."""
    import pandas

    require_room(path, _BYTES_OF_TEXT * path.stat().st_size)
    try:
        delimiter, columns = _header(path)
        with warnings.catch_warnings():
            # pandas warns, and drops cells, where a row is longer than the header.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            table = pandas.read_csv(
                path,
                sep=delimiter,
                header=0,
                names=columns,
                index_col=False,
                na_values=["?"],
                dtype={name: str for name in text},
                skipinitialspace=True,
                low_memory=False,
                compression=None,  # never by the file's name: what is packed has no limit
                encoding="utf-8-sig",
            )
        # pandas fills short rows with missing entries, so one shows in the last column.
        if table[columns[-1]].isna().any():
            _require_full_rows(path, delimiter, len(columns))
        return table
    except UnicodeDecodeError as error:
        raise ValueError(
            f"The file `{path}` is not UTF-8 text (byte {error.start}). Save it as CSV in UTF-8."
        ) from error
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, csv.Error) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if isinstance(error, pandas.errors.ParserWarning):
            reason = "there are rows with more cells than the header"
        raise ValueError(
            f"The file `{path}` is not a regular table: {reason}. "
            "Every row must have as many cells as the header; put quotes around a cell that "
            "contains the delimiter."
        ) from error


def _require_full_rows(path: Path, delimiter: str, cells: int) -> None:
    """Refuse rows with fewer cells than the header; blank lines are skipped."""
    limit = csv.field_size_limit(2**31 - 1)  # pandas has none
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            rows, line = csv.reader(handle, delimiter=delimiter, skipinitialspace=True), 1
            for row in rows:
                if len(row) < cells and (len(row) > 1 or "".join(row).strip()):
                    raise csv.Error(
                        f"line {line} has {len(row)} of {cells} cells, and which are absent is not "
                        "known; an entry that is missing is written as an empty cell"
                    )
                line = rows.line_num + 1
    finally:
        csv.field_size_limit(limit)


class TooLarge(ValueError):
    """A table that the memory does not hold."""


def require_room(path: Path, needed: int) -> None:
    """Refuse a table that the memory does not hold, before any of it is read."""
    limit = memory_limit()
    if needed > limit:
        raise TooLarge(
            f"The file `{path}` would take about {needed / 2**30:.3g} GiB of memory, and "
            f"at most {limit / 2**30:.3g} GiB, half of this machine's, are read. Take fewer rows "
            "or columns, or read it in parts and give `bnn.data.stream` an array of them that "
            "stays on disk (`numpy.memmap`, zarr)."
        )


def _header(path: Path) -> tuple[str, list[str]]:
    """The delimiter that gives the header most columns, and its names."""
    headers = {}
    for delimiter in _DELIMITERS:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            rows = csv.reader(handle, delimiter=delimiter, skipinitialspace=True)
            headers[delimiter] = next(
                (row for row in rows if len(row) > 1 or "".join(row).strip()), []
            )
    delimiter = max(_DELIMITERS, key=lambda d: len(headers[d]))
    columns = [name.strip() for name in headers[delimiter]]
    if not columns:
        raise ValueError(f"The file `{path}` is empty. It needs a header and rows of data.")
    if "" in columns:
        raise ValueError(
            f"Column {columns.index('') + 1} of the file `{path}` has no name. A column without "
            "a name is often a running row number, which pandas writes unless `index=False`: "
            "name it or remove it."
        )
    if all(_is_number(name) for name in columns):
        raise ValueError(
            f"The first row of the file `{path}` holds numbers only ({checks.listing(columns)}), "
            "but must be a header with the names of the columns. Add one."
        )
    checks.check_columns(columns, f"The file `{path}`", "Rename or remove them.")
    return delimiter, columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
