"""Which likelihood the targets of a regression ask for, where the Gaussian is hardly right."""

from typing import Any

import numpy as np
from scipy.stats import skew

__all__ = ["likelihood_advice"]

_SKEWED, _SYMMETRIC = 2.0, 1.0  # an exponential distribution has the skewness 2
_MOST_COUNTED = 50  # as a median: above it, counts are nearly Gaussian


def likelihood_advice(dataset: Any) -> str | None:
    """A sentence for counts, and for positive targets with a heavy tail; None for all others."""
    y = np.asarray(dataset.train.y, np.float64)
    if dataset.task != "regression" or y.ndim != 1 or not len(y):
        return None
    y = dataset.standardisation.undo_y(y)
    median = float(np.median(y))
    whole = bool((np.abs(y - np.round(y)) < 1e-4 * np.maximum(1, np.abs(y))).all())
    if whole and y.min() >= -0.5 and median <= _MOST_COUNTED:
        return (
            f"The target holds integers, with a median of {median:.0f}. Counts are for "
            "`--likelihood poisson`, or `negative_binomial` where they vary more than their mean; "
            "grades are for `--task classification --likelihood ordinal`."
        )
    if y.min() > 0 and skew(y) > _SKEWED and abs(skew(np.log(y))) < _SYMMETRIC:
        return (
            "The target is positive with a heavy tail: its largest value is "
            f"{y.max() / median:.0f} times the median. `--likelihood log_normal` suits it (in "
            'Python `likelihoods.log_normal()` on data loaded with `standardise="positive"`).'
        )
    return None
