"""Normal scores of many rows at once, plain and folded about the median."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

type Array = NDArray[np.float64]


def normal_scores(flat: Array, *, fold: bool) -> tuple[Array, Array | None]:
    """Normal scores of each row, and those of |x - median| when `fold` is set.

    A score depends on the rank alone, so one table serves every row: entry 2r of it belongs to
    the rank r, odd entries to the half ranks of ties.
    """
    size = flat.shape[1]
    table = ndtri((np.arange(2, 2 * size + 1) / 2 - 0.375) / (size + 0.25))
    # Indices into the flattened block: gathers along an axis take twice as long.
    offset = np.arange(len(flat))[:, None] * size
    order = np.argsort(flat, axis=1)
    order += offset
    ordered = flat.take(order)
    scores = _scatter(ordered, order, table)
    if not fold:
        return scores, None
    median = (ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2
    folded = ordered - median[:, None]
    np.abs(folded, out=folded)
    # The folded values fall and then rise: a merging sort puts them in order in linear time.
    merged = np.argsort(folded, axis=1, kind="stable")
    merged += offset
    return scores, _scatter(folded.take(merged), order.take(merged), table)


def _scatter(ordered: Array, order: NDArray[np.intp], table: Array) -> Array:
    """Scores of sorted rows, put back where the values came from; ties share their mean rank."""
    rows, size = ordered.shape
    scores = np.empty(rows * size)
    scores[order] = table[::2]
    equal = np.zeros((rows, size), dtype=bool)
    np.equal(ordered[:, 1:], ordered[:, :-1], out=equal[:, :-1])
    equals = np.flatnonzero(equal)
    if equals.size:
        breaks = np.flatnonzero(np.diff(equals) > 1)
        first = equals[np.append(0, breaks + 1)]
        last = equals[np.append(breaks, equals.size - 1)] + 1
        lengths = last - first + 1
        shift = np.repeat(first - np.append(0, np.cumsum(lengths)[:-1]), lengths)
        members = np.arange(lengths.sum()) + shift
        shared = table[first % size + last % size]
        scores[order.ravel()[members]] = np.repeat(shared, lengths)
    return scores.reshape(rows, size)
