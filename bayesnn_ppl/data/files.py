"""Data sets from CSV files of the user."""

from __future__ import annotations

import csv
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesnn_ppl.data import checks
from bayesnn_ppl.data.arrays import user_dataset
from bayesnn_ppl.data.dataset import Dataset
from bayesnn_ppl.data.splits import TEST_FRACTION
from bayesnn_ppl.data.standardisation import Task

if TYPE_CHECKING:
    import pandas

_DELIMITERS = (",", ";", "\t")
_COUNTING = "the row below the header is row 1"
_MISSING = "blank (also NA, null, None or ?), NaN or infinite (or beyond the range of float32)"


def load_csv(
    path: str | os.PathLike[str],
    *,
    target: str | None,
    task: Task | None = None,
    test_fraction: float = TEST_FRACTION,
    split: int = 0,
    standardise: bool = True,
) -> Dataset:
    """A `Dataset` from a CSV file with a header, one row per observation.

    The delimiter (comma, semicolon or tab) is found from the header. All columns but the target
    are features and must be numbers; True and False count as 1 and 0.

    Args:
        path: the file, in UTF-8.
        target: the name of the target column.
        task: "regression" or "classification". None infers it: classification for text, for
            booleans and for integers that are all 0 or 1; otherwise regression. Class names are
            kept, in sorted order, and encoded as 0..K-1.
        test_fraction: share of the test rows.
        split: which seeded permutation, 0..19; see `uci_split_indices`.
        standardise: whether to map x, and y in regression, to mean 0 and standard deviation 1 of
            the training rows.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is empty, malformed or not UTF-8; if columns are unnamed or
            repeated, or there is only one; if the target is not there; if features are text,
            blank, NaN, infinite or constant; if the target is missing somewhere, constant, or
            does not suit the task; if there are fewer than 10 rows or 2 rows of a class, or a
            class without a training row; or if an option is out of range.
    """
    checks.check_task(task)
    path = Path(path)
    table = _read(path)
    columns = list(table.columns)
    target = _find_target(target, columns, path)
    if len(columns) == 1:
        raise ValueError(
            f"The file `{path}` has the single column `{columns[0]}`, but a target and at least "
            "one feature are needed. Columns are told apart by comma, semicolon or tab."
        )
    origin = _origin(path, target)
    checks.check_rows(len(table), origin)
    features = [column for column in columns if column != target]
    x = _numbers(table, features, path)
    y, class_names = _target(table[target], task, origin)
    return user_dataset(
        path.stem,
        x,
        y,
        origin=origin,
        test_fraction=test_fraction,
        split=split,
        standardise=standardise,
        feature_names=features,
        target_name=target,
        class_names=class_names,
        description=f"The table {path.name}.",
    )


def read_features(path: str | os.PathLike[str], feature_names: Sequence[str]) -> np.ndarray:
    """Features of new rows from a CSV file, for predictions.

    Columns are matched by name, in whatever order the file has them; other columns, such as the
    target, are ignored.

    Args:
        path: the file, in the format of `load_csv`.
        feature_names: the `feature_names` of the training data.

    Returns:
        float64, shape (n, d), in the data's units: pass it through `Standardisation.apply_x`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is malformed or has no rows, lacks a feature, or a feature is text,
            blank, NaN or infinite.
    """
    path = Path(path)
    table = _read(path)
    columns = list(table.columns)
    absent = [name for name in feature_names if name not in columns]
    if absent:
        raise ValueError(
            f"The file `{path}` lacks {len(absent)} of the {len(feature_names)} features of the "
            f"training data: {checks.listing(f'`{name}`' for name in absent)}."
            f"{checks.nearest(absent[0], columns)} Its columns are "
            f"{checks.listing(f'`{name}`' for name in columns)}. Columns are matched by name."
        )
    if len(table) == 0:
        raise ValueError(f"The file `{path}` has a header but no rows to predict.")
    x = _numbers(table, list(feature_names), path)
    checks.check_finite(x, feature_names, _origin(path))
    return x


def _read(path: Path) -> pandas.DataFrame:
    """The table as pandas infers it, with a checked header."""
    import pandas

    if not path.is_file():
        reason = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise FileNotFoundError(
            f"The path `{path}` {reason}. Pass the path of a CSV file; a relative path starts at "
            f"the current folder, `{Path.cwd()}`."
        )
    try:
        delimiter, columns = _header(path)
        with warnings.catch_warnings():
            # pandas warns, and drops cells, where a row is longer than the header.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            return pandas.read_csv(
                path,
                sep=delimiter,
                header=0,
                names=columns,
                index_col=False,
                na_values=["?"],
                skipinitialspace=True,
                low_memory=False,
                encoding="utf-8-sig",
            )
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
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise ValueError(
            f"The file `{path}` has several columns of one name: "
            f"{checks.listing(f'`{name}`' for name in repeated)}. Rename or remove them."
        )
    return delimiter, columns


def _origin(path: Path, target: str = "") -> checks.Origin:
    return checks.Origin(
        table=f"The file `{path}`",
        target=f"The target column `{target}` of the file `{path}`",
        first_row=1,
        counting=_COUNTING,
        missing=_MISSING,
    )


def _find_target(target: str | None, columns: list[str], path: Path) -> str:
    if target in columns:
        return target
    choices = f"Its columns are {checks.listing(f'`{name}`' for name in columns)}."
    if target is None:
        raise ValueError(
            f"The file `{path}` needs a target: name the column to predict with `target=`. "
            f"{choices}"
        )
    raise ValueError(
        f"The file `{path}` has no column `{target}` to use as the target."
        f"{checks.nearest(target, columns)} {choices}"
    )


def _numbers(table: pandas.DataFrame, names: list[str], path: Path) -> np.ndarray:
    """The named columns as float64, shape (n, d); blanks become NaN, text is refused."""
    x = np.empty((len(table), len(names)))
    text = []
    for position, name in enumerate(names):
        values, words = _parse(table[name])
        x[:, position] = values
        if words.any():
            row = int(np.argmax(words))
            text.append(f"`{name}` ({table[name].iloc[row]!r} at row {row + 1})")
    if text:
        raise ValueError(
            f"The file `{path}` has text in {len(text)} of {len(names)} feature columns: "
            f"{checks.listing(text)}; "
            f"{_COUNTING}. Encode categories as numbers (for example one 0/1 column each), write "
            "decimals with a point, or drop these columns."
        )
    return x


def _parse(column: pandas.Series[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The column as float64 with NaN where there is no number, and where it holds text."""
    import pandas

    numbers = pandas.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers, np.isnan(numbers) & column.notna().to_numpy()


def _target(
    column: pandas.Series[Any], task: Task | None, origin: checks.Origin
) -> tuple[np.ndarray, list[str] | None]:
    """Float targets and None, or labels 0..K-1 and the class names."""
    missing = column.isna().to_numpy()
    numbers, words = _parse(column)
    if missing.any() or np.isinf(numbers).any():
        raise checks.missing_target(missing | np.isinf(numbers), origin)
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
            f"{origin.target} holds the number {numbers[row]:g} at {origin.row(row)}, which is no "
            'class label. Labels are text or integers; pass `task="regression"` for a quantity.'
        )
    # Integers are sorted as numbers, so that class 10 comes after class 9.
    keys = column.astype(str).str.strip() if words.any() else column
    values, labels = np.unique(keys.to_numpy(), return_inverse=True)
    return labels.astype(np.int64), [_class_name(value) for value in values]


def _class_name(value: Any) -> str:
    return str(int(value)) if isinstance(value, float | np.floating) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
