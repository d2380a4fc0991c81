"""What a table from a user must satisfy; shared by CSV files and arrays.

Every check refuses with a sentence that says what is wrong, where, and what to do about it.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesnn_ppl.data.common.standardisation import TASKS

MINIMUM_ROWS = 10
_SHOWN = 8
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_POINT = re.compile(r"[+-]?\d+(?:\.\d*)?")


@dataclass(frozen=True)
class Origin:
    """Where the numbers come from, for messages.

    Attributes:
        table: the whole, as the subject of a sentence, such as "The file `prices.csv`".
        target: the target, such as "The target column `price` of the file `prices.csv`".
        first_row: the number of the first row of data.
        counting: how rows are counted, such as "the row below the header is row 1".
        missing: what an entry that is not a finite number may look like, such as "NaN or infinite".
    """

    table: str
    target: str
    first_row: int = 0
    counting: str = "the first row is row 0"
    missing: str = "NaN or infinite (or beyond the range of float32)"

    def row(self, index: int) -> str:
        """The row at the 0-based `index`, in words."""
        return f"row {index + self.first_row}, where {self.counting}"


ARRAYS = Origin("The array `x`", "The array `y`")


def lower(subject: str) -> str:
    """The subject of a sentence, to be used inside one."""
    return subject[0].lower() + subject[1:]


def listing(items: Iterable[str]) -> str:
    """Items joined by commas; all after the eighth are counted."""
    items = list(items)
    rest = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def nearest(name: str, choices: Sequence[str]) -> str:
    """The question whether one of the closest choices was meant, after a space; or nothing."""
    folded = {choice.casefold(): choice for choice in reversed(choices)}
    found = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(f'`{folded[match]}`' for match in found)}?" if found else ""


def repeated(names: Iterable[str]) -> str:
    """The names that occur more than once, for a message; "" without any."""
    return listing(f"`{name}`" for name, count in Counter(names).items() if count > 1)


def check_columns(names: Iterable[str], table: str, advice: str) -> None:
    """Refuse a table in which several columns have one name."""
    if found := repeated(names):
        raise ValueError(f"{table} has several columns of one name: {found}. {advice}")


def numeric(values: Any, name: str) -> np.ndarray:
    """An array of real numbers."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` is not a rectangular array: its rows have different lengths. "
            "Every row must have the same number of entries."
        ) from error
    if array.dtype.kind in "biuf":
        return array
    advice = (
        "Encode labels as integers 0..K-1, for example by "
        "`classes, y = numpy.unique(y, return_inverse=True)`."
        if name == "y"
        else "Encode text and dates as numbers, or drop these columns."
    )
    raise ValueError(
        f"`{name}` has dtype {array.dtype}, but must hold real numbers (float, int or bool). "
        f"{advice}"
    )


def check_task(task: object) -> None:
    """Refuse a task that is neither None nor known."""
    if task is not None and task not in TASKS:
        raise ValueError(
            f"`task` must be {' or '.join(map(repr, TASKS))}, or None to infer it from the "
            f"target, but is {task!r}."
        )


def check_rows(rows: int, origin: Origin) -> None:
    """Refuse a table that is too short for a training and a test part."""
    if rows < MINIMUM_ROWS:
        raise ValueError(
            f"{origin.table} has {rows} rows of data, but at least {MINIMUM_ROWS} are needed for "
            "a training and a test part. Add rows."
        )


def check_units(standardise: object) -> None:
    """Refuse words other than those for how data are standardised."""
    if not (isinstance(standardise, bool) or standardise in ("inputs", "positive")):
        raise ValueError(
            '`standardise` must be True, False, "inputs" (x alone) or "positive" (y divided by its '
            f"geometric mean), but is {standardise!r}."
        )


def check_finite(x: np.ndarray, names: Sequence[str], origin: Origin) -> None:
    """Refuse missing, infinite and too large entries of x, shape (n, d) or (n, ..., channels)."""
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(x.astype(np.float32))
    if not bad.any():
        return
    bad = bad.reshape(len(x), -1, x.shape[-1]).any(axis=1)
    columns = np.flatnonzero(bad.any(axis=0)).tolist()
    found = listing(
        f"`{names[c]}` ({bad[:, c].sum()} of {len(x)} rows, first at row "
        f"{np.argmax(bad[:, c]) + origin.first_row})"
        for c in columns
    )
    raise ValueError(
        f"{origin.table} has entries that are {origin.missing} in "
        f"{len(columns)} of {len(names)} feature columns: {found}; {origin.counting}. "
        "A network needs a number for every feature: remove those rows or "
        "columns, or fill the entries in beforehand."
    )


def check_varying(x: np.ndarray, names: Sequence[str], origin: Origin) -> None:
    """Refuse feature columns (or channels) with one value only."""
    columns = x.reshape(-1, x.shape[-1])
    constant = np.flatnonzero(columns.min(axis=0) == columns.max(axis=0)).tolist()
    if constant:
        raise constant_columns([names[c] for c in constant], len(names), origin)


def constant_columns(
    constant: Sequence[str], columns: int, origin: Origin, where: str = ""
) -> ValueError:
    """The error for so many feature columns with one value only."""
    return ValueError(
        f"{origin.table} is constant{where} in {len(constant)} of {columns} feature columns: "
        f"{listing(f'`{name}`' for name in constant)}. A constant carries no information and "
        "cannot be scaled to standard deviation 1. Drop these columns."
    )


def check_regression_target(y: np.ndarray, origin: Origin) -> None:
    """Refuse a target, shape (n,) or (n, k), that is missing, infinite or constant."""
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(y.astype(np.float32)).reshape(len(y), -1).all(axis=1)
    if bad.any():
        raise missing_target(bad, origin)
    if np.any(y.min(axis=0) == y.max(axis=0)):
        raise ValueError(
            f"{origin.target} is constant ({np.ravel(y)[0]:g} in every row"
            f"{' of at least one output' if y.ndim > 1 else ''}), so there is nothing to learn. "
            "Choose another target."
        )


def number_with_comma(cells: Iterable[object]) -> tuple[str, bool] | None:
    """The first number with a comma, and whether commas may separate thousands; else None.

    All text cells must be such numbers, or be without a comma.
    """
    words = [cell.strip() for cell in cells if isinstance(cell, str)]
    found = next((word for word in words if "," in word), None)
    if found is None:
        return None
    for written, others in ((_THOUSANDS, _POINT), (_DECIMAL_COMMA, _WHOLE)):
        if all((written if "," in word else others).fullmatch(word) for word in words):
            return found, written is _THOUSANDS
    return None


def written_with_commas(where: str, cell: str, thousands: bool) -> ValueError:
    """The error for what `number_with_comma` finds; `where` is the subject of the sentence."""
    if thousands:
        return ValueError(
            f"{where} has numbers with commas, such as {cell!r}, which are read as text; they may "
            "be thousands separators. Write them without commas: "
            '`pandas.read_csv(file, thousands=",")` reads a file with commas between its cells as '
            "it is, and `to_csv(file, index=False)` of that writes it so. If they are decimal "
            'commas, use `decimal=","` instead, and `sep=";"` where semicolons are between the '
            "cells."
        )
    return ValueError(
        f"{where} has numbers with a decimal comma, such as {cell!r}, which are read as text. "
        'Write decimals with a point: `pandas.read_csv(file, sep=";", decimal=",")` reads the '
        "file as it is, and `to_csv(file, index=False)` of that writes it so."
    )


def missing_target(bad: np.ndarray, origin: Origin) -> ValueError:
    """The error for a target that is not a number in the rows where `bad` is true."""
    return ValueError(
        f"{origin.target} is {origin.missing} in "
        f"{bad.sum()} of {len(bad)} rows, first at {origin.row(int(np.argmax(bad)))}. "
        "A row without a target can be used neither to train nor to test: remove these rows."
    )


def check_classes(labels: np.ndarray, class_names: Sequence[str], origin: Origin) -> None:
    """Refuse labels 0..K-1, shape (n,), with one class, or with a class of fewer than two rows."""
    counts = np.bincount(labels, minlength=len(class_names))
    if len(class_names) < 2:
        raise ValueError(
            f"{origin.target} has a single class, `{class_names[0]}`, so there is nothing to "
            "learn. Classification needs at least two classes."
        )
    rare = np.flatnonzero(counts < 2).tolist()
    if rare:
        raise ValueError(
            f"{origin.target} has {len(class_names)} classes, of which {len(rare)} have fewer "
            f"than two rows: {listing(f'`{class_names[c]}`' for c in rare)}. A class needs a row "
            "to train on and one to test on: add rows, merge or remove these classes, or pass "
            '`task="regression"` if the target is a quantity.'
        )


def check_split_targets(
    y: np.ndarray,
    train_rows: np.ndarray,
    test_rows: np.ndarray,
    class_names: Sequence[str] | None,
    origin: Origin,
) -> None:
    """Refuse a split whose training rows lack a class, or have a constant regression target."""
    if class_names is None:
        train = y[train_rows]
        if np.any(train.min(axis=0) == train.max(axis=0)):
            raise ValueError(
                f"{origin.target} is constant in the {len(train)} training rows of this split. "
                "Choose another `split` or a smaller `test_fraction`."
            )
        return
    unseen = np.setdiff1d(y[test_rows], y[train_rows]).tolist()
    if unseen:
        raise ValueError(
            f"{origin.target} has classes that are in the test rows of this split but never in "
            f"its training rows: {listing(f'`{class_names[c]}`' for c in unseen)}. "
            "Choose another `split` or a smaller `test_fraction`, or add rows of these classes."
        )
