"""Traces and rank plots: do the chains visit the same values equally often?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.plots.figure import (
    new_figure,
    palette,
    require_entries,
    require_finite,
    styled,
    with_unit,
)

# Twenty bins show a shifted or too narrow chain; more would show mostly noise.
MOST_BINS = 20


def rank_counts(values: NDArray[np.float64], bins: int) -> tuple[NDArray, NDArray]:
    """Histogram, chain by chain, of the ranks of the draws among the draws of all chains.

    Args:
        values: shape (chain, draw). Equal values share their mean rank.
        bins: the number of bins over the ranks 1 ... chain · draw.

    Returns:
        counts of shape (chain, bins), and the edges of the bins, shape (bins + 1,).
    """
    from scipy.stats import rankdata

    ranks = rankdata(values).reshape(values.shape)
    edges = np.linspace(0.5, values.size + 0.5, bins + 1)
    return np.stack([np.histogram(chain, edges)[0] for chain in ranks]), edges


@styled
def plot_trace_rank(
    values: Mapping[str, ArrayLike] | ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    unit: str | None = None,
) -> Figure:
    """Trace and rank plot of each of a few quantities, such as outputs at chosen inputs.

    The right column has a histogram of ranks for each chain, one above the other. When the chains
    agree, the ranks of each are uniform, and every histogram stays near its dashed line,
    draws / bins. A chain that sits apart piles up at one end; one that moves too little has a
    hump, one that moves too much a trough.

    Args:
        values: an array of shape (chain, draw, k), or a mapping of k names to arrays of shape
            (chain, draw).
        labels: the k names when `values` is an array; `f[0]`, `f[1]`, ... if left out.
        unit: the unit of the values, for the axis of the traces.

    Returns:
        A figure with k rows of two axes.

    Raises:
        ValueError: if a shape is another one, two quantities differ in shape, `labels` does not
            name k quantities (or a mapping names them already), there are fewer than 2 draws, or
            an entry is NaN or infinite.

    References:
        Vehtari et al. (2021), Rank-normalization, folding, and localization: an improved R-hat,
        Bayesian Analysis 16(2), section 4.
    """
    names, array = _quantities(values, labels)
    chains, draws, count = array.shape
    bins = min(MOST_BINS, max(2, draws // 5))
    figure = new_figure(width=8.0, height=0.9 + max(1.7, 0.25 * chains) * count)
    axes = figure.subplots(count, 2, squeeze=False, width_ratios=(3, 2), sharex="col")
    step = np.arange(1, draws + 1)
    for row, name in enumerate(names):
        trace, rank = axes[row]
        counts, edges = rank_counts(array[:, :, row], bins)
        floors = 1.1 * counts.max() * np.arange(chains + 1)
        for chain in range(chains):
            color = palette(chain)
            trace.plot(step, array[chain, :, row], color=color, linewidth=0.6, alpha=0.8)
            look: dict[str, Any] = {"color": color, "alpha": 0.8, "label": f"chain {chain}"}
            floor = floors[chain]
            rank.stairs(counts[chain] + floor, edges, baseline=floor, fill=True, **look)
        rank.hlines(floors[:-1], edges[0], edges[-1], color="0.6", linewidth=0.8)
        equal = floors[:-1] + draws / bins
        rank.hlines(equal, edges[0], edges[-1], "0.3", "--", linewidth=1.0, label="equal shares")
        rank.set_ylim(0, floors[-1])
        rank.set_yticks([])
        trace.set_ylabel(with_unit(name, unit))
        rank.set_ylabel("draws per bin")
    axes[-1, 0].set_xlabel("draw")
    axes[-1, 1].set_xlabel(f"rank among the {chains * draws} draws of all chains")
    handles, texts = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=min(6, len(texts)))
    figure.suptitle(f"Traces and ranks: {chains} chains of {draws} draws")
    return figure


def _quantities(
    values: Mapping[str, ArrayLike] | ArrayLike, labels: Sequence[str] | None
) -> tuple[list[str], NDArray[np.float64]]:
    """The names, and the values as one array (chain, draw, k)."""
    if isinstance(values, Mapping):
        if labels is not None:
            raise ValueError(
                "`values` is a mapping, so its keys are the labels: leave out `labels`."
            )
        require_entries("values", values)
        columns = {name: np.asarray(column, dtype=np.float64) for name, column in values.items()}
        first = next(iter(columns))
        for name, column in columns.items():
            if column.ndim != 2 or column.shape != columns[first].shape:
                raise ValueError(
                    f"`values[{name!r}]` has shape {column.shape} and `values[{first!r}]` has "
                    f"{columns[first].shape}, but every quantity must have one and the same shape "
                    "(chain, draw). Select single elements of an array variable first."
                )
        array = np.stack(list(columns.values()), axis=-1)
        names = [str(name) for name in columns]
    else:
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 3 or array.size == 0:
            raise ValueError(
                f"`values` has shape {array.shape}, but it must be (chain, draw, k) for k "
                "quantities. For one quantity add a last axis with `values[..., None]`."
            )
        names = [f"f[{i}]" for i in range(array.shape[2])] if labels is None else list(labels)
        if len(names) != array.shape[2]:
            raise ValueError(
                f"`labels` names {len(names)} quantities, but `values` of shape {array.shape} "
                f"holds {array.shape[2]}. Give one label for each entry of the last axis."
            )
    if array.shape[1] < 2:
        raise ValueError(
            f"`values` holds {array.shape[1]} draws in each chain, but ranks need 2 or more."
        )
    require_finite("values", array)
    return names, array
