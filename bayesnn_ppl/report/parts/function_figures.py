"""Drawings of fitted functions: curves with bands, effects of single inputs, maps, images."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bayesnn_ppl.plots.figure import new_figure, palette, styled
from bayesnn_ppl.report.parts.effects import Effect

_MOST_MARKS = 500


@styled
def draw_effect(
    effect: Effect, curves: Sequence[tuple[int, str]], label: str, limits: tuple[float, float]
) -> Figure:
    """Curves along one input with their bands, and marks below where the data have rows.

    Args:
        effect: of the input.
        curves: index of an output and its name, for each one that is drawn.
        label: of the vertical axis.
        limits: of the vertical axis.
    """
    figure = new_figure(width=4.6, height=3.1)
    axis = figure.subplots()
    for place, (index, name) in enumerate(curves):
        colour = palette(place)
        low, middle, high = (a[:, index] for a in (effect.lower, effect.center, effect.upper))
        if effect.discrete:
            ends = np.maximum([middle - low, high - middle], 0.0)
            axis.errorbar(effect.grid, middle, ends, fmt="o", color=colour, capsize=3, label=name)
        else:
            axis.fill_between(effect.grid, low, high, color=colour, alpha=0.25, linewidth=0)
            axis.plot(effect.grid, middle, color=colour, label=name)
    if effect.discrete:
        axis.set_xticks(effect.grid)
        axis.margins(x=0.2)
    else:
        axis.set_xlim(effect.grid[0], effect.grid[-1])
        marks = effect.rows[:: max(1, len(effect.rows) // _MOST_MARKS)]
        marks = marks[(marks >= effect.grid[0]) & (marks <= effect.grid[-1])]
        # One path with gaps: a mark of its own for each row would make the page large.
        heights = np.tile([0.0, 0.03, np.nan], len(marks))
        axis.plot(
            *(np.repeat(marks, 3), heights),
            color="0.35",
            linewidth=0.7,
            alpha=0.6,
            transform=axis.get_xaxis_transform(),
        )
    axis.set(xlabel=effect.name, ylabel=label, ylim=limits)
    if len(curves) > 1:
        axis.legend(fontsize=7)
    return figure


@styled
def draw_curves(
    x: NDArray,
    curves: NDArray,
    *,
    names: Sequence[str],
    rows: tuple[NDArray, NDArray] | None = None,
) -> Figure:
    """Single draws of a function of one input.

    Args:
        x: values of the input, rising, (G,).
        curves: the function of each draw, (S, G).
        names: of the input and of the function.
        rows: inputs and targets of the data, (N,) each.
    """
    figure = new_figure(width=6.0, height=3.8)
    axis = figure.subplots()
    axis.plot(x, curves.T, color=palette(0), linewidth=0.8, alpha=0.5)
    axis.lines[0].set_label(f"{len(curves)} draws of the function")
    if rows is not None:
        axis.plot(*rows, "o", markersize=3, color="0.15", label="training data")
    axis.set(xlabel=names[0], ylabel=names[1], title="Draws of the fitted function")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@styled
def draw_probabilities(
    x: NDArray, bands: tuple[NDArray, NDArray, NDArray], names: Sequence[tuple[int, str]], of: str
) -> Figure:
    """Class probabilities along the one input.

    Args:
        x: values of the input, rising, (G,).
        bands: mean over the draws and ends of the band, (G, K) each.
        names: index and name of each class that is drawn.
        of: what the input is.
    """
    figure = new_figure(width=6.0, height=3.8)
    axis = figure.subplots()
    for place, (index, name) in enumerate(names):
        middle, low, high = (a[:, index] for a in bands)
        axis.fill_between(x, low, high, color=palette(place), alpha=0.25, linewidth=0)
        axis.plot(x, middle, color=palette(place), label=name)
    axis.set(xlabel=of, ylabel="probability of the class", ylim=(-0.02, 1.02))
    axis.set_title("Class probabilities")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


@styled
def draw_map(
    first: NDArray,
    second: NDArray,
    values: NDArray,
    rows: NDArray,
    *,
    names: Sequence[str],
    label: str,
    marks: NDArray | None = None,
    classes: Sequence[str] = (),
) -> Figure:
    """A function of two inputs as filled contours, with the rows of the data.

    Args:
        first, second: values of the inputs, (g,) and (h,), rising.
        values: of the function, (h, g).
        rows: inputs of the data, (N, 2).
        names: of the two inputs.
        label: of the bar of colours.
        marks: class of each row, 0, 1, ..., (N,), told apart by the form of the mark.
        classes: their names.
    """
    figure = new_figure(width=5.2, height=4.0)
    axis = figure.subplots()
    low, high = float(values.min()), float(values.max())
    margin = 1e-6 * max(1.0, abs(high)) if high - low < 1e-9 * max(1.0, abs(high)) else 0.0
    levels = MaxNLocator(12).tick_values(low - margin, high + margin)
    shown = axis.contourf(first, second, values, levels=levels)
    kinds = np.zeros(len(rows), int) if marks is None else np.asarray(marks)
    for kind, form in zip(np.unique(kinds), "osD^vP", strict=False):
        part = rows[kinds == kind][:_MOST_MARKS]
        fill = palette(int(kind)) if marks is not None else "white"
        edge = "white" if marks is not None else "black"
        label_of = classes[kind] if kind < len(classes) else ""
        axis.plot(
            *part.T, form, color=fill, markeredgecolor=edge, markeredgewidth=0.6, label=label_of
        )
    if marks is not None and classes:
        figure.legend(loc="outside lower center", ncols=3)
    axis.grid(visible=False)
    axis.set(xlabel=names[0], ylabel=names[1])
    axis.set_xlim(first[0], first[-1])
    axis.set_ylim(second[0], second[-1])
    figure.colorbar(shown, ax=axis, label=label, ticks=MaxNLocator(6))
    return figure


@styled
def draw_images(images: NDArray, titles: Sequence[str]) -> Figure:
    """Images in a row, each under two lines of words.

    Args:
        images: (n, height, width, channels) of 1 or 3 channels, in any unit; each is drawn from
            its darkest value to its brightest.
        titles: of each.
    """
    figure = new_figure(width=1.0 * len(images), height=1.4)
    for axis, image, title in zip(
        figure.subplots(1, len(images), squeeze=False)[0], images, titles, strict=True
    ):
        low, high = float(image.min()), float(image.max())
        shown = (image - low) / (high - low if high > low else 1.0)
        axis.imshow(shown.squeeze(-1) if shown.shape[-1] == 1 else shown, cmap="gray")
        axis.set_title(title, fontsize=7)
        axis.set_axis_off()
    return figure
