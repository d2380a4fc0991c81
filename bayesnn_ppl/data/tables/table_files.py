"""Data sets from tables of the user: CSV and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.arrays import user_dataset
from bayesnn_ppl.data.common.dataset import Dataset
from bayesnn_ppl.data.common.encoding import TableEncoding, new_features
from bayesnn_ppl.data.common.frames import find_target, labels_or_numbers
from bayesnn_ppl.data.common.splits import TEST_FRACTION, Preparation
from bayesnn_ppl.data.common.standardisation import Task, Units
from bayesnn_ppl.data.tables.csv_files import TooLarge, read_csv, require_room

if TYPE_CHECKING:
    import pandas

PARQUET = (".parquet", ".pq")
_OWN_TEXT = r"-?(0|[1-9]\d*)(\.0*)?"  # of an integer, not 01 or +1
_MISSING = "blank (also NA, null, None or ?), NaN or infinite (or beyond the range of float32)"


def load_table(
    path: str | os.PathLike[str],
    *,
    target: str | None,
    drop: Sequence[str] = (),
    task: Task | None = None,
    test_fraction: float = TEST_FRACTION,
    split: int = 0,
    standardise: Units = True,
) -> Dataset:
    """A `Dataset` from a CSV or Parquet file, one row per observation.

    A CSV file needs a header, from which the delimiter (comma, semicolon or tab) is found. All
    columns but the target are inputs. Words, dates and gaps become features as `TableEncoding`
    says; True and False count as 1 and 0.

    Args:
        path: a file that ends in .parquet, or a CSV file in UTF-8.
        target: the name of the target column.
        drop: names of columns to leave out.
        task: "regression" or "classification". None infers it: classification for text, for
            booleans and for integers that are all 0 or 1; otherwise regression. Class names are
            kept, in sorted order, and encoded as 0..K-1; "classification" keeps 01 and 1 of a CSV
            file apart.
        test_fraction: share of the test rows.
        split: which seeded permutation, 0..19; see `uci_split_indices`.
        standardise: whether to map x, and y in regression, to mean 0 and standard deviation 1 of
            the training rows; "inputs" leaves y as it is, for counts,
            and "positive" divides it by its geometric mean.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is empty, malformed or not UTF-8; if columns are unnamed or
            repeated, or there is only one; if the target, or a column to drop, is not there; if a
            column has text in few of its rows, is infinite somewhere, is constant, or has words
            that hardly come again; if the target is missing somewhere, constant, or
            does not suit the task; if there are fewer than 10 rows or 2 rows of a class, or a
            class without a training row; or if an option is out of range.
        ImportError: if a Parquet file is given and pandas lacks an engine to read it.
    """
    path = Path(path)
    table = read_table(path)
    if task == "classification" and target in table.columns:
        table[target] = _as_written(path, table[target])
    return from_frame(
        table,
        origin_of(path),
        Preparation(test_fraction, split, standardise),
        name=path.stem,
        target=target,
        drop=drop,
        task=task,
        description=f"The table {path.name}.",
    )


def load_csv(
    path: str | os.PathLike[str],
    *,
    target: str | None,
    drop: Sequence[str] = (),
    task: Task | None = None,
    test_fraction: float = TEST_FRACTION,
    split: int = 0,
    standardise: Units = True,
) -> Dataset:
    """A `Dataset` from a CSV file: `load_table`, which takes the same arguments."""
    return load_table(
        path,
        target=target,
        drop=drop,
        task=task,
        test_fraction=test_fraction,
        split=split,
        standardise=standardise,
    )


def read_features(
    path: str | os.PathLike[str],
    feature_names: Sequence[str],
    *,
    encoding: TableEncoding | Sequence[Mapping[str, Any]] | None = None,
) -> np.ndarray:
    """Features of new rows from a CSV or Parquet file, for predictions.

    Columns are matched by name, in whatever order the file has them; other columns, such as the
    target, are ignored.

    Args:
        path: the file, in a format of `load_table`.
        feature_names: the `feature_names` of the training data.
        encoding: the `encoding` of the training data, or its plain values.

    Returns:
        float64, shape (n, d), in the data's units: pass it through `Standardisation.apply_x`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is malformed or has no rows, lacks a column, or has text, a blank or
            an infinite number where the training data had none.
    """
    path = Path(path)
    if encoding is not None and not isinstance(encoding, TableEncoding):
        encoding = TableEncoding.from_list(encoding)
    table = read_table(path, text=encoding.words if encoding else ())
    if len(table) == 0:
        raise ValueError(f"The file `{path}` has a header but no rows to predict.")
    return new_features(table, feature_names, encoding, origin_of(path))


def from_frame(
    table: pandas.DataFrame,
    origin: checks.Origin,
    preparation: Preparation,
    *,
    name: str,
    target: str | None,
    task: Task | None,
    description: str,
    drop: Sequence[str] = (),
) -> Dataset:
    """A `Dataset` from a table and its target column, split by the published rule.

    `origin` describes the table; its target is filled in here.
    """
    checks.check_task(task)
    table = _without(table, drop, target, origin)
    columns = list(table.columns)
    target = find_target(target, columns, origin)
    origin = replace(origin, target=f"The target column `{target}` of {checks.lower(origin.table)}")
    if len(columns) == 1:
        raise ValueError(
            f"{origin.table} has the single column `{columns[0]}`, but a target and at least "
            "one feature are needed. The columns of a CSV file are told apart by comma, semicolon "
            "or tab."
        )
    checks.check_rows(len(table), origin)
    features = [column for column in columns if column != target]
    y, class_names = labels_or_numbers(table[target], task, origin)
    return user_dataset(
        table[features],
        y,
        origin,
        preparation,
        name=name,
        feature_names=features,
        target_name=target,
        class_names=class_names,
        description=description,
    )


def _as_written(path: Path, labels: pandas.Series[Any]) -> pandas.Series[Any]:
    """Labels as text where they would be renamed or merged as numbers, such as 01 and 1."""
    if path.suffix.lower() in PARQUET or labels.dtype.kind not in "iuf":
        return labels
    text = read_csv(path, text=[str(labels.name)])[labels.name].str.strip()
    own = text.dropna().str.fullmatch(_OWN_TEXT).all() and text.nunique() == labels.nunique()
    return labels if own else text


def _without(
    table: pandas.DataFrame, drop: Sequence[str], target: str | None, origin: checks.Origin
) -> pandas.DataFrame:
    """The table without some columns, which it must have."""
    names = [drop] if isinstance(drop, str) else list(drop)
    for name in names:
        if name not in table.columns:
            raise ValueError(
                f"{origin.table} has no column `{name}` to drop."
                f"{checks.nearest(name, list(table.columns))} Its columns are "
                f"{checks.listing(f'`{column}`' for column in table.columns)}."
            )
    if target in names:
        raise ValueError(f"The column `{target}` is the target, and cannot be dropped.")
    return table.drop(columns=names)


def read_table(path: Path, *, text: Sequence[str] = ()) -> pandas.DataFrame:
    """The table of a file, with checked names; the columns `text` of a CSV file stay text."""
    if not path.is_file():
        reason = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise FileNotFoundError(
            f"The path `{path}` {reason}. Pass the path of a CSV or Parquet file; a relative path "
            f"starts at the current folder, `{Path.cwd()}`."
        )
    return _read_parquet(path) if path.suffix.lower() in PARQUET else read_csv(path, text=text)


def _read_parquet(path: Path) -> pandas.DataFrame:
    import pandas

    try:
        from pyarrow import parquet

        said = parquet.read_metadata(path)
        # By its shape, since what it holds is packed: a billion equal numbers take a few bytes.
        require_room(path, 8 * said.num_rows * said.num_columns)
        table = pandas.read_parquet(path)
        noted = (said.schema.to_arrow_schema().pandas_metadata or {}).get("columns", [])
    except TooLarge:
        raise
    except ImportError as error:
        raise ImportError(
            f"The file `{path}` is in the Parquet format, for which pandas needs pyarrow. Install "
            'it with `pip install "bayesnn_ppl[parquet]"`.'
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(
            f"The file `{path}` is not a readable Parquet file ({error}). Write it again, for "
            "example with `table.to_parquet(path)` of pandas."
        ) from error
    columns = [str(column) for column in table.columns]
    checks.check_columns(columns, f"The file `{path}`", "Rename or remove them.")
    table = table.set_axis(columns, axis=1).reset_index(drop=True)
    # Of categories Parquet keeps those of text alone; pandas notes where numbers are categories.
    marked = {column["name"] for column in noted if column["pandas_type"] == "categorical"}
    found = [name for name in columns if name in marked and table[name].dtype.kind in "biuf"]
    return table.astype(dict.fromkeys(found, "category"))


def origin_of(path: Path, target: str | None = None) -> checks.Origin:
    """How messages speak of a file and, where it is known, of its target column."""
    column = f"The target column `{target}` of the file `{path}`" if target else "The target"
    origin = checks.Origin(f"The file `{path}`", column, missing=_MISSING)
    if path.suffix.lower() in PARQUET:
        return origin
    return replace(origin, first_row=1, counting="the row below the header is row 1")
