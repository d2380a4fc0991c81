"""Rows dealt into folds, for cross-validation and cross-conformal prediction."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

type Fit = Callable[[Any, Any, int], Any]


def deal(y: NDArray[Any], folds: int, seed: int) -> NDArray[np.intp]:
    """The fold of each row: at random, and of each label to every fold in turn."""
    order = np.random.default_rng(seed).permutation(len(y))
    if y.dtype.kind in "iub" and y.ndim == 1:
        order = order[np.argsort(np.asarray(y)[order], kind="stable")]
    member = np.empty(len(y), np.intp)
    member[order] = np.arange(len(y)) % folds
    return member
