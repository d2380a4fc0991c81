"""Checks of shapes and ranges that every score needs, and targets and log scores row by row.

Broadcasting would give wrong scores silently.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arrays import same_index


@dataclass(frozen=True)
class Predicted:
    """A posterior whose predictions at the rows are made already, or were recorded in its run."""

    prediction: Any
    recorded: bool = False

    def predict(self, x: Any) -> Any:
        return self.prediction


def real(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """`value` as a non-empty float64 array."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` has dtype {array.dtype}, but a score needs real numbers.")
    if array.size == 0:
        raise ValueError(f"`{name}` is empty (shape {array.shape}): there is nothing to score.")
    return array.astype(np.float64)


def same_shape(**arrays: NDArray) -> None:
    """Refuse arrays of different shapes, which NumPy would broadcast against each other."""
    names = " and ".join(f"`{name}`" for name in arrays)
    shapes = [array.shape for array in arrays.values()]
    if len(set(shapes)) > 1:
        listed = ", ".join(str(shape) for shape in shapes)
        raise ValueError(
            f"{names} must have one shape, but they have {listed}. "
            "Scores do not broadcast: squeeze or reshape first, for example y[:, 0]."
        )


def same_rows(x: Any, y: Any) -> None:
    """Refuse inputs and targets of different lengths, or with other indexes of pandas."""
    same_index(x, y)
    if len(x) != len(y):
        raise ValueError(
            f"`x` has {len(x)} rows and `y` has {len(y)}: every input needs one target."
        )


def draws_of(value: ArrayLike, name: str, y: NDArray) -> NDArray[np.float64]:
    """`value` as an array of shape (S, *y.shape)."""
    array = real(value, name)
    if array.ndim != y.ndim + 1 or array.shape[1:] != y.shape:
        raise ValueError(
            f"`{name}` has shape {array.shape}, but must be (S, ...) with the shape of `y`, "
            f"{y.shape}, after the axis of draws."
        )
    return array


def class_probabilities(value: ArrayLike, name: str = "probabilities") -> NDArray:
    """`value` as floating class probabilities (..., K); float32 stays float32."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        array = real(array, name)
    if array.dtype.itemsize < 4:
        array = array.astype(np.float32)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(
            f"`{name}` has shape {array.shape}, but must be (..., K) with the classes last. "
            "For a binary probability p of shape (N,) pass np.stack([1 - p, p], -1)."
        )
    total = array.sum(axis=-1, dtype=np.float64)
    # NaN passes on purpose: a broken prediction must show as a NaN score.
    if (array < 0).any() or (np.abs(total - 1) > 1e-2).any():
        raise ValueError(
            f"`{name}` must be non-negative and sum to 1 over the last axis; here the smallest "
            f"value is {np.nanmin(array):.3g} and the sums run from {np.nanmin(total):.3g} to "
            f"{np.nanmax(total):.3g}. Pass probabilities, not logits or log probabilities."
        )
    return array


def class_labels(value: ArrayLike, probabilities: NDArray) -> NDArray[np.intp]:
    """`value` as integer labels of the shape of `probabilities` without its last axis."""
    array = np.asarray(value)
    classes = probabilities.shape[-1]
    if array.shape != probabilities.shape[:-1]:
        raise ValueError(
            f"`labels` has shape {array.shape}, but `probabilities` {probabilities.shape} needs "
            f"{probabilities.shape[:-1]}. Pass class numbers, not one-hot vectors."
        )
    if array.dtype.kind not in "iub" and not np.array_equal(array, np.round(array)):
        raise TypeError("`labels` holds values that are not integers. Pass class numbers.")
    if array.min() < 0 or array.max() >= classes:
        raise ValueError(
            f"`labels` runs from {array.min()} to {array.max()}, but there are {classes} classes, "
            f"numbered 0 to {classes - 1}."
        )
    return array.astype(np.intp)


def log_scores(prediction: Any, y: Any) -> NDArray[np.float64]:
    """The log score of each row, (N,), which `evaluate` averages.

    Labels: log of their averaged probability. Single precision knows no probability below 1e-45,
    so where one is 0 the log densities are averaged in place of the densities, if rows have one
    label each: one pass over the draws more. What is infinite then is ruled out by every draw.
    """
    if prediction.task == "regression":
        return np.asarray(prediction.log_prob(y), dtype=np.float64)
    p = np.asarray(prediction.probabilities)
    chosen = np.take_along_axis(p, class_labels(y, p)[..., None], axis=-1)[..., 0]
    if np.ndim(y) == 1 and (chosen == 0).any() and hasattr(prediction, "log_prob"):
        return np.asarray(prediction.log_prob(y), dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(chosen.astype(np.float64)).reshape(len(p), -1).mean(axis=1)


def mean_log_score(prediction: Any, y: Any) -> float:
    """The average of `log_scores` over the rows that are not masked whole; NaN if all are."""
    each = log_scores(prediction, y)
    each = each[scored_rows(prediction, y, each)]
    return float(each.mean()) if len(each) else math.nan


def scored_rows(prediction: Any, y: Any, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The rows (N,) that an average of log scores is over, see `not_masked`."""
    if prediction.task != "regression" or not hasattr(prediction, "exact"):
        return np.ones(len(scores), bool)
    return not_masked(np.asarray(prediction.exact(y)), scores)


def not_masked(exact: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The rows (N,) that are not masked whole.

    A masked row has the log density 0, whatever the draws. So has a censored row that is certain,
    which says as little.

    Args:
        exact: which elements are neither masked nor censored, (N, ...).
        scores: log densities of the rows in the model's units or in those of the data.
    """
    # An average of zeros may be rounded.
    return exact.reshape(len(scores), -1).any(axis=1) | ~np.isclose(scores, 0.0, atol=1e-5)


def exact_targets(prediction: Any, y: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The targets that are neither masked nor censored, in the data's units, and which they are."""
    target = np.asarray(prediction.y(y))
    exact = np.ones(shape, bool) if not hasattr(prediction, "exact") else prediction.exact(y)
    if target.shape == (*exact.shape, 2):
        target = target[..., 0]  # an interval whose ends are one
    if exact.shape != target.shape:
        raise ValueError(
            f"`y` has shape {target.shape}, but the predictions have {exact.shape}. "
            "Give y the shape it had in training."
        )
    return target[exact], exact


@contextmanager
def far_inputs_expected() -> Iterator[None]:
    """No warning of rows far from training, where rows of another kind are the point."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* lie far outside the training")
        yield
