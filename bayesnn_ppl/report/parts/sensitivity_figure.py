"""How far quantities move with the prior, and how far with the data."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayesnn_ppl.plots.figure import new_figure, palette, styled


@styled
def draw_sensitivities(pairs: NDArray[np.float64], threshold: float) -> Figure:
    """Sensitivity to the prior against that to the likelihood, one mark a quantity.

    Args:
        pairs: sensitivities to prior and likelihood, (n, 2).
        threshold: from which on a sensitivity counts; lines are drawn there.
    """
    figure = new_figure(width=5.4, height=3.6)
    axis = figure.subplots()
    moved = pairs[:, 0] >= threshold
    for part, colour, label in (
        (~moved, palette(0), "little by the prior"),
        (moved, palette(1), "moved by the prior"),
    ):
        if part.any():
            axis.plot(pairs[part, 1], pairs[part, 0], "o", color=colour, label=label)
    for line in (axis.axhline, axis.axvline):
        line(threshold, color="0.3", linestyle="--", linewidth=1.0)
    axis.set(xlabel="sensitivity to the likelihood", ylabel="sensitivity to the prior")
    axis.set_xlim(0.0, 1.08 * max(2 * threshold, float(pairs[:, 1].max())))
    axis.set_ylim(0.0, 1.08 * max(2 * threshold, float(pairs[:, 0].max())))
    axis.set_title(f"Power-scaling sensitivity; from {threshold:g} on it counts")
    axis.legend()
    return figure
