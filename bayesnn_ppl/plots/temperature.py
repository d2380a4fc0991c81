"""Is a sampler as hot as it should be: layer by layer, over the run, and over step sizes?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.plots.figure import new_figure, palette, styled, vector

_MARKERS = {"kinetic": "o", "configurational": "s"}
_MOST_LINES = 6
# A reading far off would squeeze all others onto the expected line.
_ROOM = 3.0


@styled
def plot_temperatures(
    names: Sequence[str],
    readings: Mapping[str, ArrayLike],
    *,
    expected: float = 1.0,
    tolerance: float = 0.1,
    over_time: Mapping[str, ArrayLike] | None = None,
) -> Figure:
    """Temperatures of each parameter array with their intervals, and over the run.

    The dashed line is the temperature that was asked for, the band around it what a right sampler
    may miss it by. Readings beyond four times the expected one are drawn at the edge as arrows.
    Over time each array is a line; of more than six, those farthest from the expected line.

    Args:
        names: of the k parameter arrays.
        readings: diagnostic ("kinetic", "configurational") -> (k, 3) of value, lower and upper
            end; NaN where an array was not read. `Thermometry.readings()` has it.
        expected: T.
        tolerance: half the width of the band, as a share of T.
        over_time: diagnostic -> (k, parts, 3), from `Thermometry.over_time()`; None for no
            second column.

    Returns:
        A figure with one axes for the arrays and one below it for each diagnostic over time.

    Raises:
        ValueError: a shape does not fit the names, there is nothing to draw, or T is not positive.
    """
    names = [str(name) for name in names]
    found = {key: _table(f"readings[{key!r}]", a, len(names)) for key, a in readings.items()}
    parts = {
        key: _table(f"over_time[{key!r}]", a, len(names), axes=3)
        for key, a in (over_time or {}).items()
    }
    if not names or not found:
        raise ValueError("`names` or `readings` is empty, so there is nothing to draw.")
    if not expected > 0:
        raise ValueError(f"`expected` must be a positive temperature, not {expected:g}.")
    height = 1.3 + 0.4 * len(names)
    each = 2.3 if parts else 0.0
    figure = new_figure(width=7.2, height=height + each * len(parts))
    rows = figure.subplots(
        1 + len(parts), 1, squeeze=False, height_ratios=[height, *([each] * len(parts))]
    )[:, 0]
    _by_array(rows[0], names, found, expected, tolerance)
    for axes, (key, table) in zip(rows[1:], parts.items(), strict=True):
        _over_time(axes, key, names, table, expected, tolerance)
    handles, texts = rows[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=2)
    figure.suptitle("Temperatures of the sampler")
    return figure


@styled
def plot_step_sizes(
    step_sizes: ArrayLike,
    hottest: ArrayLike,
    passed: ArrayLike,
    *,
    coldest: ArrayLike | None = None,
    expected: float = 1.0,
    tolerance: float = 0.1,
    chosen: float | None = None,
) -> Figure:
    """The temperatures of pilot runs against their step sizes, on two logarithmic axes.

    Args:
        step_sizes: ε of each pilot run, shape (n,), positive.
        hottest: temperature of the hottest parameter array, shape (n,); NaN for a run that was not
            finite, which is drawn as a cross at the top.
        passed: which runs have the right temperatures, shape (n,).
        coldest: temperature of the coldest array, shape (n,); a bar joins it to the hottest.
        expected, tolerance: T, and the share of it that a right run may miss.
        chosen: a step size to mark.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: lengths differ, or a step size is not positive.
    """
    steps = vector("step_sizes", step_sizes)
    high = vector("hottest", hottest, length=steps.size, like="step_sizes", finite=False)
    good = vector("passed", passed, length=steps.size, like="step_sizes").astype(bool)
    low = (
        high
        if coldest is None
        else vector("coldest", coldest, length=steps.size, like="step_sizes", finite=False)
    )
    if steps.min() <= 0:
        raise ValueError(f"`step_sizes` reach down to {steps.min():g}, but must be positive.")
    figure = new_figure(width=5.6, height=3.8)
    axes = figure.subplots()
    _expected_line(axes, expected, tolerance, vertical=False, color="0.9", label="right")
    known = np.isfinite(high)
    ceiling = 4 * expected if not known.any() else max(1.5 * float(high[known].max()), 2 * expected)
    axes.vlines(steps[known], low[known], high[known], color="0.6", linewidth=2.0, zorder=1)
    for mask, color, marker, label in (
        (known & good, palette(0), "o", "passed"),
        (known & ~good, palette(1), "s", "not passed"),
    ):
        if mask.any():
            axes.plot(steps[mask], high[mask], marker, color=color, label=label)
    if (~known).any():
        top = np.full((~known).sum(), ceiling / 1.1)
        axes.plot(steps[~known], top, "x", color="0.1", label="not finite", clip_on=False)
    if chosen is not None:
        axes.axvline(chosen, color=palette(0), linewidth=1.2, label=f"chosen: {chosen:.2g}")
    axes.set(xscale="log", yscale="log")
    bottom = min(0.5 * expected, float(low[known].min()) / 1.3 if known.any() else expected)
    axes.set_ylim(max(bottom, 1e-3 * expected), 1.1 * ceiling)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(_few))
    axes.set(xlabel="step size ε", ylabel="temperature, coldest to hottest array")
    axes.set_title("Pilot runs: which step size is cool enough?")
    axes.legend()
    return figure


def _few(value: float, _: object) -> str:
    """Labels at 2 and 5 only: all ten of a decade would run into each other."""
    return f"{value:g}" if f"{value:.0e}"[0] in "25" else ""


def _by_array(
    axes: Axes,
    names: list[str],
    found: Mapping[str, NDArray[np.float64]],
    expected: float,
    tolerance: float,
) -> None:
    places = np.arange(len(names), dtype=float)
    _expected_line(axes, expected, tolerance, vertical=True)
    all_values = np.concatenate([table.ravel() for table in found.values()])
    finite = all_values[np.isfinite(all_values)]
    top = expected * (1 + _ROOM)
    high = min(top, max(float(finite.max(initial=expected)), expected * (1 + 2 * tolerance)))
    low = min(float(finite.min(initial=expected)), expected * (1 - 2 * tolerance))
    low = max(low, expected * (1 - _ROOM))
    margin = 0.04 * (high - low)
    for index, (key, table) in enumerate(found.items()):
        place = places + 0.36 * (index - (len(found) - 1) / 2)
        value, lower, upper = table.T
        inside = np.isfinite(value) & (value <= high)
        color = palette(index)
        axes.hlines(
            place[inside],
            np.clip(lower[inside], low - margin, None),
            np.clip(upper[inside], None, high + margin),
            color=color,
            linewidth=1.6,
        )
        marker, label = _MARKERS.get(key, "D"), f"{key}, with its interval"
        axes.plot(value[inside], place[inside], marker, color=color, markersize=4.5, label=label)
        for i in np.flatnonzero(np.isfinite(value) & (value > high)):
            axes.plot(high, place[i], ">", color=color, markersize=6)
            beside: dict[str, Any] = {
                "textcoords": "offset points",
                "xytext": (-8, -3),
                "ha": "right",
            }
            axes.annotate(f"{value[i]:.3g}", (high, place[i]), color=color, fontsize=8, **beside)
    axes.set(xlim=(low - margin, high + margin), ylim=(len(names) - 0.5, -0.5))
    axes.set_yticks(places, names)
    axes.set(xlabel="temperature", ylabel="parameter array")


def _over_time(
    axes: Axes,
    key: str,
    names: list[str],
    table: NDArray[np.float64],
    expected: float,
    tolerance: float,
) -> None:
    middle = (np.arange(table.shape[1]) + 0.5) / table.shape[1]
    _expected_line(axes, expected, tolerance, vertical=False)
    away = np.abs(table[:, :, 0].mean(axis=1) - expected)
    # One that is not finite is the oddest.
    order = np.argsort(-np.where(np.isnan(away), np.inf, away), kind="stable")
    shown = sorted(order[:_MOST_LINES].tolist())
    for index, i in enumerate(shown):
        color = palette(index)
        value, lower, upper = table[i].T
        axes.plot(middle, value, color=color, marker="o", markersize=3, label=names[i])
        axes.fill_between(middle, lower, upper, color=color, alpha=0.12, linewidth=0)
    values = table[shown][:, :, 0]
    finite = values[np.isfinite(values)]
    low = min(float(finite.min(initial=expected)), expected * (1 - 2 * tolerance))
    high = max(float(finite.max(initial=expected)), expected * (1 + 2 * tolerance))
    axes.set(ylim=(low - 0.25 * (high - low), high + 0.25 * (high - low)), xlim=(0, 1))
    axes.set(xlabel="share of the run", ylabel="temperature")
    left = len(names) - len(shown)
    axes.set_title(
        f"{key} over time"
        + (f" ({len(shown)} of {len(names)} arrays, the oddest)" if left else ""),
        loc="left",
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")


def _expected_line(
    axes: Axes,
    expected: float,
    tolerance: float,
    *,
    vertical: bool,
    color: str = "0.92",
    **band: Any,
) -> None:
    line, span = (axes.axvline, axes.axvspan) if vertical else (axes.axhline, axes.axhspan)
    span(expected * (1 - tolerance), expected * (1 + tolerance), color=color, zorder=0, **band)
    line(expected, color="0.3", linestyle="--", linewidth=1.0)


def _table(name: str, values: ArrayLike, count: int, *, axes: int = 2) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != axes or array.shape[0] != count or array.shape[-1] != 3:
        wanted = f"({count}, {'parts, ' if axes == 3 else ''}3)"
        raise ValueError(
            f"`{name}` has shape {array.shape}, but must be {wanted}: value, lower and upper end "
            "for each name."
        )
    return array
