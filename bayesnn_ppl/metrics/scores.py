"""Point, interval and proper scores of predictions, as functions of plain arrays.

Every score is the mean over all elements of `y` (rows, and pixels or outputs where there are
any), a float. Lower is better except for `accuracy`; a log score is in nats. Nothing broadcasts:
arrays that should have one shape must have it. A NaN in a prediction gives NaN, never a number.

References:
    Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation,
    Journal of the American Statistical Association 102(477).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

from bayesnn_ppl.core.predictions import (
    class_labels,
    class_probabilities,
    draws_of,
    real,
    same_shape,
)

# Pairs of mixture components held at a time by the exact CRPS: 32 MB of float64 a temporary.
_PAIRS = 2**22


def rmse(prediction: ArrayLike, y: ArrayLike) -> float:
    """Root mean squared error, sqrt(mean (prediction - y)^2), in the units of `y`.

    Args:
        prediction, y: arrays of one shape (N, ...).

    Raises:
        ValueError: the shapes differ or are empty.
    """
    predicted, observed = real(prediction, "prediction"), real(y, "y")
    same_shape(prediction=predicted, y=observed)
    return float(np.sqrt(np.mean((predicted - observed) ** 2)))


def accuracy(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose most probable class is the label (the first one of equals).

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).

    Raises:
        ValueError: shapes do not fit, probabilities do not sum to 1, a label is out of range.
        TypeError: labels are not integers.
    """
    p = class_probabilities(probabilities)
    right = p.argmax(axis=-1) == class_labels(labels, p)
    # argmax takes a NaN for the maximum.
    return float("nan") if np.isnan(p).any() else float(np.mean(right))


def brier(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Brier score in its multi-class sum form, mean sum_k (p_k - 1[y = k])^2, between 0 and 2.

    For two classes this is twice the form that looks at one class only.

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).

    Raises:
        ValueError, TypeError: as `accuracy`.

    References:
        Brier (1950), Monthly Weather Review 78(1).
    """
    p = class_probabilities(probabilities)
    y = class_labels(labels, p)
    hit = y[..., None] == np.arange(p.shape[-1])
    return float(np.mean(((p.astype(np.float64) - hit) ** 2).sum(axis=-1)))


def nll_probabilities(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Negative log likelihood of the averaged probabilities, -mean log p_y, in nats.

    Infinite when a label has probability zero; nothing is clipped.

    Args:
        probabilities: (..., K), averaged over draws (averaging the log afterwards is another
            and larger score).
        labels: class numbers of shape (...).

    Raises:
        ValueError, TypeError: as `accuracy`.
    """
    p = class_probabilities(probabilities)
    chosen = np.take_along_axis(p, class_labels(labels, p)[..., None], axis=-1)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(chosen.astype(np.float64))))


def nll_mixture(log_densities: ArrayLike) -> float:
    """Negative log score of the posterior predictive mixture, in nats.

    -mean_n log (1/S) sum_s p(y_n | theta_s), by log-mean-exp. For densities of standardised
    targets add log(sd of y) to compare with densities in data units.

    Args:
        log_densities: log p(y_n | theta_s), shape (S, N) (any axes after the draws).

    Raises:
        ValueError: fewer than two axes, or empty.
    """
    values = real(log_densities, "log_densities")
    if values.ndim < 2:
        raise ValueError(
            f"`log_densities` has shape {values.shape}, but must be (S, N): one row a draw. "
            "For a single draw add the axis: log_densities[None]."
        )
    return float(-np.mean(logsumexp(values, axis=0) - np.log(values.shape[0])))


def nll_moment_matched(mean: ArrayLike, variance: ArrayLike, y: ArrayLike) -> float:
    """Negative log density of the Gaussian with the predictive mean and variance, in nats.

    mean ½ [log(2 pi v) + (y - m)^2 / v]. It differs from `nll_mixture` whenever the predictive
    distribution is not Gaussian, so the two must be named apart.

    Args:
        mean, variance, y: arrays of one shape; the variance is that of y, noise included, in
            squared units of y.

    Raises:
        ValueError: shapes differ, or a variance is not positive.
    """
    m, v, observed = real(mean, "mean"), real(variance, "variance"), real(y, "y")
    same_shape(mean=m, variance=v, y=observed)
    if (v <= 0).any():
        raise ValueError(
            f"`variance` must be positive, but its smallest value is {np.nanmin(v):.3g}. "
            "Pass the predictive variance with the observation noise in it."
        )
    return float(np.mean(0.5 * (np.log(2 * np.pi * v) + (observed - m) ** 2 / v)))


def crps_samples(samples: ArrayLike, y: ArrayLike) -> float:
    """Continuous ranked probability score from predictive samples: the unbiased, fair estimate.

    mean_i |x_i - y| - 1/(2 S (S-1)) sum_{i,j} |x_i - x_j|, in the units of y. With x sorted the
    second term is sum_i (2i - S - 1) x_(i) / (S (S-1)), so the cost is O(S log S). Dividing by
    S^2 instead scores the samples' step function and is too large by about E|X - X'| / (2S).

    Args:
        samples: predictive samples of y, shape (S, ...), S >= 2.
        y: shape (...).

    Raises:
        ValueError: shapes do not fit, or fewer than two samples.

    References:
        Ferro (2014), Quarterly Journal of the Royal Meteorological Society 140.
    """
    observed = real(y, "y")
    x = draws_of(samples, "samples", observed)
    size = x.shape[0]
    if size < 2:
        raise ValueError("`samples` holds one sample, but the fair CRPS needs two or more.")
    distance = np.mean(np.abs(x - observed), axis=0)
    x = np.sort(x, axis=0)
    weights = 2.0 * np.arange(1, size + 1) - size - 1
    # Centred: the weights sum to zero, and a large offset of y would cancel badly.
    spread = np.tensordot(weights, x - x[size // 2], axes=1) / (size * (size - 1))
    return float(np.mean(distance - spread))


def crps_gaussian_mixture(means: ArrayLike, sds: ArrayLike, y: ArrayLike) -> float:
    """Exact CRPS of an equally weighted mixture of Gaussians, in the units of y.

    E|X - y| - ½ E|X - X'| = mean_s A(y - m_s, v_s) - ½ mean_{s,t} A(m_s - m_t, v_s + v_t) with
    A(d, v) = E|d + sqrt(v) Z| = 2 sqrt(v) phi(d/sqrt(v)) + d (2 Phi(d/sqrt(v)) - 1). The pairs
    cost O(S^2) a row and are taken in blocks.

    Args:
        means, sds: the components, shape (S, ...); a standard deviation of 0 is a point mass.
        y: shape (...).

    Raises:
        ValueError: shapes do not fit, or a standard deviation is negative.

    References:
        Grimit, Gneiting, Berrocal, Johnson (2006), Quarterly Journal of the Royal Meteorological
        Society 132.
    """
    observed = real(y, "y")
    m, sd = draws_of(means, "means", observed), draws_of(sds, "sds", observed)
    if (sd < 0).any():
        raise ValueError(f"`sds` must not be negative, but its smallest value is {sd.min():.3g}.")
    m, v = m.reshape(len(m), -1), sd.reshape(len(sd), -1) ** 2
    distance = _absolute_moment(observed.ravel() - m, v).mean(axis=0)
    size, rows = m.shape
    spread = np.zeros(rows)
    components = max(1, min(size, _PAIRS // size))
    width = max(1, _PAIRS // (size * components))
    for row in range(0, rows, width):
        part = slice(row, row + width)
        for start in range(0, size, components):
            some = slice(start, start + components)
            pairs = _absolute_moment(
                m[some, None, part] - m[None, :, part], v[some, None, part] + v[None, :, part]
            )
            spread[part] += pairs.sum(axis=(0, 1))
    return float(np.mean(distance - 0.5 * spread / size**2))


def interval_coverage(lower: ArrayLike, upper: ArrayLike, y: ArrayLike) -> float:
    """Share of targets inside their closed intervals, mean 1[lower <= y <= upper].

    Args:
        lower, upper, y: arrays of one shape.

    Raises:
        ValueError: shapes differ, or a lower end is above its upper end.
    """
    low, high = _interval(lower, upper)
    observed = real(y, "y")
    same_shape(lower=low, y=observed)
    if np.isnan(low).any() or np.isnan(high).any() or np.isnan(observed).any():
        return float("nan")
    return float(np.mean((low <= observed) & (observed <= high)))


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Mean width of the intervals, in the units of y.

    Args:
        lower, upper: arrays of one shape.

    Raises:
        ValueError: shapes differ, or a lower end is above its upper end.
    """
    low, high = _interval(lower, upper)
    return float(np.mean(high - low))


def pinball(quantile: ArrayLike, y: ArrayLike, *, level: float) -> float:
    """Quantile loss, mean of level (y - q) where y >= q and (1 - level)(q - y) elsewhere.

    Args:
        quantile: the predicted quantile, in the units and shape of `y`.
        y: the targets.
        level: its level, inside (0, 1).

    Raises:
        ValueError: shapes differ, or the level is outside (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` is {level}, but a quantile's level lies inside (0, 1).")
    q, observed = real(quantile, "quantile"), real(y, "y")
    same_shape(quantile=q, y=observed)
    excess = observed - q
    return float(np.mean(np.maximum(level * excess, (level - 1) * excess)))


def _interval(lower: ArrayLike, upper: ArrayLike) -> tuple[NDArray, NDArray]:
    low, high = real(lower, "lower"), real(upper, "upper")
    same_shape(lower=low, upper=high)
    if (low > high).any():
        raise ValueError("`lower` is above `upper` for some targets. Exchange the arguments.")
    return low, high


def _absolute_moment(distance: NDArray, variance: NDArray) -> NDArray:
    """E|distance + sqrt(variance) Z| for a standard normal Z; |distance| without variance."""
    sd = np.sqrt(variance)
    z = np.divide(distance, sd, out=np.zeros_like(sd), where=sd > 0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.where(sd > 0, 2 * sd * density + distance * (2 * ndtr(z) - 1), np.abs(distance))
