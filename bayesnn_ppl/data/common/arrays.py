"""Data sets from arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.dataset import Dataset, Facts, assemble, content_hash
from bayesnn_ppl.data.common.encoding import TableEncoding
from bayesnn_ppl.data.common.frames import frame_columns, numbers, target_column
from bayesnn_ppl.data.common.splits import TEST_FRACTION, Preparation
from bayesnn_ppl.data.common.standardisation import Task, Units

if TYPE_CHECKING:
    import pandas


def from_arrays(
    x: Any,
    y: Any = None,
    *,
    task: Task | None = None,
    test_fraction: float = TEST_FRACTION,
    split: int = 0,
    name: str = "arrays",
    feature_names: Sequence[str] | None = None,
    standardise: Units = True,
) -> Dataset:
    """A `Dataset` from arrays in the data's units, checked, split and standardised.

    Args:
        x: numbers, shape (n, d), or (n, ..., channels), standardised per channel; or a frame of
            pandas or Polars, whose words, dates and gaps become features as `TableEncoding` says.
        y: shape (n,): numbers for regression, labels 0..K-1 or names for classification.
            Regression with k >= 2 outputs takes (n, k). Of a frame, the name of its target column.
        task: "regression" or "classification". None infers it: classification for names, for
            booleans and for integers that are all 0 or 1, regression for floats. Other integers
            are ambiguous and refused.
        test_fraction: share of the test rows.
        split: which seeded permutation, 0..19; see `uci_split_indices`.
        name: the name of the data set.
        feature_names: d names; by default those of a frame's columns, or x0, x1, ...
        standardise: whether to map x, and y in regression, to mean 0 and standard deviation 1 of
            the training rows; "inputs" leaves y as it is, for counts,
            and "positive" divides it by its geometric mean.

    Raises:
        ValueError: if the arrays have wrong shapes or types, entries that are missing or infinite,
            text in an array or in few rows of a column, columns that are constant or whose words
            hardly come again, a constant target, fewer than 10
            rows, labels other than 0..K-1, classes of fewer than 2 rows or without a training row;
            a frame has no such column, or another index than y; or an option is out of range.
    """
    checks.check_task(task)
    origin = checks.ARRAYS
    if hasattr(x, "columns"):
        x, y, origin = frame_columns(x, y, checks.ARRAYS)
    elif y is None:
        raise ValueError("`y` is missing: only a frame can hold its target in a column of its own.")
    y, target_name, class_names = target_column(y, task, origin)
    if target_name != "y":
        origin = replace(origin, target=f"The target `{target_name}`")
    frame = hasattr(x, "columns")
    x, y = x if frame else checks.numeric(x, "x"), checks.numeric(y, "y")
    check_shapes(x, y, task)
    given = x.columns if frame and feature_names is None else feature_names
    names = _feature_names(given, x.shape[-1])
    task = "classification" if class_names else task or infer_task(y)
    if task == "classification" and class_names is None:
        y = labels(y)
        class_names = [str(label) for label in range(int(y.max()) + 1)] if len(y) else []
    return user_dataset(
        x.set_axis(names, axis=1) if frame else x.astype(np.float64),
        y if task == "classification" else y.astype(np.float64),
        origin,
        Preparation(test_fraction, split, standardise),
        name=name,
        feature_names=names,
        target_name=target_name,
        class_names=class_names,
        description="Arrays given by the caller.",
    )


def user_dataset(
    x: np.ndarray | pandas.DataFrame,
    y: np.ndarray,
    origin: checks.Origin,
    preparation: Preparation,
    **facts: Unpack[Facts],
) -> Dataset:
    """Check inputs and targets of a user, split them by the published rule and assemble them.

    Of a table, the training rows decide how words, dates and gaps become features; the hash is
    then of the table, so that it does not depend on the split.

    Args:
        x: numbers, or a table of inputs alone, whose columns `feature_names` names.
        y: regression targets, or labels 0..K-1 that index `class_names`.
        origin: how messages speak of both.
        preparation: the split.
        facts: `class_names` None means regression.
    """
    checks.check_rows(len(x), origin)
    train, test = preparation.rows(len(x))
    encoding, raw = None, None
    if not isinstance(x, np.ndarray):
        encoding = TableEncoding.fit(x, train, origin)
        if encoding is None:
            x = numbers(x, facts["feature_names"], origin)
        else:
            raw = encoding.read(x, origin)
            x, facts["feature_names"] = encoding.encode(raw, origin), encoding.features
    checks.check_finite(x, facts["feature_names"], origin)
    checks.check_varying(x, facts["feature_names"], origin)
    class_names = facts["class_names"]
    if class_names is None:
        checks.check_regression_target(y, origin)
    else:
        checks.check_classes(y, class_names, origin)
    checks.check_split_targets(y, train, test, class_names, origin)
    dataset = assemble(x, y, train, test, standardise=preparation.standardise, **facts)
    if raw is None:
        return dataset
    return replace(dataset, encoding=encoding, sha256=content_hash(*raw, y))


def check_shapes(x: np.ndarray, y: np.ndarray, task: Task | None) -> None:
    """Refuse shapes of x and y that `from_arrays` does not take, or that do not match."""
    if x.ndim < 2 or 0 in x.shape[1:]:
        hint = " Use `x[:, None]` for a single feature." if x.ndim == 1 else ""
        raise ValueError(
            f"`x` has shape {x.shape}, but must have shape (n, d) with at least one feature, or "
            f"(n, ..., channels).{hint}"
        )
    if y.ndim == 2 and y.shape[1] == 1:
        raise ValueError(
            f"`y` has shape {y.shape}, which would broadcast against predictions of shape (n,) "
            "to (n, n). Use `y[:, 0]`."
        )
    if y.ndim != 1 and (y.ndim != 2 or task == "classification" or y.shape[1] == 0):
        raise ValueError(
            f"`y` has shape {y.shape}, but must have shape (n,), or (n, k) with k >= 2 for "
            "regression with k outputs. For one-hot labels use `y.argmax(axis=1)`."
        )
    if len(x) != len(y):
        raise ValueError(
            f"`x` has {len(x)} rows (shape {x.shape}), but `y` has {len(y)} (shape {y.shape}). "
            "Row i of `y` must be the target of row i of `x`."
        )


def _feature_names(given: Sequence[str] | None, features: int) -> list[str]:
    if given is None:
        return [f"x{index}" for index in range(features)]
    names = [str(name) for name in given]
    if len(names) != features:
        raise ValueError(
            f"`feature_names` has {len(names)} names, but `x` has {features} features (its last "
            "axis). Give one name for each."
        )
    if found := checks.repeated(names):
        raise ValueError(f"`feature_names` repeats {found}. Every feature needs a name of its own.")
    return names


def infer_task(y: np.ndarray) -> Task:
    """The task that the type of y stands for, by the rule of `from_arrays`."""
    if y.dtype.kind == "f":
        return "regression"
    if y.ndim == 1 and np.isin(y, (0, 1)).all():
        return "classification"
    raise ValueError(
        f"`y` holds integers (dtype {y.dtype}) that may be labels or counts. "
        'Pass `task="classification"` or `task="regression"`.'
    )


def labels(y: np.ndarray) -> np.ndarray:
    """Integer labels 0..K-1 without gaps."""
    if y.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            broken = ~(np.isfinite(y) & (y == np.round(y)))
        if broken.any():
            index = int(np.argmax(broken))
            raise ValueError(
                f"The array `y` holds {y[index]} at {checks.ARRAYS.row(index)}, but labels must "
                'be the integers 0..K-1. Pass `task="regression"` if the target is a quantity.'
            )
    present = np.unique(y.astype(np.int64))
    if present.size and (present[0] < 0 or present[-1] != present.size - 1):
        absent = np.setdiff1d(np.arange(min(present[-1], 10_000)), present)
        gaps = f"; {checks.listing(map(str, absent))} never occur" if absent.size else ""
        raise ValueError(
            f"The array `y` has {present.size} distinct labels from {present[0]} to "
            f"{present[-1]}{gaps}. Labels must be 0..K-1 without gaps, because a gap would be a "
            "class that no row can teach. Relabel them by "
            "`classes, y = numpy.unique(y, return_inverse=True)`."
        )
    return y.astype(np.int64)
