"""Do the chains agree? Traces, ranks and energies of a few telling quantities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.diagnostics import rhat
from bayesnn_ppl.plots import plot_trace_rank
from bayesnn_ppl.plots.figure import STYLE
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure, mark_chains

_MOST_DRAWS = 1000  # of a trace; more are finer than the drawing
_MOST_CHAINS = 8
_WORST, _ORDINARY = 3, 2


def chains_section(subject: Subject) -> str:
    """Trace and rank plots, one for each quantity, which a page with scripts lets one choose."""
    if subject.fitted:
        return ""
    shown = _quantities(subject)
    if not shown:
        return ""
    count, draws = next(iter(shown.values())).shape
    every = -(-draws // _MOST_DRAWS)
    parts = []
    for index, (name, values) in enumerate(shown.items()):
        drawn = values[:_MOST_CHAINS, every - 1 :: every]
        plot = plot_trace_rank({name: drawn})
        trace, rank = plot.axes[:2]
        mark_chains(trace.lines, len(drawn))
        mark_chains(rank.patches, len(drawn))
        words = f"{len(drawn)} chains, R-hat {markup.number(float(rhat(values)))}."
        alternative = f"Traces and rank histograms of the {name}: {words}"
        parts.append(
            f'<div class="choice" data-label="{markup.text(name)}"><h3>{markup.text(name)}</h3>'
            + figure(plot, f"{subject.key}-trace-{index}", alternative, words)
            + "</div>"
        )
    left_out = []
    if every > 1:
        left_out.append(f"the last of every {every} draws is shown")
    if count > _MOST_CHAINS:
        left_out.append(f"the first {_MOST_CHAINS} of {count} chains are shown")
    words = (
        "Where chains agree, every rank histogram stays near its dashed line. A chain "
        "that sits apart piles up at one end; one that moves too little has a hump."
    )
    if left_out:
        words += f" Here {' and '.join(left_out)}."
    return (
        markup.note(words)
        + f'<div class="choices" data-chains="{min(count, _MOST_CHAINS)}">{"".join(parts)}</div>'
    )


def energy_section(subject: Subject) -> str:
    """ArviZ's plot of the energies: do the momenta's refreshments reach all of them?"""
    statistics = subject.posterior.statistics
    if "energy" not in statistics or statistics["energy"].shape[1] < 4:
        return ""
    values = statistics["energy"]
    if not np.isfinite(values).all() or (np.ptp(values, axis=1) == 0).any():
        return ""
    each = subject.diagnosis.sampler["ebfmi"]
    words = ", ".join(markup.number(v, 3) for v in each)
    return figure(
        _energy_plot(values),
        f"{subject.key}-energy",
        f"E-BFMI of each chain, and the distributions of the energies and their changes. {words}.",
        "Where the changes of the energy from draw to draw (transition) have a much narrower "
        "distribution than the energies (marginal), momenta do not carry the chain into the tails: "
        "E-BFMI below 0.3.",
    )


def _energy_plot(values: NDArray) -> Any:
    import matplotlib.pyplot as plt
    import xarray as xr
    from arviz import plot_energy
    from matplotlib import style

    data = xr.Dataset({"energy": (("chain", "draw"), values)})
    before = plt.get_backend()
    plt.switch_backend("agg")
    try:
        with style.context(STYLE):
            made = plot_energy(
                xr.DataTree.from_dict({"sample_stats": data}),
                backend="matplotlib",
                figure_kwargs={"figsize": (7.2, 2.6), "layout": "constrained"},
            )
        drawn = made.get_viz("figure")
        for axes, label in zip(drawn.axes, ("E-BFMI", "energy minus its mean"), strict=False):
            axes.set_xlabel(label)
        plt.close(drawn)
        return drawn
    finally:
        plt.switch_backend(before)


def _quantities(subject: Subject) -> dict[str, NDArray]:
    """Name -> (chain, draw): the worst function outputs, ordinary ones, the noise, the density."""
    found: dict[str, NDArray] = {}
    units = subject.posterior.standardisation or {"y_scale": 1.0, "y_mean": 0.0}
    scale, centre = units["y_scale"], units["y_mean"]
    for name, values in subject.functions.items():
        flat = values.reshape(*values.shape[:2], -1)
        unit = name in ("mean", "sd") and subject.posterior.standardisation is not None
        for index in _chosen(flat, _WORST, _ORDINARY if name != "sd" else 0):
            row = np.unravel_index(index, values.shape[2:]) if values.ndim > 2 else ()
            label = f"{name} at row {row[0]}" + "".join(
                f", {'class' if name == 'probability' else 'output'} {i}" for i in row[1:]
            )
            if name == "sd" and flat.shape[-1] == 1:
                label = "sd of the noise"
            series = flat[:, :, index].astype(np.float64)
            if unit and np.ndim(scale) == 0:
                series = scale * series + (centre if name == "mean" else 0.0)
            found[label] = series
            if name == "sd":
                break
    if "lp" in subject.posterior.statistics:
        found["log density"] = subject.posterior.statistics["lp"].astype(np.float64)
    weights = subject.diagnosis.weights
    worst = [w for s in weights.values() for w in s["worst"][:1]]
    if worst:
        label = max(worst, key=lambda w: w["value"])["name"]
        name, _, index = label.partition("[")
        place = [int(i) for i in index.rstrip("]").split(",")] if index else []
        array = np.asarray(subject.posterior.draws[name], dtype=np.float64)
        for i in place:
            array = array[:, :, i]
        found[f"worst weight, {label}"] = array
    return {
        name: series
        for name, series in found.items()
        if series.shape[1] >= 10 and np.isfinite(series).all()
    }


def _chosen(flat: NDArray, worst: int, ordinary: int) -> list[int]:
    """Indices of the outputs with the largest R-hat, and of some in the middle."""
    values = np.ravel(rhat(flat))
    known = np.flatnonzero(~np.isnan(values))
    if not known.size:
        return []
    order = known[np.argsort(-values[known], kind="stable")]
    middle = order[len(order) // 2 : len(order) // 2 + ordinary]
    return list(dict.fromkeys(int(i) for i in (*order[:worst], *middle)))
