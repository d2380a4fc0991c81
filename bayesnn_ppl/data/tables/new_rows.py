"""Rows of a new file, in the features, units and classes of data that a model was trained on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.dataset import Split
from bayesnn_ppl.data.common.encoding import TableEncoding
from bayesnn_ppl.data.common.frames import labels_or_numbers
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.data.common.target import Labels, StandardisedTarget
from bayesnn_ppl.data.tables.csv_files import read_csv
from bayesnn_ppl.data.tables.table_files import PARQUET, origin_of, read_features, read_table

if TYPE_CHECKING:
    import pandas


def read_split(
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str],
    target_name: str,
    class_names: Sequence[str] | None,
    standardisation: Standardisation,
    encoding: TableEncoding | Sequence[Mapping[str, Any]] | None = None,
) -> Split:
    """Features and targets of a new file, as a model was given those that it was trained on.

    The arguments are the fields of the training `Dataset`; columns are matched by name, and others
    are ignored.

    Args:
        path: a CSV or Parquet file.

    Returns:
        x float32 (n, d), standardised; y int32 `Labels` (n,), or a float32 `StandardisedTarget`
        (n,).

    Raises:
        FileNotFoundError, ValueError: as `read_features` and `read_target`.
    """
    raw = read_features(path, feature_names, encoding=encoding)
    y = read_target(path, target_name, class_names=class_names)
    x = standardisation.apply_x(raw).astype(np.float32)
    if class_names is not None:
        return Split(x, Labels(y, standardisation))
    units = standardisation.apply_y(y).astype(np.float32)
    return Split(x, StandardisedTarget(units, standardisation))


def read_target(
    path: str | os.PathLike[str], target_name: str, *, class_names: Sequence[str] | None = None
) -> np.ndarray:
    """The target column of a new file.

    Args:
        path: a CSV or Parquet file.
        target_name: the column.
        class_names: of a classification, the names of the labels 0..K-1; None for a regression.

    Returns:
        float64 (n,) in the data's units, or int32 labels 0..K-1 (n,).

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is malformed or has no rows, lacks the column, a target is missing
            or no number, or a class is not one of `class_names`.
    """
    path = Path(path)
    table = read_table(path)
    if target_name not in table.columns:
        columns = list(table.columns)
        raise ValueError(
            f"The file `{path}` has no column `{target_name}`, the target of the training data, "
            f"which is needed to score predictions.{checks.nearest(target_name, columns)} Its "
            f"columns are {checks.listing(f'`{name}`' for name in columns)}. Columns are matched "
            "by name."
        )
    if len(table) == 0:
        raise ValueError(f"The file `{path}` has a header but no rows.")
    origin = origin_of(path, target_name)
    if class_names is None:
        return labels_or_numbers(table[target_name], "regression", origin)[0]
    if path.suffix.lower() not in PARQUET:
        # As text, or the class "01" would be read as the number 1.
        table = read_csv(path, text=[target_name])
    return _labels(table[target_name], class_names, origin)


def _labels(
    column: pandas.Series[Any], class_names: Sequence[str], origin: checks.Origin
) -> np.ndarray:
    missing = column.isna().to_numpy()
    if missing.any():
        raise checks.missing_target(missing, origin)
    known = {name: label for label, name in enumerate(class_names)}
    labels = np.empty(len(column), np.int32)
    for row, value in enumerate(column):
        name = next((form for form in _forms(str(value).strip()) if form in known), None)
        if name is None:
            raise ValueError(
                f"{origin.target} holds the class `{value}` at {origin.row(row)}, which the "
                f"training data do not have.{checks.nearest(str(value), list(known))} Their "
                f"classes are {checks.listing(f'`{name}`' for name in known)}."
            )
        labels[row] = known[name]
    return labels


def _forms(text: str) -> list[str]:
    """A class as it is written, and as a training table may have named it."""
    forms = [text, text.capitalize() if text.lower() in ("true", "false") else text]
    try:
        number = float(text)
    except ValueError:
        return forms
    # A table writes integers as 1.0 beside a missing one.
    return [*forms, str(int(number))] if number.is_integer() else forms
