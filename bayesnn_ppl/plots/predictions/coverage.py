"""Do the predictive intervals hold as many observations as they promise?"""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.plots.figure import new_figure, palette, percent, require_shares, styled, vector

BAND = 0.95


@styled
def plot_coverage(nominal: ArrayLike, empirical: ArrayLike, n: int) -> Figure:
    """Empirical against nominal coverage, with what chance alone allows.

    If the intervals are right and the n observations independent given the model, the number
    inside an interval of probability p is Binomial(n, p); the band holds 95 % of that at each
    p. A curve below the diagonal is overconfident, one above it underconfident. The points of one
    curve share their observations, so they leave the band together or not at all.

    Args:
        nominal: the probabilities of the intervals, shape (k,), in [0, 1].
        empirical: the share of observations inside each, shape (k,), in [0, 1].
        n: the number of observations behind each share, at least 1.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: if shapes differ, a value is outside [0, 1] or NaN, or `n` is below 1.
        TypeError: if `n` is not an integer.
    """
    from scipy.stats import binom

    promised = vector("nominal", nominal)
    observed = vector("empirical", empirical, length=promised.size, like="nominal")
    require_shares("nominal", promised, "coverage is a share")
    require_shares("empirical", observed, "coverage is a share")
    n = integer(n, "`n`, the number of observations,", at_least=1)

    order = np.argsort(promised, kind="stable")
    grid = np.linspace(0, 1, 201)
    low, high = binom.ppf([[(1 - BAND) / 2], [(1 + BAND) / 2]], n, grid) / n
    figure = new_figure(width=4.6, height=4.8)
    axis = figure.subplots()
    axis.fill_between(
        grid, low, high, color="0.85", linewidth=0, label=f"{percent(BAND)} band if exact"
    )
    axis.plot([0, 1], [0, 1], color="0.3", linestyle="--", linewidth=1.0, label="exact coverage")
    axis.plot(
        promised[order], observed[order], color=palette(0), marker="o", label="this posterior"
    )
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set(xlabel="probability of the predictive interval", ylabel="share of observations inside")
    axis.set_title(f"Coverage of the predictive intervals, n = {n}")
    axis.legend(loc="upper left")
    return figure
