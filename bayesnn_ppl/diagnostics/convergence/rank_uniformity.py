r"""Are ranks uniform, and if not, how? The statistics of simulation-based calibration.

A rank r is the number of L posterior draws that lie below the parameter which made the data. Under
a right posterior it is uniform on 0, 1, ..., L. Three tests look for departures:

* moments: Neyman's smooth test of order 2, z_1² + z_2² ~ χ²(2), with the standardised sums z_1 of
  r - L/2 (draws shifted) and z_2 of (r - L/2)² (draws too wide or too narrow);
* chi-square: of equal bins, ten ranks or more in each;
* ECDF: the smallest pointwise tail probability of the ranks' distribution function,
  γ = 2 min_j min(P(X_j ≤ c_j), P(X_j ≥ c_j)), X_j ~ Binomial(R, j/(L+1)), c_j the number of ranks
  below j; its distribution is simulated, and its quantile makes the simultaneous band.

References:
    Talts, Betancourt, Simpson, Vehtari, Gelman (2018), arXiv:1804.06788.
    Säilynoja, Bürkner, Vehtari (2022), Graphical test for discrete uniformity, Statistics and
    Computing 32, arXiv:2103.10522, section 2.
    Neyman (1937), "Smooth test" for goodness of fit.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = ["RankTest", "ecdf_band", "holm", "rank_test", "smallest_effects"]

_PER_BIN = 10  # expected ranks in a bin of the chi-square test
_SIMULATIONS = 20_000  # of the ECDF statistic
_CHUNK = 2**22  # counts that are simulated at a time
_WIDEST = 3.0  # ratio of standard deviations; ranks at one end say nothing of the width
_POWER = 0.84  # normal quantile of 80 %


class RankTest(NamedTuple):
    """Tests of one quantity's ranks, and what they say about the draws.

    Attributes:
        p_value: of all three tests, the smallest times three.
        moments, chi_square, ecdf: p-value of each.
        z_shift: standardised mean rank; positive where the draws lie too low.
        z_spread: standardised squared distance from the middle rank; positive where the draws are
            too narrow.
        shift: how far the draws lie too high, in standard deviations of the right posterior, were
            both normal; negative: too low.
        spread: standard deviation of the draws over the right one, were both normal.
        spread_range: `spread` at two standard errors to both sides.
    """

    p_value: float
    moments: float
    chi_square: float
    ecdf: float
    z_shift: float
    z_spread: float
    shift: float
    spread: float
    spread_range: tuple[float, float]


def rank_test(ranks: ArrayLike, draws: int) -> RankTest:
    """Test whether ranks are uniform on 0, ..., `draws`.

    Args:
        ranks: integers, shape (R,), one of each replication.
        draws: L, the number of draws that each rank is among.

    Raises:
        ValueError: fewer than two ranks, or one outside 0, ..., L.
    """
    r = _checked(ranks, draws)
    z_shift, z_spread = _scores(r, draws)
    moments = float(stats.chi2.sf(z_shift**2 + z_spread**2, 2))
    bins = _bins(len(r), draws)
    counts = np.bincount(r * bins // (draws + 1), minlength=bins)
    chi_square = float(stats.chisquare(counts).pvalue) if bins > 1 else 1.0
    ecdf = _ecdf_p_value(r, draws)
    shift, spread, spread_range = _effects(r, draws)
    return RankTest(
        p_value=min(1.0, 3 * min(moments, chi_square, ecdf)),
        moments=moments,
        chi_square=chi_square,
        ecdf=ecdf,
        z_shift=z_shift,
        z_spread=z_spread,
        shift=shift,
        spread=spread,
        spread_range=spread_range,
    )


def ecdf_band(
    replications: int, draws: int, *, false_alarm: float = 0.05
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The simultaneous band of the distribution function of uniform ranks.

    Args:
        replications: R.
        draws: L.
        false_alarm: probability that uniform ranks leave the band anywhere.

    Returns:
        `(z, lower, upper)`, each (L,): at z = j/(L+1), j = 1, ..., L, the share of ranks below j
        lies between `lower` and `upper`.
    """
    simulated = _simulated(replications, draws)
    index = max(0, math.floor(false_alarm * len(simulated)) - 1)
    gamma = simulated[index]
    z = np.arange(1, draws + 1) / (draws + 1)
    # The counts that are as likely as γ are inside.
    lower = stats.binom.ppf(gamma / 2, replications, z)
    upper = stats.binom.isf(gamma / 2, replications, z)
    return z, lower / replications, upper / replications


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's p-values: one false-alarm budget over all of them, whatever their dependence.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def smallest_effects(replications: int, draws: int, level: float) -> tuple[float, float]:
    """What the moments test finds with probability 0.8, about.

    Args:
        replications: R.
        draws: L.
        level: p-value at which a quantity is called out, of the three tests together.

    Returns:
        The shift in standard deviations, and the ratio of standard deviations below 1.
    """
    z = float(stats.norm.isf(level / 6)) + _POWER
    # Ranks among few draws vary more than the shares that they stand for.
    mean = min(z / math.sqrt(12 * replications * draws / (draws + 2)), 0.499)
    variance = 1 / 12 + z * math.sqrt(1 / 180 / replications) * (draws + 2) / max(draws - 1, 1)
    return float(stats.norm.ppf(0.5 + mean)) * math.sqrt(2), _ratio(variance)


def _checked(ranks: ArrayLike, draws: int) -> NDArray[np.int64]:
    r = np.asarray(ranks)
    if r.ndim != 1 or r.size < 2 or r.dtype.kind not in "iu":
        raise ValueError(
            f"`ranks` must be two or more integers, shape (replications,), not {r.dtype}{r.shape}."
        )
    if r.min() < 0 or r.max() > draws:
        raise ValueError(
            f"A rank among {draws} draws lies between 0 and {draws}, but `ranks` go from "
            f"{r.min()} to {r.max()}."
        )
    return r.astype(np.int64)


def _scores(r: NDArray[np.int64], draws: int) -> tuple[float, float]:
    """Standardised mean and mean square of the ranks; uncorrelated, of variance 1 if uniform."""
    count, n = len(r), draws + 1
    t = (r - draws / 2) / math.sqrt((n**2 - 1) / 12)
    kurtosis = 3 - 1.2 * (n**2 + 1) / (n**2 - 1)
    z_spread = math.sqrt(count) * np.mean(t**2 - 1) / math.sqrt(kurtosis - 1)
    return float(math.sqrt(count) * np.mean(t)), float(z_spread)


def _bins(replications: int, draws: int) -> int:
    """The largest divisor of L + 1 that leaves ten ranks to a bin."""
    most = replications // _PER_BIN
    return max((d for d in range(1, draws + 2) if (draws + 1) % d == 0 and d <= most), default=1)


def _effects(r: NDArray[np.int64], draws: int) -> tuple[float, float, tuple[float, float]]:
    """Shift and spread of normal draws around a normal posterior that give these ranks.

    With draws N(m, s²) and a right posterior N(0, 1) the share u of all draws below the parameter
    has E u = Φ(-m / sqrt(1 + s²)) and, for m = 0, Var u = asin(1 / (1 + s²)) / 2π. Of L draws the
    rank is Binomial(L, u), which both moments are corrected for.
    """
    u = r / draws
    mean = float(u.mean())
    square = u**2 if draws == 1 else (u**2 - u / draws) / (1 - 1 / draws)
    parts = square - 2 * mean * u + mean**2
    variance, error = float(parts.mean()), float(parts.std() / math.sqrt(len(r)))
    spread = _ratio(variance)
    edge = 0.5 / len(r)
    shift = -float(stats.norm.ppf(np.clip(mean, edge, 1 - edge))) * math.sqrt(
        1 + min(spread, _WIDEST) ** 2
    )
    return shift, spread, (_ratio(variance + 2 * error), _ratio(variance - 2 * error))


def _ratio(variance: float) -> float:
    """s with Var u = asin(1 / (1 + s²)) / 2π."""
    k = math.sin(2 * math.pi * float(np.clip(variance, 1e-4, 0.2499)))
    return math.sqrt((1 - k) / k)


def _ecdf_p_value(r: NDArray[np.int64], draws: int) -> float:
    below = np.cumsum(np.bincount(r, minlength=draws + 1))[:-1]
    gamma = _tails(len(r), draws)[np.arange(draws), below].min()
    simulated = _simulated(len(r), draws)
    # Counts are integers, and equal tails differ by rounding.
    at_most = int(np.searchsorted(simulated, gamma * (1 + 1e-9), side="right"))
    return (1 + at_most) / (1 + len(simulated))


@lru_cache(maxsize=8)
def _tails(replications: int, draws: int) -> NDArray[np.float64]:
    """2 min(P(X_j ≤ c), P(X_j ≥ c)) at [j - 1, c]."""
    z = (np.arange(1, draws + 1) / (draws + 1))[:, None]
    c = np.arange(replications + 1)
    both = (stats.binom.cdf(c, replications, z), stats.binom.sf(c - 1, replications, z))
    return 2 * np.minimum(*both)


@lru_cache(maxsize=8)
def _simulated(replications: int, draws: int) -> NDArray[np.float64]:
    """Sorted values of γ under uniform ranks; always the same ones."""
    generator = np.random.default_rng(20210322)
    tails, columns = _tails(replications, draws), np.arange(draws)
    equal = np.full(draws + 1, 1 / (draws + 1))
    size = max(1, min(_SIMULATIONS, _CHUNK // (draws + 1)))
    parts = []
    for begin in range(0, _SIMULATIONS, size):
        count = min(size, _SIMULATIONS - begin)
        counts = generator.multinomial(replications, equal, size=count)
        below = np.cumsum(counts, axis=1)[:, :-1]
        parts.append(tails[columns, below].min(axis=1))
    return np.sort(np.concatenate(parts))
