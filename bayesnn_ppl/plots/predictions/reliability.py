"""Is a classifier right as often as it says?"""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayesnn_ppl.metrics.calibration import Reliability
from bayesnn_ppl.plots.figure import (
    new_figure,
    palette,
    require_finite,
    require_shares,
    styled,
    vector,
)


@styled
def plot_reliability(
    confidence: Reliability | ArrayLike,
    accuracy: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> Figure:
    r"""Reliability diagram from bins of predictions of similar confidence.

    The title gives the expected calibration error of these bins,
    ECE = Σ_b w_b |accuracy_b - confidence_b| / Σ_b w_b.

    Args:
        confidence: what `metrics.reliability` returned, and nothing else; or the mean confidence
            in each bin, shape (bins,), in [0, 1].
        accuracy: the share of right predictions in each bin, shape (bins,), in [0, 1].
        weight: the number, or share, of predictions in each bin, shape (bins,). A bin of weight 0
            is empty: it is left out, and the other two may be NaN there.

    Returns:
        A figure with two axes: accuracy against confidence, and the share of predictions.

    Raises:
        TypeError: accuracy or weight are missing, or given together with a `Reliability`.
        ValueError: if shapes differ, a weight is negative, all are 0, or a confidence or accuracy
            of a bin that is not empty is NaN or outside [0, 1].

    References:
        Guo et al. (2017), On calibration of modern neural networks, arXiv:1706.04599, section 2.
    """
    if isinstance(confidence, Reliability):
        if accuracy is not None or weight is not None:
            raise TypeError(
                "A `Reliability` has its accuracy and weights in it: plot_reliability(curve)."
            )
        curve = confidence
        confidence, accuracy, weight = curve.confidence, curve.accuracy, curve.rows
    if accuracy is None or weight is None:
        raise TypeError(
            "plot_reliability takes what `metrics.reliability` returned, or confidence, accuracy "
            "and weight of each bin."
        )
    weights = vector("weight", weight)
    if weights.min() < 0 or weights.sum() == 0:
        raise ValueError(
            "`weight` must hold no negative entry and at least one positive one, since it counts "
            f"the predictions of each bin; it reaches from {weights.min():g} to {weights.max():g}."
        )
    filled = weights > 0
    share = weights[filled] / weights.sum()
    columns = []
    for name, values in (("confidence", confidence), ("accuracy", accuracy)):
        column = vector(name, values, length=weights.size, like="weight", finite=False)[filled]
        require_finite(name, column)
        require_shares(name, column, "it is a probability")
        columns.append(column)
    order = np.argsort(columns[0], kind="stable")
    claimed, right, share = columns[0][order], columns[1][order], share[order]
    error = float(np.sum(share * np.abs(right - claimed)))

    figure = new_figure(width=4.4, height=5.4)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    top.plot([0, 1], [0, 1], color="0.3", linestyle="--", linewidth=1.0, label="calibrated")
    top.vlines(claimed, claimed, right, color=palette(1), linewidth=2.0, label="gap")
    top.plot(claimed, right, color=palette(0), marker="o", label="this posterior")
    top.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    top.set_title(f"Reliability: expected calibration error {error:.3f}")
    top.legend(loc="upper left")
    bottom.vlines(claimed, 0, share, color=palette(0), linewidth=5.0)
    bottom.set_ylim(bottom=0)
    bottom.set(ylabel="share of\npredictions", xlabel="confidence")
    return figure
