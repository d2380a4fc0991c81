"""The metrics of a study along its arms, with error bars."""

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.plots.figure import new_figure, palette, require_entries, styled

_MARKERS = "osD^vP"
_ROOM = 0.1  # of the axis, from one label to the next
_CAPTION_WIDTH = 95  # letters


@styled
@strict_switches
def plot_study(
    curves: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    caption: str = "",
    logarithmic: bool = False,
) -> Figure:
    """A curve for each arm; one without a place on the x axis is a level across it.

    Without positions, arms are drawn side by side.

    Args:
        curves: arm -> rows (x, mean, standard error), shape (n, 3). A standard error that is NaN,
            of a single run, is drawn without a bar. An arm without a place is one row whose x is
            NaN.
        x_label, y_label, title: words of the axes.
        caption: small text below the figure, such as what was run.
        logarithmic: whether the x axis is.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: a shape is not (n, 3), a mean is not finite, an x is NaN among several rows, or
            an x is not positive on a logarithmic axis.
    """
    tables = {arm: _table(arm, rows) for arm, rows in curves.items()}
    require_entries("curves", tables)
    xs = np.concatenate([table[:, 0] for table in tables.values()])
    placed = xs[~np.isnan(xs)]
    if logarithmic and placed.size and placed.min() <= 0:
        raise ValueError(f"`x` reaches down to {placed.min():g}, but the axis is logarithmic.")
    figure = new_figure(width=5.6, height=3.8)
    axes = figure.subplots()
    if not placed.size:
        _side_by_side(axes, tables)
    else:
        for index, (arm, table) in enumerate(tables.items()):
            if np.isnan(table[0, 0]):
                _level(axes, arm, table[0], palette(index))
                continue
            x, mean, error = table[np.argsort(table[:, 0])].T
            axes.errorbar(
                x,
                mean,
                yerr=np.nan_to_num(error),
                color=palette(index),
                marker=_MARKERS[index % len(_MARKERS)],
                capsize=2.5,
                label=arm,
            )
        if logarithmic:
            axes.set_xscale("log")
            _tick(axes, np.unique(placed))
        elif (placed == np.round(placed)).all():  # counts, between which there is none
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
    axes.set_xlabel(x_label)
    several = any(np.isfinite(table[:, 2]).any() for table in tables.values())
    axes.set_ylabel(f"{y_label}, {'mean ± standard error' if several else 'single runs'}")
    axes.set_title(title)
    if caption:
        figure.supxlabel(textwrap.fill(caption, _CAPTION_WIDTH), fontsize="x-small")
    return figure


def _tick(axes: Axes, places: NDArray[np.float64]) -> None:
    """Label the places themselves, where a label has room at each, and else powers alone.

    Matplotlib labels what lies between powers too where an axis spans about one, and such labels
    overlap.
    """
    axes.xaxis.set_minor_formatter(NullFormatter())
    logs = np.log(places)
    if np.all(np.diff(logs) > _ROOM * np.ptp(logs)):
        axes.set_xticks(places, [f"{place:.3g}" for place in places])
        axes.xaxis.set_minor_locator(NullLocator())


def _level(axes: Axes, arm: str, row: NDArray[np.float64], color: str) -> None:
    _, mean, error = row
    axes.axhline(mean, color=color, linestyle="--", label=arm)
    if not np.isnan(error):
        axes.axhspan(mean - error, mean + error, color=color, alpha=0.12, linewidth=0)


def _side_by_side(axes: Axes, tables: Mapping[str, NDArray[np.float64]]) -> None:
    rows = np.concatenate(list(tables.values()))
    places = np.arange(len(rows))
    error = np.nan_to_num(rows[:, 2])
    axes.errorbar(places, rows[:, 1], yerr=error, fmt="o", color=palette(0), capsize=2.5)
    axes.set_xticks(places, list(tables), rotation=30, ha="right")
    axes.set_xlim(-0.5, len(rows) - 0.5)


def _table(arm: str, rows: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != 3 or not len(table):
        raise ValueError(
            f"`curves[{arm!r}]` has shape {table.shape}, but rows of (x, mean, standard error) are "
            "drawn, shape (n, 3)."
        )
    if np.isnan(table[:, 0]).any() and len(table) > 1:
        raise ValueError(
            f"`curves[{arm!r}]` has {len(table)} rows and an x that is NaN: an arm without a place "
            "on the x axis is one row."
        )
    if not np.isfinite(table[:, 1]).all():
        raise ValueError(
            f"`curves[{arm!r}]` has a mean that is not finite. The figure would hide it: leave it "
            "out, and say so."
        )
    return table
