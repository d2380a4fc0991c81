"""How right labels are class by class, which the accuracy of unbalanced classes hides."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.core.predictions import class_labels, class_probabilities

_MOST_LISTED = 6


@readable
class ClassScore(NamedTuple):
    """One class.

    Attributes:
        name: of the class.
        rows: whose label it is.
        recall: share of these that are given this label; None without such rows.
        precision: share of those given this label whose label it is; None where none is.
    """

    name: str
    rows: int
    recall: float | None
    precision: float | None


def scores_by_class(
    probabilities: ArrayLike, labels: ArrayLike, names: Sequence[str] | None = None
) -> tuple[ClassScore, ...]:
    """Recall and precision of each class, where each row is given its most probable label.

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).
        names: of the classes; those beyond, which no row of the data has, get their numbers.

    Raises:
        ValueError: as `accuracy`; or there are more names than classes.
        TypeError: labels are not integers.
    """
    p = class_probabilities(probabilities)
    y, classes = class_labels(labels, p).ravel(), p.shape[-1]
    named = [*(names or ()), *map(str, range(len(names or ()), classes))]
    if len(named) > classes:
        raise ValueError(
            f"`class_names` has {len(named)} names, but the predictions are of {classes} classes. "
            "Give one name for each, in the order of the labels."
        )
    given = p.argmax(axis=-1).ravel()
    rows, calls, right = (
        np.bincount(some, minlength=classes).tolist() for some in (y, given, y[y == given])
    )
    return tuple(
        ClassScore(
            name=str(named[k]),
            rows=rows[k],
            recall=right[k] / rows[k] if rows[k] else None,
            precision=right[k] / calls[k] if calls[k] else None,
        )
        for k in range(classes)
    )


def base_rate(labels: ArrayLike) -> float:
    """Share of the most frequent label: the accuracy of giving that one to every row."""
    counts = np.unique(np.asarray(labels), return_counts=True)[1]
    return float(counts.max() / counts.sum())


def balanced_accuracy(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean recall of the classes that occur; a guess that ignores the inputs has 1/K.

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).

    Raises:
        ValueError, TypeError: as `accuracy`.

    References:
        Brodersen, Ong, Stephan, Buhmann (2010), The balanced accuracy and its posterior
        distribution, ICPR.
    """
    if np.isnan(np.asarray(probabilities)).any():
        return float("nan")  # argmax takes a NaN for the maximum
    found = [one.recall for one in scores_by_class(probabilities, labels) if one.recall is not None]
    return float(np.mean(found))


def class_lines(found: Sequence[ClassScore]) -> list[str]:
    """A line for each class, or one for all where they are many."""
    known = [one for one in found if one.recall is not None]
    if len(found) > _MOST_LISTED:
        low, high = (pick(known, key=lambda one: one.recall or 0.0) for pick in (min, max))
        middle = np.median([one.recall or 0.0 for one in known])
        return [
            f"recall of the {len(known)} classes that occur: {low.recall:.4f} ({low.name}) to "
            f"{high.recall:.4f} ({high.name}), median {middle:.4f}"
        ]
    width = max(5, *(len(one.name) for one in found))
    lines = [f"{'class':<{width}}  recall  precision  rows"]
    for one in found:
        recall, precision = ("-" if v is None else f"{v:.4f}" for v in one[2:])
        lines.append(f"{one.name:<{width}}  {recall:>6}  {precision:>9}  {one.rows:>4}")
    return lines
