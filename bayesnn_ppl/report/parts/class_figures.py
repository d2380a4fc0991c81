"""Drawings of predicted classes: how sure they are, and how many rows there are of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayesnn_ppl.plots.figure import new_figure, palette, styled

_BINS = 20
_SIDEWAYS = 5  # from so many classes on, their names are turned


@styled
def draw_certainty(entropy: NDArray[np.float64], right: NDArray[np.bool_], classes: int) -> Figure:
    """Histograms of the predictive entropy of rows that are predicted right, and of wrong ones.

    Args:
        entropy: of the predictive class probabilities, nats, (N,).
        right: whether the most probable class is the observed one, (N,).
        classes: their number K; the axis ends at log K, where all are equally probable.
    """
    figure = new_figure(width=5.4, height=2.8)
    axis = figure.subplots()
    edges = np.linspace(0.0, max(float(np.log(max(classes, 2))), float(entropy.max())), _BINS + 1)
    for name, part, colour in (("right", right, palette(0)), ("wrong", ~right, palette(1))):
        if part.any():
            weights = np.full(int(part.sum()), 1.0 / part.sum())
            kind: dict[str, Any] = {"bins": edges, "weights": weights, "alpha": 0.55}
            axis.hist(entropy[part], color=colour, label=f"{name} ({part.sum()})", **kind)
    axis.set(xlabel="predictive entropy [nats]", ylabel="share of them")
    axis.set_xlim(0.0, edges[-1])
    axis.set_title("How sure are right and wrong predictions?")
    axis.legend()
    return figure


@styled
def draw_class_counts(
    counts: NDArray[np.int_], ends: NDArray[np.float64], names: Sequence[str]
) -> Figure:
    """Rows of each class as bars, with the interval of data sets that the posterior makes.

    Args:
        counts: observed rows of each class, (K,).
        ends: ends of the interval of each, (K, 2).
        names: of the classes.
    """
    figure = new_figure(width=5.4, height=3.0)
    axis = figure.subplots()
    places = np.arange(len(counts))
    axis.bar(places, counts, color=palette(0), alpha=0.35, label="observed")
    middle = ends.mean(axis=1)
    half = np.ptp(ends, axis=1) / 2
    axis.errorbar(
        *(places, middle, half),
        fmt="none",
        ecolor=palette(1),
        elinewidth=2,
        capsize=5,
        label="90 % of data sets of the posterior",
    )
    turned = 45 if len(counts) >= _SIDEWAYS and max(map(len, names)) > 2 else 0
    axis.set_xticks(places, names, rotation=turned)
    axis.set(ylabel="rows", title="Rows of each class")
    figure.legend(loc="outside lower center", ncols=2)
    return figure
