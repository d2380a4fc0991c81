"""What all plots share: a figure outside pyplot, the style, and the checks of their arrays."""

import functools
import io
from collections.abc import Callable, Sized
from pathlib import Path

import numpy as np
from matplotlib import colors, style
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

STYLE = Path(__file__).with_name("style.mplstyle")


class PlotFigure(Figure):
    """A figure that pyplot does not know: it needs no closing, and a notebook shows it once."""

    def _repr_png_(self) -> bytes:
        # Without pyplot no inline backend has taught the notebook how to show a figure.
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def styled[**P, R](plot: Callable[P, R]) -> Callable[P, R]:
    """Run a plotting function under this package's style, leaving `rcParams` as they were."""

    @functools.wraps(plot)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        with style.context(STYLE):
            return plot(*args, **kwargs)

    return inner


def new_figure(*, width: float, height: float) -> PlotFigure:
    """An empty figure of `width` × `height` inches that fits its own labels."""
    return PlotFigure(figsize=(width, height), layout="constrained")


def palette(index: int) -> str:
    """Colour `index` of the style's cycle.

    Matplotlib reads names such as "C0" when it draws a line, which is after the style has gone.
    """
    return colors.to_hex(f"C{index}")


def vector(
    name: str, values: ArrayLike, *, length: int | None = None, like: str = "", finite: bool = True
) -> NDArray[np.float64]:
    """`values` as a non-empty float array of shape (n,), finite unless `finite` is False.

    `name` is the argument as the caller typed it; `length` the n that the argument `like` fixed.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(
            f"`{name}` has shape {array.shape}, but a vector of shape (n,) is drawn. "
            "Select one output, or flatten it with `.ravel()`."
        )
    require_entries(name, array)
    if length is not None and array.size != length:
        raise ValueError(
            f"`{name}` has {array.size} entries, but `{like}` has {length}. "
            f"Entry i of both belongs to the same point, so the lengths must be equal."
        )
    if finite:
        require_finite(name, array)
    return array


def require_finite(name: str, array: NDArray[np.float64]) -> None:
    """Refuse NaN and infinity, which Matplotlib would leave out silently."""
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise ValueError(
            f"`{name}` holds {bad} NaN or infinite entries of {array.size}. "
            "The figure would hide them: find where they come from, or leave them out first."
        )


def interval(
    names: tuple[str, str], bounds: tuple[ArrayLike, ArrayLike], *, length: int, like: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two ends of an interval for each point, each of shape (length,)."""
    lower = vector(names[0], bounds[0], length=length, like=like)
    upper = vector(names[1], bounds[1], length=length, like=like)
    if crossed := int(np.count_nonzero(lower > upper)):
        raise ValueError(
            f"`{names[0]}` lies above `{names[1]}` at {crossed} of {length} points. "
            "The two are the ends of one interval: they may have been given in the wrong order."
        )
    return lower, upper


def require_entries(name: str, values: Sized) -> None:
    """Raise ValueError where there is nothing to draw."""
    if not len(values):
        raise ValueError(f"`{name}` is empty, so there is nothing to draw.")


def require_shares(name: str, array: NDArray[np.float64], what: str) -> None:
    """Raise ValueError unless all are in [0, 1]; `what` they are ends the sentence."""
    if array.min() < 0 or array.max() > 1:
        raise ValueError(
            f"`{name}` reaches from {array.min():g} to {array.max():g}, but {what} between 0 and "
            "1. Divide percentages by 100."
        )


def require_level(level: float, what: str) -> None:
    """Raise ValueError unless 0 < level < 1; `what` names it inside the sentence."""
    if not 0 < level < 1:
        raise ValueError(
            f"`level` is {level}, but {what} lies strictly between 0 and 1. For 90 % give "
            "`level=0.9`."
        )


def with_unit(label: str, unit: str | None) -> str:
    """An axis label with its unit in brackets, if it has one."""
    return f"{label} [{unit}]" if unit else label


def percent(share: float) -> str:
    """A share as a whole percentage that says 0 % and 100 % only when it is exact."""
    if 0 < share < 0.005:
        return "< 1 %"
    if 0.995 <= share < 1:
        return "> 99 %"
    return f"{100 * share:.0f} %"
