"""How fast do the scores fall as the inputs get worse?"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from bayesnn_ppl.plots.figure import new_figure, palette, styled, vector

_MARKERS = "osD^vP"


@styled
def plot_severity(
    kind: Sequence[str], severity: ArrayLike, score: ArrayLike, *, label: str = "accuracy"
) -> Figure:
    """A score against the severity of corruption, one line for each kind.

    The columns of `metrics.by_severity` are what it takes. A single entry of severity 0 is the
    clean set, and every line starts there.

    Args:
        kind: the kind of corruption of each entry, shape (n,).
        severity: its severity, shape (n,), not negative.
        score: the score, shape (n,).
        label: what the score is, for the axis and the title.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: if lengths differ, there is nothing to draw, a severity is negative, a kind
            has a severity twice, or an entry is NaN or infinite.
    """
    names = np.array([str(name) for name in kind])
    degree = vector("severity", severity, length=names.size, like="kind")
    value = vector("score", score, length=names.size, like="kind")
    if degree.min() < 0:
        raise ValueError(
            f"`severity` reaches down to {degree.min():g}, but 0 is the clean set and nothing is "
            "cleaner."
        )
    clean = np.flatnonzero(degree == 0)
    shared = clean if clean.size == 1 and names.size > 1 else clean[:0]
    # The clean set alone is a point and no line.
    kinds = list(dict.fromkeys(np.delete(names, shared)))
    figure = new_figure(width=5.2, height=3.6)
    axes = figure.subplots()
    for index, name in enumerate(kinds):
        own = np.union1d(np.flatnonzero(names == name), shared)
        own = own[np.argsort(degree[own], kind="stable")]
        if np.unique(degree[own]).size < own.size:
            raise ValueError(f"`severity` holds a number twice for the kind {str(name)!r}.")
        marker = _MARKERS[index % len(_MARKERS)]
        axes.plot(degree[own], value[own], color=palette(index), marker=marker, label=str(name))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="severity", ylabel=label)
    axes.set_title(f"{label[:1].upper()}{label[1:]} under corruption")
    if len(kinds) > 1:
        axes.legend()
    return figure
