"""Pareto-smoothed importance weights that leave a row out, and the errors of what they average.

References:
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, Journal of
    Machine Learning Research 25(72), arXiv:1507.02646.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

# How far beyond the draws at hand the tail is followed: to what one draw in 30 S exceeds.
_BEYOND = 30.0
_FARTHEST = 1e6  # for the mean of the tail, which is finite where k < 1
_POINTS = 200


class WeightedScore(NamedTuple):
    """A log score from importance weights.

    Attributes:
        score: log Σ w p.
        error: its standard error, the tail beyond the largest weight included.
        tail_bias: how much too high the fitted tail says that it is, for want of that tail.
    """

    score: float
    error: float
    tail_bias: float


def relative_efficiency(log_p: NDArray[Any]) -> NDArray[np.float64]:
    """Bulk ESS over S of log p(y_i|θ_s), (chain, draw, N).

    It is of ranks, and so that of the weights as well, at any temperature.
    """
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"):
        found = np.asarray(array_stats.ess(log_p, chain_axis=0, draw_axis=1, method="bulk"))
    found = found / (log_p.shape[0] * log_p.shape[1])
    return np.where(np.isfinite(found) & (found > 0), found, 1.0)


def log_weights(power: NDArray[np.float64], efficiency: float) -> tuple[Any, float]:
    """Normalised log weights ∝ exp(-power), smoothed, and k̂.

    Args:
        power: (1/T) log p(y_i|θ_s), (S,).
        efficiency: relative efficiency of the draws.
    """
    from arviz_stats.base import array_stats

    if np.isneginf(power).any():  # a draw that the row forbids would have all the weight
        return np.where(np.isneginf(power), 0.0, -np.inf), math.inf
    try:
        with np.errstate(all="ignore"):
            log_w, k = array_stats.psislw(power, r_eff=efficiency)
        if np.isfinite(k) and np.isfinite(log_w).all():
            return log_w, float(k)
    except ValueError:  # all values of the tail are the same
        pass
    raw = -power - logsumexp(-power)
    return raw, 0.0 if np.exp(-logsumexp(2 * raw)) > len(raw) / 2 else math.inf


def weighted_score(
    log_p: NDArray[np.float64],
    log_w: NDArray[np.float64],
    k: float,
    temperature: float,
    efficiency: float,
) -> WeightedScore:
    r"""log Σ w p, with an error that knows that the largest weights may not have been drawn.

    The delta method on the draws at hand, Σ w²(p/Σwp - 1)²/r_eff, takes the tail for ending at the
    largest weight. Beyond it the fitted Pareto tail is followed: its second moment up to the weight
    that one draw in 30 S exceeds, and the square of its mean, which is missing from the score, are
    added. In the tail p = c w^{-T}, because w ∝ p^{-1/T}.

    Args:
        log_p: log p(y_i|θ_s), (S,).
        log_w, k: of `log_weights`.
        temperature: T.
        efficiency: r_eff.
    """
    if not np.isfinite(log_p).all():
        return WeightedScore(-math.inf, math.nan, math.nan)
    score = float(logsumexp(log_w + log_p))
    shares = np.exp(log_w + log_p - score) - np.exp(log_w)  # p/Σwp alone may overflow
    variance = float(np.sum(shares**2))
    second, first = _beyond(log_p - score, log_w, k, temperature, efficiency)
    error = math.sqrt((variance + max(second, 0.0)) / efficiency + first**2)
    return WeightedScore(score, error, -first)


def _beyond(
    log_ratio: NDArray[np.float64],
    log_w: NDArray[np.float64],
    k: float,
    temperature: float,
    efficiency: float,
) -> tuple[float, float]:
    """∫ w²(p/Σwp - 1)² and ∫ w(p/Σwp - 1) over the tail beyond the largest weight."""
    count = len(log_w)
    tail = math.floor(3 * math.sqrt(count / efficiency) if count * efficiency > 225 else count / 5)
    if not math.isfinite(k) or not 5 <= tail < count:
        return 0.0, 0.0
    order = np.argsort(log_w)
    cut, middle, last = order[-tail - 1], order[-tail + tail // 2], order[-1]
    start, anchor = np.exp(log_w[cut]), np.exp(log_w[middle])
    scale = (anchor - start) / _excess(1 - (tail // 2 + 0.5) / tail, k)
    if not np.isfinite(scale) or scale <= 0:
        return 0.0, 0.0
    # Of so many of the draws in the tail each stands for one that is independent.
    own = max(tail * min(efficiency, 1.0), 1.0)
    constant = log_ratio[cut] + temperature * log_w[cut]

    def moments(farthest: float) -> tuple[float, float]:
        s = np.geomspace(1 / own, 1 / (own * farthest), _POINTS)
        w = start + scale * _excess(s, k)
        each = w * np.expm1(np.minimum(constant - temperature * np.log(w), 700.0))
        ends = np.append(s, 0.0)
        mass = tail * -np.diff(ends)
        inner = np.append((each[1:] + each[:-1]) / 2, each[-1])
        return float(np.sum(mass * inner**2)), float(np.sum(mass * inner))

    seen = float(np.exp(log_w[last]) * np.expm1(min(log_ratio[last], 700.0)))
    second = moments(_BEYOND)[0] - tail / own * seen**2
    first = moments(_FARTHEST if k < 1 else _BEYOND)[1] - tail / own * seen
    return second, first


def _excess(s: Any, k: float) -> Any:
    """Quantile of the generalised Pareto distribution of scale 1, at the upper probability s."""
    return -np.log(s) if abs(k) < 1e-6 else np.expm1(-k * np.log(s)) / k
