"""The predictive distribution along one input: mean, interval and what the model is unsure of."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayesnn_ppl.plots.figure import (
    interval,
    new_figure,
    palette,
    percent,
    require_level,
    styled,
    vector,
    with_unit,
)


@styled
def plot_band(
    x: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    x_train: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    epistemic: tuple[ArrayLike, ArrayLike] | None = None,
    truth: ArrayLike | None = None,
    level: float | None = None,
    x_label: str = "x",
    y_label: str = "y",
    x_unit: str | None = None,
    unit: str | None = None,
) -> Figure:
    """Predictive mean and interval over a one-dimensional input.

    Args:
        x: the inputs, shape (n,), in any order.
        mean: the predictive mean at `x`, shape (n,).
        lower: the lower end of the predictive interval at `x`, shape (n,).
        upper: its upper end, shape (n,).
        x_train: the inputs of the training data, shape (m,); goes with `y_train`.
        y_train: the targets of the training data, shape (m,).
        epistemic: lower and upper end of the interval of the function alone, without the noise of
            an observation, each of shape (n,).
        truth: the function the data came from, where it is known, at `x`, shape (n,).
        level: the probability inside the intervals, in (0, 1), for the legend.
        x_label: what `x` is.
        y_label: what the prediction is.
        x_unit: the unit of `x`.
        unit: the unit of the prediction.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: if a shape differs, an entry is NaN or infinite, a lower end lies above its
            upper end, one of `x_train` and `y_train` comes without the other, or `level` is not in
            (0, 1).
    """
    points = vector("x", x)
    center = vector("mean", mean, length=points.size, like="x")
    low, high = interval(("lower", "upper"), (lower, upper), length=points.size, like="x")
    if (x_train is None) != (y_train is None):
        given, missing = ("y_train", "x_train") if x_train is None else ("x_train", "y_train")
        raise ValueError(
            f"`{given}` was given without `{missing}`. The training data are drawn as points: "
            "give both, or neither."
        )
    if level is not None:
        require_level(level, "the probability inside the interval")
    share = "" if level is None else f"{percent(level)} "
    order = np.argsort(points, kind="stable")
    axis_x = points[order]

    figure = new_figure(width=6.0, height=3.8)
    axis = figure.subplots()
    blue: dict[str, Any] = {"color": palette(0), "linewidth": 0}
    label = f"{share}interval of an observation"
    axis.fill_between(axis_x, low[order], high[order], alpha=0.2, label=label, **blue)
    if epistemic is not None:
        inner_low, inner_high = interval(
            ("epistemic[0]", "epistemic[1]"), epistemic, length=points.size, like="x"
        )
        label = f"{share}interval of the function (epistemic)"
        axis.fill_between(
            axis_x, inner_low[order], inner_high[order], alpha=0.35, label=label, **blue
        )
    axis.plot(axis_x, center[order], color=palette(0), label="predictive mean")
    if truth is not None:
        line = vector("truth", truth, length=points.size, like="x")
        axis.plot(axis_x, line[order], color=palette(1), linestyle="--", label="truth")
    if x_train is not None and y_train is not None:
        inputs = vector("x_train", x_train)
        targets = vector("y_train", y_train, length=inputs.size, like="x_train")
        axis.plot(inputs, targets, "o", markersize=3, color="0.15", label="training data")
    axis.set(xlabel=with_unit(x_label, x_unit), ylabel=with_unit(y_label, unit))
    axis.set_title(f"Posterior predictive distribution of {y_label}")
    figure.legend(loc="outside lower center", ncols=2)
    return figure
