"""Columns of tables as numbers and labels, with errors that name cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesnn_ppl.core.arrays import same_index
from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.checks import lower
from bayesnn_ppl.data.common.standardisation import Task

if TYPE_CHECKING:
    import pandas


_MOST_ADDED = 8
_WRITTEN = {
    "numbers": ", write decimals with a point and durations as a number of seconds or days",
    "dates": ", write dates as 2021-12-31",
}
NEW_ROWS = replace(checks.ARRAYS, table="The table `rows`", target="The target")


def as_pandas(table: Any) -> pandas.DataFrame | None:
    """The table of pandas, or of polars as one of pandas; None of anything else."""
    if not hasattr(table, "columns"):
        return None
    import pandas

    if isinstance(table, pandas.DataFrame):
        return table
    # Column by column: the way of polars to pandas needs pyarrow.
    return pandas.DataFrame({str(name): table[name].to_numpy() for name in table.columns})


def frame_columns(
    frame: Any, y: Any, origin: checks.Origin
) -> tuple[pandas.DataFrame, Any, checks.Origin]:
    """The inputs of a frame of pandas or Polars, as one of pandas, and its target.

    Args:
        frame: with a target column that `y` names, or without.
        y: that name, or targets of their own.
        origin: of arrays; that of a frame is returned.
    """
    import pandas

    table: Any
    origin = replace(origin, table="The frame `x`")
    names = [str(name) for name in frame.columns]
    checks.check_columns(names, origin.table, "Every column needs its own.")
    if isinstance(frame, pandas.DataFrame):
        table = frame.set_axis(names, axis=1)
        same_index(table, y)
    else:
        table = as_pandas(frame)
    if y is None or isinstance(y, str):
        y = table[find_target(y, names, origin, option="y")]
        names.remove(str(y.name))
    return table[names], y, origin


def target_column(
    y: Any, task: Task | None, origin: checks.Origin
) -> tuple[Any, str, list[str] | None]:
    """Targets, their name, and the names of the classes where the targets are names themselves.

    What holds no text comes back as it was given.
    """
    import pandas

    if getattr(y, "columns", None) is not None and len(y.columns) == 1:
        y = y[y.columns[0]]
    name = getattr(y, "name", None)
    try:
        values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    except ValueError:
        return y, "y", None  # rows of unlike lengths, which are refused as they are
    if values.ndim == 1 and values.dtype.kind in "OUST":
        column = pandas.Series(values).infer_objects()
        if column.dtype.kind not in "biuf":
            told = replace(origin, target=f"The target `{name or 'y'}`")
            targets, classes = labels_or_numbers(column, task, told)
            return targets, str(name or "y"), classes
    return y, str(name or "y"), None


def find_target(
    target: str | None, columns: Sequence[str], origin: checks.Origin, *, option: str = "target="
) -> str:
    """The target column, or an error that lists the columns."""
    if target is not None and target in columns:
        return target
    choices = f"Its columns are {checks.listing(f'`{name}`' for name in columns)}."
    if target is None:
        raise ValueError(
            f"{origin.table} needs a target: name the column to predict with `{option}`. {choices}"
        )
    raise ValueError(
        f"{origin.table} has no column `{target}` to use as the target."
        f"{checks.nearest(target, columns)} {choices}"
    )


def features_of(
    table: pandas.DataFrame, feature_names: Sequence[str], origin: checks.Origin
) -> np.ndarray:
    """The features that a model was trained on, float64 (n, d), of a table that may hold others."""
    columns_present(table, feature_names, origin)
    x = numbers(table, feature_names, origin)
    checks.check_finite(x, feature_names, origin)
    return x


def columns_present(
    table: pandas.DataFrame, feature_names: Sequence[str], origin: checks.Origin
) -> None:
    """Refuse a table that lacks a feature; the message says which, and what it has."""
    columns = list(table.columns)
    absent = [name for name in feature_names if name not in columns]
    if absent:
        # A column that is a feature itself cannot be meant by another name.
        unmatched = [str(name) for name in columns if name not in feature_names]
        hint = checks.nearest(absent[0], unmatched) or _absent_categories(absent, feature_names)
        raise ValueError(
            f"{origin.table} lacks {len(absent)} of the {len(feature_names)} features of the "
            f"training data: {checks.listing(f'`{name}`' for name in absent)}.{hint} Its columns "
            f"are {checks.listing(f'`{name}`' for name in columns)}. Columns are matched by name."
        )


def _absent_categories(absent: Sequence[str], feature_names: Sequence[str]) -> str:
    """What to do about columns of categories that new rows lack; nothing if names tell of none.

    `pandas.get_dummies` names them `district_north`, `district_south`, ...
    """
    stems = {name: name.rpartition("_")[0] for name in feature_names}
    present = {stems[name] for name in feature_names if name not in absent}
    if any(not stems[name] or stems[name] not in present for name in absent):
        return ""
    named = ", ".join(map(repr, absent)) if len(absent) <= _MOST_ADDED else "..."
    return (
        " If these are 0/1 columns for categories that do not occur in the new rows, add them as "
        f"zeros: `new.reindex(columns=[*new, {named}], fill_value=0)`."
    )


def numbers(table: pandas.DataFrame, names: Sequence[str], origin: checks.Origin) -> np.ndarray:
    """The named columns as float64, shape (n, d); blanks become NaN, text is refused."""
    x = np.empty((len(table), len(names)))
    words = {}
    for position, name in enumerate(names):
        x[:, position], words[name] = parse(table[name])
    text_in_numbers(table, words, origin)
    return x


def text_in_numbers(
    table: pandas.DataFrame,
    words: Mapping[str, np.ndarray],
    origin: checks.Origin,
    wanted: str = "numbers",
) -> None:
    """Refuse text where numbers, or dates, belong.

    Args:
        table: the columns.
        words: column -> where it has text, bool (n,).
        origin: how messages speak of the table.
        wanted: what belongs there.
    """
    found = [name for name, where in words.items() if where.any()]
    if not found:
        return
    for name in found:
        if wanted == "numbers" and (comma := checks.number_with_comma(table[name])):
            where = f"The column `{name}` of {lower(origin.table)}"
            raise checks.written_with_commas(where, *comma)
    rows = {name: int(np.argmax(words[name])) for name in found}
    cells = [
        f"`{n}` ({str(table[n].iloc[row])!r} at row {row + origin.first_row})"
        for n, row in rows.items()
    ]
    raise ValueError(
        f"{origin.table} has text in {len(found)} of {len(words)} columns of {wanted}: "
        f"{checks.listing(cells)}; {origin.counting}. Correct these cells, leave blank what is not "
        f"known{_WRITTEN[wanted]}, or drop these columns."
    )


def parse(column: pandas.Series[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The column as float64 with NaN where there is no number, and where it holds text."""
    import pandas

    if column.dtype.kind in "mMc":  # dates and the like, which pandas would count in nanoseconds
        return np.full(len(column), np.nan), column.notna().to_numpy()
    numbers = pandas.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers, np.isnan(numbers) & column.notna().to_numpy()


def labels_or_numbers(
    column: pandas.Series[Any], task: Task | None, origin: checks.Origin
) -> tuple[np.ndarray, list[str] | None]:
    """Float targets and None, or labels 0..K-1 and the class names."""
    import pandas

    if column.dtype.name == "category":  # its entries say whether it is of words or of numbers
        column = pandas.Series(np.asarray(column))
    missing = column.isna().to_numpy()
    numbers, words = parse(column)
    if missing.any() or np.isinf(numbers).any():
        raise checks.missing_target(missing | np.isinf(numbers), origin)
    if words.any() and task != "classification":
        if comma := checks.number_with_comma(column):
            raise checks.written_with_commas(origin.target, *comma)
    mostly_numbers = words.any() and words.mean() < 0.5
    if words.any() and (task == "regression" or (task is None and mostly_numbers)):
        row = int(np.argmax(words))
        choice = "" if task else ' or pass `task="classification"` if all cells are names'
        raise ValueError(
            f"{origin.target} holds the text {column.iloc[row]!r} at {origin.row(row)}, but a "
            f"regression target must be a number. Correct the cell or remove the row{choice}."
        )
    whole = not words.any() and bool(np.all(numbers == np.round(numbers)))
    if task is None:
        binary = column.dtype.kind in "biu" and bool(np.isin(numbers, (0, 1)).all())
        task = "classification" if words.any() or binary else "regression"
    if task == "regression":
        return numbers, None
    if not words.any() and not whole:
        row = int(np.argmax(numbers != np.round(numbers)))
        raise ValueError(
            f"{origin.target} holds the number {numbers[row]:g} at {origin.row(row)}, which is "
            'not a class label. Labels are text or integers; pass `task="regression"` for a '
            "quantity."
        )
    keys = column.astype(str).str.strip() if words.any() else column
    values, first, labels = np.unique(keys.to_numpy(), return_index=True, return_inverse=True)
    # Integers are sorted as numbers, also as text, so that class 10 comes after class 9.
    order = np.arange(len(values)) if words.any() else np.argsort(numbers[first], kind="stable")
    return np.argsort(order)[labels].astype(np.int64), [_class_name(values[i]) for i in order]


def _class_name(value: Any) -> str:
    return str(int(value)) if isinstance(value, float | np.floating) else str(value)
