"""What a prior means: functions drawn from it, the classes they choose, and what layers do."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.tri import Triangulation
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.plots.figure import (
    new_figure,
    palette,
    percent,
    require_finite,
    require_level,
    styled,
    vector,
    with_unit,
)

_MOST_CLASSES = 20  # whose numbers can be read below bars of this width


@styled
def plot_function_draws(
    x: ArrayLike,
    functions: ArrayLike,
    *,
    level: float = 0.9,
    shown: int = 8,
    x_label: str = "x",
    y_label: str = "f(x)",
    x_unit: str | None = None,
    unit: str | None = None,
) -> Figure:
    """Functions of one input drawn from a prior: the band that holds them, and some of them.

    Args:
        x: the inputs, shape (n,), in any order.
        functions: their values, shape (draws, n).
        level: share of the draws inside the band at each input, in (0, 1).
        shown: how many are drawn as lines, the first of them.
        x_label, y_label: what input and function are.
        x_unit, unit: their units.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: shapes differ, a value is not finite, or `level` is not in (0, 1).
    """
    points = vector("x", x)
    values = _draws(functions, points.size)
    require_level(level, "the share inside the band")
    order = np.argsort(points, kind="stable")
    axis_x, values = points[order], values[:, order]
    low, middle, high = np.quantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    figure = new_figure(width=6.0, height=3.8)
    axis = figure.subplots()
    label = f"{percent(level)} of the draws"
    axis.fill_between(axis_x, low, high, color=palette(0), alpha=0.2, linewidth=0, label=label)
    for number, line in enumerate(values[:shown]):
        label = "" if number else "draws"
        axis.plot(axis_x, line, color=palette(1), linewidth=0.8, label=label)
    axis.plot(axis_x, middle, color=palette(0), label="median")
    axis.set(xlabel=with_unit(x_label, x_unit), ylabel=with_unit(y_label, unit))
    axis.set_title("Functions drawn from the prior")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


@styled
def plot_function_surfaces(
    x: ArrayLike,
    functions: ArrayLike,
    *,
    shown: int = 3,
    x_labels: tuple[str, str] = ("x1", "x2"),
    y_label: str = "f(x)",
) -> Figure:
    """Functions of two inputs drawn from a prior, as coloured surfaces, and their spread.

    Args:
        x: the inputs, shape (n, 2), not all on one line; between them values are interpolated.
        functions: values, shape (draws, n).
        shown: how many are drawn, the first of them, on one scale of colours.
        x_labels: what the two inputs are.
        y_label: what the function is.

    Returns:
        A figure with one axes for each surface, one for the standard deviation over all draws, and
        a bar of colours for each of the two kinds.

    Raises:
        ValueError: shapes differ, a value is not finite, or the inputs span no surface.
    """
    points = np.asarray(x, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3:
        raise ValueError(
            f"`x` has shape {points.shape}, but a surface needs three inputs or more of two "
            "numbers, (n, 2)."
        )
    require_finite("x", points)
    values = _draws(functions, len(points))
    try:
        mesh = Triangulation(*points.T)
    except (RuntimeError, ValueError):
        raise ValueError(
            "The inputs `x` lie on one line or coincide, so they span no surface. Give a "
            "grid, or draw functions of one input with `plot_function_draws`."
        ) from None
    chosen = values[: max(1, shown)]
    figure = new_figure(width=1.0 + 2.4 * (len(chosen) + 1), height=3.8)
    axes = figure.subplots(1, len(chosen) + 1, sharex=True, sharey=True, squeeze=False)[0]
    levels = _levels(chosen)
    for number, (axis, surface) in enumerate(zip(axes, chosen, strict=False)):
        drawn = axis.tricontourf(mesh, surface, levels=levels)
        axis.set_title(f"draw {number + 1}")
    _bar(figure, drawn, list(axes[:-1]), y_label)
    spread = values.std(axis=0)
    sd = axes[-1].tricontourf(mesh, spread, levels=_levels(spread))
    axes[-1].set_title(f"sd of {len(values)} draws")
    _bar(figure, sd, [axes[-1]], f"sd of {y_label}")
    for axis in axes:
        axis.set_xlabel(x_labels[0])
    axes[0].set_ylabel(x_labels[1])
    figure.suptitle("Functions drawn from the prior")
    return figure


@styled
def plot_class_collapse(
    shares: Mapping[str, ArrayLike], *, shown: int = 4, y_label: str = "share of the inputs"
) -> Figure:
    """The classes that single draws from a prior choose, and their average, as Wenzel et al. show.

    Args:
        shares: name of a prior -> share of the inputs that each draw gives to each class, or
            probability of each class averaged over the inputs, (draws, classes).
        shown: how many draws have a panel of their own, the first of them.
        y_label: what the shares are.

    Returns:
        A figure with a row for each prior: its first draws, then the average over all draws.

    Raises:
        ValueError: nothing to draw, a wrong shape, or rows that are not shares (sum 1).

    References:
        Wenzel et al. (2020), arXiv:2002.02405.
    """
    if not shares:
        raise ValueError(
            "`shares` is empty: give an array (draws, classes) for one prior at least."
        )
    tables = {name: _shares(f"shares[{name!r}]", values) for name, values in shares.items()}
    columns = 1 + max(1, min(shown, *(len(table) for table in tables.values())))
    figure = new_figure(width=1.6 + 1.5 * columns, height=0.9 + 1.5 * len(tables))
    axes = figure.subplots(len(tables), columns, sharey=True, squeeze=False)
    for row, (name, table) in zip(axes, tables.items(), strict=True):
        classes = np.arange(table.shape[1])
        for number, axis in enumerate(row):
            last = number == columns - 1
            bars = table.mean(axis=0) if last else table[number]
            axis.bar(classes, bars, color=palette(1 if last else 0), width=0.85)
            axis.axhline(1 / len(classes), color="0.3", linestyle="--", linewidth=0.8)
            axis.set_title(f"average of {len(table)}" if last else f"draw {number + 1}")
            axis.set_ylim(0, 1)
            if len(classes) <= _MOST_CLASSES:
                axis.set_xticks(classes[:: 1 + len(classes) // 6])
            axis.grid(visible=False)
        row[0].set_ylabel(f"{name}\n{y_label}" if name else y_label)
    for axis in axes[-1]:
        axis.set_xlabel("class")
    figure.suptitle("Classes that draws from the prior choose (dashed: an even spread)")
    return figure


@styled
def plot_layers(
    names: Sequence[str], sd: ArrayLike, shares: Mapping[str, ArrayLike] | None = None
) -> Figure:
    """Layer by layer: the size of pre-activations, and shares such as that of saturated units.

    Args:
        names: of the layers, from the inputs to the outputs.
        sd: standard deviation of the pre-activations, (layers,), positive.
        shares: label -> share, (layers,), NaN where a layer has none.

    Returns:
        A figure with one axes for the sizes, on a logarithmic axis, and one for the shares if
        there are any.

    Raises:
        ValueError: lengths differ, or a size is not positive.
    """
    labels = [str(name) for name in names]
    sizes = vector("sd", sd, length=len(labels), like="names")
    if sizes.min() <= 0:
        raise ValueError(f"`sd` reaches down to {sizes.min():g}, but sizes must be positive.")
    lines = {
        name: vector(f"shares[{name!r}]", values, length=len(labels), like="names", finite=False)
        for name, values in (shares or {}).items()
    }
    panels = 2 if lines else 1
    figure = new_figure(width=max(5.5, 1.6 + 0.3 * len(labels)), height=1.4 + 2.0 * panels)
    axes = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
    places = np.arange(len(labels))
    axes[0].plot(places, sizes, color=palette(0), marker="o")
    axes[0].set(yscale="log", ylabel="sd of pre-activations")
    if lines:
        for number, (name, values) in enumerate(lines.items()):
            axes[1].plot(places, values, color=palette(number + 1), marker="s", label=name)
        axes[1].set(ylim=(-0.03, 1.03), ylabel="share")
        figure.legend(loc="outside lower center", ncols=3)
    axes[-1].set_xticks(places, labels, rotation=90 if len(labels) > 6 else 0)
    axes[-1].set_xlabel("layer")
    figure.suptitle("The prior layer by layer")
    return figure


def _draws(functions: ArrayLike, points: int) -> NDArray[np.float64]:
    values = np.asarray(functions, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != points or not len(values):
        raise ValueError(
            f"`functions` has shape {values.shape}, but must be (draws, {points}): one value for "
            "each input. Select one output of several."
        )
    require_finite("functions", values)
    return values


def _shares(name: str, values: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not len(table) or table.shape[1] < 2:
        raise ValueError(f"`{name}` has shape {table.shape}, but must be (draws, classes).")
    require_finite(name, table)
    if table.min() < 0 or not np.allclose(table.sum(axis=1), 1, atol=1e-3):
        raise ValueError(
            f"`{name}` must hold shares: each row is one draw, not negative, and sums to 1. "
            "`PriorPredictive.classes` has `shares` and `probabilities`."
        )
    return table


def _levels(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round numbers as bounds of colours, of which two must differ though the values do not."""
    low, high = float(values.min()), float(values.max())
    margin = 1e-6 + 1e-6 * abs(high) if high - low < 1e-9 * max(1.0, abs(high)) else 0.0
    return np.asarray(MaxNLocator(20).tick_values(low - margin, high + margin))


def _bar(figure: Figure, drawn: Any, axes: list[Any], label: str) -> None:
    """A bar of colours below some panels, with as many numbers and as long lines as fit there."""
    figure.colorbar(
        drawn,
        ax=axes,
        location="bottom",
        ticks=MaxNLocator(4 if len(axes) == 1 else 6),
        label=textwrap.fill(label, 34 * len(axes), break_long_words=False),
    )
