"""Predictions against observations, with the interval each prediction promised."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayesnn_ppl.plots.figure import (
    interval,
    new_figure,
    palette,
    percent,
    styled,
    vector,
    with_unit,
)


@styled
def plot_predicted_observed(
    y: ArrayLike, mean: ArrayLike, lower: ArrayLike, upper: ArrayLike, unit: str | None = None
) -> Figure:
    """Predictive mean and interval of each observation, against the observation.

    A point on the diagonal is a perfect prediction; an interval that crosses the diagonal holds
    its observation, and the others are drawn in a second colour.

    Args:
        y: the observations, shape (n,).
        mean: their predictive means, shape (n,).
        lower: the lower ends of their predictive intervals, shape (n,).
        upper: the upper ends, shape (n,).
        unit: the unit of all four.

    Returns:
        A figure with one axes; the title gives the root mean square error.

    Raises:
        ValueError: if shapes differ, an entry is NaN or infinite, or a lower end lies above its
            upper end.
    """
    observed = vector("y", y)
    center = vector("mean", mean, length=observed.size, like="y")
    low, high = interval(("lower", "upper"), (lower, upper), length=observed.size, like="y")
    inside = (low <= observed) & (observed <= high)
    rmse = float(np.sqrt(np.mean((center - observed) ** 2)))

    figure = new_figure(width=4.8, height=5.0)
    axis = figure.subplots()
    for chosen, color, word in ((inside, palette(0), "inside"), (~inside, palette(1), "outside")):
        if not chosen.any():
            continue
        axis.vlines(
            observed[chosen], low[chosen], high[chosen], color=color, alpha=0.35, linewidth=0.8
        )
        label = f"{word} its interval: {percent(float(np.mean(chosen)))}"
        axis.plot(observed[chosen], center[chosen], "o", markersize=3, color=color, label=label)
    ends = min(observed.min(), low.min()), max(observed.max(), high.max())
    axis.plot(ends, ends, color="0.3", linestyle="--", linewidth=1.0, label="predicted = observed")
    axis.set(aspect="equal", xlabel=with_unit("observed", unit))
    axis.set_ylabel(with_unit("predicted: mean and interval", unit))
    axis.set_title(f"Predicted against observed: RMSE {rmse:.3g}" + (f" {unit}" if unit else ""))
    axis.legend(loc="best")
    return figure
