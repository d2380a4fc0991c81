"""Are observations where their predictions say, no more in the tails and no less?"""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayesnn_ppl.diagnostics.convergence.rank_uniformity import ecdf_band
from bayesnn_ppl.plots.figure import new_figure, percent, styled, vector
from bayesnn_ppl.plots.predictions.calibration import draw_difference, draw_histogram

_LEVELS = 99  # at which the distribution function is looked at


@styled
def plot_pit(values: ArrayLike, *, false_alarm: float = 0.05) -> Figure:
    """Probability integral transforms: histogram, and distribution function minus the uniform one.

    Calibrated predictions give uniform values. Too narrow ones give too many near 0 and 1, and a
    difference that is above 0 on the left and below 0 on the right; too wide ones the opposite.

    Args:
        values: one a row, (N,), in [0, 1], such as those of `metrics.loo_pit`.
        false_alarm: probability that uniform, independent values leave the band, in each panel.

    Returns:
        A figure with two axes.

    Raises:
        ValueError: fewer than two values, or one outside [0, 1] or NaN.

    References:
        Säilynoja, Bürkner, Vehtari (2022), arXiv:2103.10522.
    """
    pit = vector("values", values)
    if pit.size < 2 or pit.min() < 0 or pit.max() > 1:
        raise ValueError(
            f"`values` are {pit.size} numbers from {pit.min():g} to {pit.max():g}, but two or more "
            "probabilities between 0 and 1 are drawn."
        )
    count = pit.size
    bins = int(np.clip(count // 10, 2, 20))
    figure = new_figure(width=8.0, height=3.0)
    left, right = figure.subplots(1, 2)
    draw_histogram(left, np.histogram(pit, bins, (0, 1))[0], false_alarm)
    left.set_ylabel("rows")
    z = ecdf_band(count, _LEVELS, false_alarm=false_alarm)[0]
    draw_difference(right, (pit[:, None] < z).mean(axis=0), count, false_alarm)
    for axis in (left, right):
        axis.set_xlabel("probability integral transform")
    figure.suptitle(f"{count} rows, with the {percent(1 - false_alarm)} band of uniform values")
    return figure
