"""How much of a network has converged: R-hat in function space and layer by layer."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.plots.figure import new_figure, palette, percent, styled, vector

# 1.01 is the bound of Vehtari et al. (2021), 1.1 the older one of Gelman and Rubin's users.
MARKS = (1.01, 1.1)
# On a linear axis one stuck weight at 3 would hide everything between the marks.
SMALLEST_EXCESS, LARGEST_EXCESS = 1e-4, 10.0
EDGES = np.geomspace(SMALLEST_EXCESS, LARGEST_EXCESS, 51)


@styled
def plot_rhat(groups: Mapping[str, ArrayLike]) -> Figure:
    """One histogram of R-hat for each group, on a logarithmic axis of R-hat - 1.

    Values of 1.0001 or less fall into the first bin, values of 11 or more into the last one, which
    infinite values (a chain that never moved) join. NaN (a constant quantity) is not drawn, but
    counted in the title, and never counts as below a mark.

    Args:
        groups: name of a layer, or "function space", to R-hats of shape (n,); the order is kept.

    Returns:
        A figure with one axes for each group; its title gives the shares below 1.01 and 1.1.

    Raises:
        ValueError: if there is no group, or one is empty or no vector.

    References:
        Vehtari et al. (2021), Rank-normalization, folding, and localization: an improved R-hat,
        Bayesian Analysis 16(2).
    """
    if not groups:
        raise ValueError("`groups` is empty: give R-hats for at least one group of quantities.")
    vectors = {
        name: vector(f"groups[{name!r}]", values, finite=False) for name, values in groups.items()
    }
    columns = 1 if len(vectors) <= 4 else 2 if len(vectors) <= 16 else 3
    rows = -(-len(vectors) // columns)
    figure = new_figure(width=max(5.5, 4.2 * columns), height=0.9 + 1.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for axis, (name, values) in zip(axes.flat, vectors.items(), strict=False):
        excess = np.clip(values[~np.isnan(values)] - 1, SMALLEST_EXCESS, LARGEST_EXCESS)
        axis.stairs(np.histogram(excess, EDGES)[0], EDGES, fill=True, color=palette(0))
        for mark, line, color in zip(MARKS, ("--", "-"), ("0.1", palette(1)), strict=True):
            axis.axvline(mark - 1, color=color, linestyle=line, linewidth=1.2)
        axis.set_title(_title(name, values), loc="left")
        axis.set(xscale="log", xlim=(SMALLEST_EXCESS, LARGEST_EXCESS))
        axis.set_xticks(
            [1e-4, 1e-3, 1e-2, 1e-1, 1, 10], ["≤ 1.0001", "1.001", "1.01", "1.1", "2", "≥ 11"]
        )
        axis.minorticks_off()
    for axis in axes.flat[len(vectors) :]:
        axis.remove()
    for column in range(columns):
        last = range(column, len(vectors), columns)[-1]
        axes.flat[last].set_xlabel("R-hat (log scale of R-hat - 1)")
        axes.flat[last].tick_params(labelbottom=True)
    figure.supylabel("number of quantities")
    figure.suptitle("Convergence: R-hat, with 1.01 and 1.1 marked")
    return figure


def _title(name: str, values: NDArray[np.float64]) -> str:
    shares = ", ".join(f"{percent(float(np.mean(values < mark)))} below {mark}" for mark in MARKS)
    undefined = int(np.isnan(values).sum())
    return f"{name} ({values.size})\n{shares}" + (f", {undefined} undefined" if undefined else "")
