"""Would data like these come from the model?"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayesnn_ppl.plots.figure import new_figure, palette, require_finite, styled, vector, with_unit

_MOST_CURVES = 40
_MOST_STEPS = 200  # of a distribution function


@styled
def plot_posterior_predictive(
    observed: ArrayLike, sampled: ArrayLike, unit: str | None = None
) -> Figure:
    """Distribution functions of all targets: the observed ones, and of data sets that draws made.

    Args:
        observed: targets, (N,).
        sampled: predictive samples of the same rows, one data set a draw, (S, N). Of more than 40
            draws so many are shown, evenly spaced.
        unit: of the target.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: shapes do not fit, or something is NaN or infinite.
    """
    seen = np.sort(vector("observed", observed))
    made = np.asarray(sampled, dtype=np.float64)
    if made.ndim != 2 or made.shape[1] != seen.size or not len(made):
        raise ValueError(
            f"`sampled` has shape {made.shape}, but one data set of {seen.size} rows for each draw "
            f"is needed: (draws, {seen.size})."
        )
    require_finite("sampled", made)
    chosen = np.unique(np.linspace(0, len(made) - 1, min(len(made), _MOST_CURVES)).astype(int))
    figure = new_figure(width=5.4, height=3.8)
    axis = figure.subplots()
    # So many steps as can be seen.
    level = np.unique(np.linspace(0, seen.size - 1, min(seen.size, _MOST_STEPS)).astype(int))
    share = (level + 1) / seen.size
    faint: dict[str, Any] = {"color": palette(0), "alpha": 0.2, "linewidth": 0.8}
    curves = np.sort(made[chosen], axis=1)[:, level].T
    lines = axis.plot(curves, share, drawstyle="steps-post", **faint)
    lines[0].set_label(f"{len(chosen)} draws")
    axis.plot(
        seen[level], share, drawstyle="steps-post", color="0.1", linewidth=1.8, label="observed"
    )
    axis.set(ylim=(0, 1.01), xlabel=with_unit("target", unit), ylabel="share of rows at or below")
    axis.set_title("Targets of the training rows, and data sets of the posterior")
    axis.legend(loc="upper left")
    return figure
