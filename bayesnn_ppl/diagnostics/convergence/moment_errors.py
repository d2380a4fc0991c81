"""Means, standard deviations and quantiles of function values, with Monte Carlo errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from bayesnn_ppl.diagnostics.convergence.measures import convergence_summary, mcse_mean
from bayesnn_ppl.diagnostics.convergence.precision import precision_summary
from bayesnn_ppl.references.stored import LEVELS, Moments

__all__ = ["allowed_difference", "function_moments", "pooled_moments", "standardised_differences"]

# The chance that two right runs are said to differ, were their errors known and normal. Errors are
# estimated, and of short runs too small at times: the usual 1 % would be exceeded more often.
_FALSE_ALARMS = 1e-3


def function_moments(draws: ArrayLike) -> Moments:
    """Moments of draws with their standard errors, each from an effective sample size of its own.

    The error of the mean is sd / sqrt(ESS), that of the sd by the squared deviations
    (`precision_summary`). A p-quantile's is half the distance between the quantiles at p - δ and
    p + δ, with δ the error of the share of draws below it (Woodruff's interval).

    Args:
        draws: (chain, draw, ...).

    Returns:
        `Moments`, in the draws' units.

    References:
        Vehtari et al. (2021), arXiv:1903.08008, section 4; Woodruff (1952), Confidence intervals
        for medians and other position measures, JASA 47.
    """
    values = np.asarray(draws, dtype=np.float64)
    found = convergence_summary(values)
    spread = precision_summary(values).spread_error
    flat = values.reshape(-1, *values.shape[2:])
    quantiles, errors = [], []
    for level in LEVELS:
        edge = np.quantile(flat, level, axis=0)
        share = np.asarray(mcse_mean((values <= edge).astype(np.float32)))
        quantiles.append(edge)
        errors.append(_distance(flat, level, share) / 2)
    return Moments(
        np.asarray(found.mean),
        np.asarray(found.sd),
        np.stack(quantiles),
        np.asarray(found.mcse_mean),
        np.asarray(spread * found.sd),
        np.stack(errors),
    )


def _distance(flat: np.ndarray, level: float, share: np.ndarray) -> np.ndarray:
    """Between the quantiles `share` below and above a level, of every variable."""
    ordered = np.sort(flat, axis=0).reshape(len(flat), -1)
    columns = np.arange(ordered.shape[1])
    ends = [
        ordered[
            np.clip(np.rint((level + sign * share.ravel()) * len(flat)), 0, len(flat) - 1).astype(
                int
            ),
            columns,
        ]
        for sign in (-1, 1)
    ]
    return (ends[1] - ends[0]).reshape(share.shape)


def pooled_moments(runs: Sequence[Moments]) -> Moments:
    """Several independent runs' moments in one: means weighted by inverse squared errors.

    The error is 1 / sqrt(Σ 1 / error²).
    """

    def pooled(values: str, errors: str) -> tuple[Any, Any]:
        weights = np.stack([1 / getattr(run, errors) ** 2 for run in runs])
        total = weights.sum(0)
        mean = (weights * np.stack([getattr(run, values) for run in runs])).sum(0) / total
        return mean, 1 / np.sqrt(total)

    mean, mean_error = pooled("mean", "mean_error")
    sd, sd_error = pooled("sd", "sd_error")
    quantiles, quantile_errors = pooled("quantiles", "quantile_errors")
    return Moments(mean, sd, quantiles, mean_error, sd_error, quantile_errors)


def standardised_differences(first: Moments, second: Moments) -> dict[str, np.ndarray]:
    """Differences of means and of sds over the Monte Carlo errors of both.

    z = (a - b) / sqrt(error_a² + error_b²), about normal where both runs have the same target.

    Returns:
        "mean" and "sd" -> the shape of one draw.
    """
    return {
        "mean": (first.mean - second.mean) / np.hypot(first.mean_error, second.mean_error),
        "sd": (first.sd - second.sd) / np.hypot(first.sd_error, second.sd_error),
    }


def allowed_difference(comparisons: int) -> float:
    """The largest of so many |z| that one target allows (Bonferroni, 0.1 % in all)."""
    return float(norm.isf(_FALSE_ALARMS / (2 * comparisons)))
