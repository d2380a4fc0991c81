"""Are the ranks of true values among posterior draws uniform?"""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bayesnn_ppl.diagnostics.convergence.rank_uniformity import ecdf_band
from bayesnn_ppl.plots.figure import new_figure, palette, require_entries, styled

_MOST_BINS = 16
_PER_BIN = 8
_CAPTION_WIDTH = 108


@styled
def plot_calibration(
    ranks: Mapping[str, ArrayLike],
    draws: Sequence[int],
    *,
    labels: Sequence[str] | None = None,
    title: str = "Calibration",
    caption: str = "",
    false_alarm: float = 0.05,
) -> Figure:
    """Histogram of ranks, and their distribution function minus the uniform one, with bands.

    Args:
        ranks: k names -> ranks (R,), integers from 0 to L.
        draws: L of each, the number of draws that its ranks are among.
        labels: what to say of each, above its right panel.
        title: of the figure.
        caption: sentences below the panels.
        false_alarm: probability that uniform ranks leave the band of one quantity, in each panel.

    Returns:
        A figure with k rows of two axes.

    Raises:
        ValueError: nothing to draw, lengths differ, or a rank is outside 0, ..., L.

    References:
        Säilynoja, Bürkner, Vehtari (2022), arXiv:2103.10522.
    """
    require_entries("ranks", ranks)
    if len(draws) != len(ranks) or (labels is not None and len(labels) != len(ranks)):
        raise ValueError(
            f"`ranks` has {len(ranks)} quantities, `draws` {len(draws)} entries"
            + ("" if labels is None else f" and `labels` {len(labels)}")
            + ": give one for each."
        )
    lines = textwrap.wrap(caption, _CAPTION_WIDTH)
    figure = new_figure(width=8.0, height=0.9 + 1.75 * len(ranks) + 0.16 * len(lines))
    rows = figure.subplots(len(ranks), 2, squeeze=False, width_ratios=(1, 1))
    for row, (name, values) in enumerate(ranks.items()):
        own, places = _checked(name, values, draws[row]), draws[row] + 1
        most = min(_MOST_BINS, max(2, len(own) // _PER_BIN))
        bins = max(d for d in range(1, places + 1) if places % d == 0 and d <= most)
        counts = np.bincount(own * bins // places, minlength=bins)
        draw_histogram(rows[row, 0], counts, false_alarm)
        below = np.cumsum(np.bincount(own, minlength=places))[:-1] / len(own)
        draw_difference(rows[row, 1], below, len(own), false_alarm)
        rows[row, 0].set_ylabel("replications")
        rows[row, 0].set_title(name, loc="left")
        if labels is not None:
            rows[row, 1].set_title(labels[row], loc="left")
    for axes in rows[-1]:
        axes.set_xlabel("rank of the true value, as a share of the draws")
    figure.suptitle(title)
    if lines:
        figure.supxlabel("\n".join(lines), fontsize=8, x=0.01, ha="left")
    return figure


def _checked(name: str, values: ArrayLike, draws: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.size < 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"`ranks[{name!r}]` must be two or more integers, not {array.dtype}{array.shape}."
        )
    if array.min() < 0 or array.max() > draws:
        raise ValueError(
            f"`ranks[{name!r}]` go from {array.min()} to {array.max()}, but a rank among {draws} "
            f"draws lies between 0 and {draws}."
        )
    return array.astype(np.int64)


def draw_histogram(axes: Axes, counts: NDArray[np.int64], false_alarm: float) -> None:
    """Counts in bins of [0, 1], with the band of uniform values."""
    bins, total = len(counts), int(counts.sum())
    # Bonferroni over the bins: the band is simultaneous, as that of the other panel.
    tail = false_alarm / (2 * bins)
    low, high = stats.binom.ppf([tail, 1 - tail], total, 1 / bins)
    axes.axhspan(low, high, color="0.88", zorder=0)
    axes.axhline(total / bins, color="0.3", linestyle="--", linewidth=1.0)
    axes.stairs(counts, np.linspace(0, 1, bins + 1), fill=True, color=palette(0), alpha=0.75)
    axes.set(xlim=(0, 1), ylim=(0, 1.08 * max(high, counts.max())))


def draw_difference(axes: Axes, below: NDArray[np.float64], count: int, false_alarm: float) -> None:
    """Shares of `count` values at or below k inner points of [0, 1], minus the uniform ones."""
    z, lower, upper = ecdf_band(count, len(below), false_alarm=false_alarm)
    ends = np.concatenate([[0.0], z, [1.0]])
    shown = [np.concatenate([[0.0], line - z, [0.0]]) for line in (lower, upper, below)]
    axes.fill_between(ends, shown[0], shown[1], color="0.88", linewidth=0, zorder=0)
    axes.axhline(0.0, color="0.3", linestyle="--", linewidth=1.0)
    axes.plot(ends, shown[2], color=palette(1), linewidth=1.5)
    axes.set(xlim=(0, 1), ylabel="ECDF difference")
