"""The posterior in the plane through three draws, and along the line through two."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.plots.figure import (
    new_figure,
    palette,
    require_entries,
    require_finite,
    styled,
    vector,
)

_LEVELS = 12


@styled
@strict_switches
def plot_surface(
    first: ArrayLike,
    second: ArrayLike,
    densities: Mapping[str, ArrayLike],
    coordinates: ArrayLike,
    *,
    lengths: tuple[float, float] = (1.0, 1.0),
    depth: float | None = None,
    shared: bool = False,
) -> Figure:
    """Log densities as filled contours, one axes for each, with the draws marked.

    Distances in the plane are drawn true: one unit of each axis is as long as `lengths` says. More
    than two densities are drawn in rows of two.

    Args:
        first, second: coordinates of the grid, (g,) and (h,), rising.
        densities: title -> log density (h, g), in nats. -inf, where the density vanishes, is
            drawn as the lowest level.
        coordinates: of the draws, (n, 2).
        lengths: Euclidean length of a unit along each axis.
        depth: nats below the highest value that are resolved; what is lower is drawn alike. None
            for all.
        shared: draw each density minus its highest value in the grid, all on one colour scale.

    Raises:
        ValueError: shapes do not fit, a coordinate is not finite, or a density is NaN or has no
            finite value.
    """
    x, y = vector("first", first), vector("second", second)
    points = np.asarray(coordinates, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"`coordinates` has shape {points.shape}, but is (n, 2).")
    require_finite("coordinates", points)
    require_entries("densities", densities)
    tables = {title: _table(title, z, (y.size, x.size)) for title, z in densities.items()}
    if shared:
        tables = {title: table - table.max() for title, table in tables.items()}
    columns = min(len(tables), 2)
    rows = -(-len(tables) // columns)
    figure = new_figure(width=3.4 * columns, height=3.3 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    together = np.concatenate([table.ravel() for table in tables.values()])
    for axes, (title, table) in zip(panels, tables.items(), strict=False):
        levels = _levels(together if shared else table, depth)
        shown = axes.contourf(x * lengths[0], y * lengths[1], np.maximum(table, levels[0]), levels)
        _mark(axes, points * lengths)
        axes.set(aspect="equal", title=title, xlabel="distance along draws 1 and 2")
        if not shared:
            figure.colorbar(shown, ax=axes, label="nats", fraction=0.046, pad=0.04)
    for axes in panels[len(tables) :]:
        axes.set_axis_off()
    for axes in panels[::columns]:
        axes.set_ylabel("distance at right angles")
    if shared:
        label = "log density minus the highest of each [nats]"
        if len(tables) < panels.size:
            place = panels[-1].inset_axes((0.05, 0.5, 0.9, 0.07))
            figure.colorbar(shown, cax=place, orientation="horizontal", label=label)
        else:
            figure.colorbar(shown, ax=list(panels), label=label)
    return figure


def _levels(table: NDArray[np.float64], depth: float | None) -> NDArray[np.float64]:
    """The levels of the contours, rising to the highest value."""
    finite = table[np.isfinite(table)]
    low, high = float(finite.min()), float(finite.max())
    low = low if depth is None else max(low, high - depth)
    return np.linspace(low, high if high > low else low + 1.0, _LEVELS + 1)


def _mark(axes: Axes, places: NDArray[np.float64]) -> None:
    """The draws, as numbered points."""
    axes.plot(*places.T, "o", color="white", markeredgecolor="black")
    for number, place in enumerate(places):
        axes.annotate(
            f"{number + 1}",
            (place[0], place[1]),
            textcoords="offset points",
            xytext=(6, 4),
            color="white",
            path_effects=[withStroke(linewidth=2, foreground="black")],
        )


@styled
def plot_segment(position: ArrayLike, densities: Mapping[str, ArrayLike]) -> Figure:
    """Log densities along the line through two draws, each minus its highest value.

    Args:
        position: t, (g,): the draws are at 0 and 1.
        densities: name -> log density (g,), in nats.

    Raises:
        ValueError: lengths differ, or a value is not finite.
    """
    t = vector("position", position)
    require_entries("densities", densities)
    figure = new_figure(width=5.6, height=3.6)
    axes = figure.subplots()
    for index, (name, values) in enumerate(densities.items()):
        curve = vector(f"densities[{name!r}]", values, length=t.size, like="position")
        axes.plot(t, curve - curve.max(), color=palette(index), label=name)
    for place in (0.0, 1.0):
        axes.axvline(place, color="0.6", linestyle="--", linewidth=1.0)
    axes.set_xlabel("position: draw 1 at 0, draw 2 at 1")
    axes.set(ylabel="log density, minus its highest [nats]", title="From one draw to another")
    axes.legend()
    return figure


def _table(title: str, values: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    table = np.asarray(values, np.float64)
    if table.shape != shape:
        raise ValueError(
            f"`densities[{title!r}]` has shape {table.shape}, but the grid has {shape}, a row for "
            "each entry of `second`."
        )
    if np.isnan(table).any() or np.isposinf(table).any() or not np.isfinite(table).any():
        raise ValueError(
            f"`densities[{title!r}]` holds NaN or +inf, or no finite value: a log density is "
            "finite, or -inf where the density vanishes."
        )
    return table
