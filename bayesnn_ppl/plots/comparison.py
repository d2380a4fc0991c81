"""Which posterior predicts best, and how far is each from the reference?"""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.plots.figure import new_figure, palette, styled, vector

_LEVEL = 1.96  # standard errors of a 95 % interval


@styled
def plot_comparison(
    names: Sequence[str],
    nll: ArrayLike,
    error: ArrayLike,
    *,
    difference_error: ArrayLike | None = None,
    distance: ArrayLike | None = None,
    distance_label: str = "distance to the reference",
    reference: str | None = None,
) -> Figure:
    """Forest plot of negative log likelihoods, and a panel of distances to a reference.

    The columns of `metrics.compare` are what it takes. A circle is a run's NLL with its 95 %
    interval, as rows vary. A triangle marks the interval of its difference to the best, put at
    the best one's NLL plus the difference: the run is worse than the best where this interval
    leaves the dashed line, even if the wide intervals overlap, for all runs share their rows.

    Args:
        names: of the runs, from top to bottom.
        nll: (n,), in nats a row. Infinite values (a target with probability 0) are drawn at the
            edge.
        error: its standard error, (n,); NaN where there is none.
        difference_error: standard error of the difference to the least NLL, (n,), or NaN.
        distance: to the reference, (n,), not negative; None for no second panel.
        distance_label: what the distance is, with its unit.
        reference: the name that distances are to.

    Returns:
        A figure with one axes, or two with distances.

    Raises:
        ValueError: lengths differ, there is nothing to draw, no NLL is finite or one is NaN, a
            standard error or a distance is negative, or a distance is not finite.
    """
    labels = [str(name) for name in names]
    values = vector("nll", nll, length=len(labels), like="names", finite=False)
    if np.isnan(values).any() or np.isneginf(values).any() or not np.isfinite(values).any():
        raise ValueError(
            "`nll` must be finite for one run at least and NaN or -infinity for none: a figure has "
            "no place for them. Look at these runs with `diagnose`."
        )
    errors = _errors("error", error, len(labels))
    paired = None
    if difference_error is not None:
        paired = _errors("difference_error", difference_error, len(labels))
    panels = 1 if distance is None else 2
    figure = new_figure(width=4.6 + 2.4 * (panels - 1), height=1.3 + 0.38 * len(labels))
    axes = figure.subplots(1, panels, sharey=True, squeeze=False, width_ratios=(3, 2)[:panels])[0]
    _forest(axes[0], values, errors, paired)
    places = np.arange(len(labels))
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    axes[0].set_yticks(places, labels)
    axes[0].set(ylabel="run", xlabel="negative log likelihood [nats per row]")
    if distance is not None:
        _distances(axes[1], distance, labels, reference)
        axes[1].set_xlabel(textwrap.fill(distance_label, 34))  # the panel is narrow
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=3)
    figure.suptitle("Comparison on the same rows")
    return figure


def _forest(
    axes: Axes,
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    paired: NDArray[np.float64] | None,
) -> None:
    finite, places = np.isfinite(values), np.arange(len(values), dtype=float)
    best = float(values[finite].min())
    axes.axvline(best, color="0.3", linestyle="--", linewidth=1.0, label="the least")

    def estimates(
        shown: NDArray[np.bool], error: NDArray[np.float64], shift: float, color: str, **style: Any
    ) -> None:
        known = shown & np.isfinite(error)
        low, high = ((values + sign * _LEVEL * error)[known] for sign in (-1, 1))
        axes.hlines(places[known] + shift, low, high, color=color, linewidth=1.6)
        axes.plot(
            values[shown], places[shown] + shift, color=color, markersize=5, linestyle="", **style
        )

    up = 0.0 if paired is None else 0.12
    estimates(finite, errors, -up, palette(0), marker="o", label="NLL, 95 % interval")
    if paired is not None:
        others = finite & np.isfinite(paired) & (values > best)
        label = "difference to the least, 95 %"
        estimates(others, paired, 0.18, palette(1), marker="^", label=label)
    for place in np.flatnonzero(~finite):
        at_edge: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "ha": "right",
            "va": "center",
        }
        axes.annotate("infinite →", (1.0, place), color=palette(0), **at_edge)


def _distances(axes: Axes, distance: ArrayLike, labels: list[str], reference: str | None) -> None:
    values = vector("distance", distance, length=len(labels), like="names")
    if values.min() < 0:
        raise ValueError(f"`distance` reaches down to {values.min():g}, but none is negative.")
    places = np.arange(len(labels), dtype=float)
    others = np.array([label != reference for label in labels])
    axes.hlines(places[others], 0, values[others], color=palette(2), linewidth=1.6)
    axes.plot(values[others], places[others], color=palette(2), marker="s", linestyle="")
    for place in np.flatnonzero(~others):
        axes.annotate(
            "reference", (0, place), textcoords="offset points", xytext=(4, 0), va="center"
        )
    axes.set_xlim(0, 1.08 * float(values.max()) or 1.0)


def _errors(name: str, values: ArrayLike, count: int) -> NDArray[np.float64]:
    found = vector(name, values, length=count, like="names", finite=False)
    if (found < 0).any():
        raise ValueError(f"`{name}` reaches down to {np.nanmin(found):g}, but none is negative.")
    return found
