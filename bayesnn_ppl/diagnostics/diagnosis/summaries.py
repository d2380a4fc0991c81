"""What the draws of functions, layers and the sampler say, as plain numbers and lists."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.diagnostics.convergence.measures import convergence_summary, ebfmi
from bayesnn_ppl.diagnostics.convergence.nested import rhat_among
from bayesnn_ppl.diagnostics.convergence.precision import Precision, precision_summary

type Draws = Mapping[str, NDArray]

_WORST = 3
# An output whose tail has this shape has no standard deviation that a run could find: the variance
# of its squares is infinite from 1/4 on, and estimates of shapes scatter.
HEAVY = 0.3
# Probabilities that vary less than this are judged as if they varied so much.
SMALL_PROBABILITY = 0.05


def summarise(
    variables: Draws,
    *,
    rhat_threshold: float,
    rhat_limit: float,
    ess_limit: float,
    superchains: int | None = None,
    precision: bool = False,
    probabilities: bool = False,
    resolution: float | None = None,
) -> dict[str, Any]:
    """Convergence of a group of variables, element by element.

    Elements that are one constant over all chains and draws tell nothing and are left out;
    elements with a NaN or an infinity are counted apart. Shares are of the elements judged and
    NaN where there are none or where R-hat does not exist (one chain, too few draws).

    Args:
        variables: name -> array (chain, draw, ...).
        rhat_threshold, rhat_limit: what the two shares of small R-hat are counted against.
        ess_limit: what the share of usable effective sample sizes is counted against.
        superchains: how many equally large groups of chains there are, side by side; then R-hat is
            the nested one.
        precision: also the largest Monte Carlo errors, see `_errors`.
        probabilities: whether the variables are, which have a scale of their own.
        resolution: of the numbers, relative to them, where it is not that of their type.
    """
    fields = ("rhat", "bulk", "tail", "error", "steps")
    parts: dict[str, list[NDArray]] = {field: [] for field in fields}
    names: list[tuple[str, NDArray, tuple[int, ...]]] = []
    total = constant = non_finite = 0
    for name, values in variables.items():
        found = convergence_summary(values)
        trailing = values.shape[2:]
        if values.shape[1] < 4:
            # Nothing is measured on so few draws, so look at the values themselves.
            finite = np.isfinite(values).all(axis=(0, 1)).ravel()
            flat = (values == values[:1, :1]).all(axis=(0, 1)).ravel() & finite
        else:
            finite, flat = np.isfinite(np.ravel(found.mean)), np.ravel(found.sd) == 0
        judged = finite & ~flat
        total += finite.size
        constant += int(flat.sum())
        non_finite += int((~finite).sum())
        rhat = found.rhat if superchains is None else rhat_among(values, superchains)
        parts["rhat"].append(np.ravel(rhat)[judged])
        parts["bulk"].append(np.ravel(found.ess_bulk)[judged])
        parts["tail"].append(np.ravel(found.ess_tail)[judged])
        with np.errstate(invalid="ignore", divide="ignore"):
            parts["error"].append((np.ravel(found.mcse_mean) / np.ravel(found.sd))[judged])
        steps = _rounding(values, np.ravel(found.mean), np.ravel(found.sd), resolution)
        parts["steps"].append(steps[judged])
        names.append((name, np.flatnonzero(judged), trailing))
    joined = {field: np.concatenate(arrays) for field, arrays in parts.items()}
    rhat, bulk, tail = joined["rhat"], joined["bulk"], joined["tail"]
    smallest = np.fmin(bulk, tail)
    errors = _errors(variables, names, probabilities) if precision else {}
    return {
        "elements": total,
        "judged": total - constant - non_finite,
        "constant": constant,
        "non_finite": non_finite,
        "rhat_below_threshold": _share(rhat < rhat_threshold, rhat),
        "rhat_below_limit": _share(rhat < rhat_limit, rhat),
        "rhat_max": _of(np.max, rhat),
        "ess_bulk_min": _of(np.min, bulk),
        "ess_bulk_median": _of(np.median, bulk),
        "ess_tail_min": _of(np.min, tail),
        "ess_tail_median": _of(np.median, tail),
        "ess_above_limit": _share(smallest >= ess_limit, smallest),
        "mcse_over_sd_max": _of(np.max, joined["error"]),
        "rounded": int((joined["steps"] > 1).sum()),
        "coarsest": _worst(joined["steps"], names)[:1],
        "worst": _worst(rhat, names),
        "fewest": _worst(-smallest, names)[:1],
        **errors,
    }


def _rounding(
    values: NDArray, mean: NDArray, sd: NDArray, resolution: float | None
) -> NDArray[np.float64]:
    """Distance of neighbouring numbers at the mean, in standard deviations.

    Rounding to steps h adds h²/12 to a variance: at a step of one standard deviation the standard
    deviation is 4 % too large.
    """
    if resolution is None:
        resolution = float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        return resolution * 2.0 ** np.floor(np.log2(np.abs(mean))) / sd


def _errors(
    variables: Draws,
    names: list[tuple[str, NDArray, tuple[int, ...]]],
    probabilities: bool,
) -> dict[str, Any]:
    """The largest Monte Carlo errors of the judged elements, and the heaviest tail.

    In units of the standard deviation, or of 0.05 for a probability that varies less: nobody needs
    a tenth of the spread of a probability near 0. A probability is bounded, so no tail of it is
    heavy. `tail_excess` is how many of its standard errors the shape of a tail lies above 0.3.
    """
    found: dict[str, list[NDArray]] = {field: [] for field in Precision._fields}
    share = []
    for name, kept, _ in names:
        for field, values in precision_summary(variables[name])._asdict().items():
            found[field].append(np.ravel(values)[kept])
        share.append(np.ones(len(kept)))
        if probabilities:
            flat = variables[name].reshape(*variables[name].shape[:2], -1)[:, :, kept]
            sd = np.std(flat, axis=(0, 1), dtype=np.float64)
            share[-1] = sd / np.maximum(sd, SMALL_PROBABILITY)
    joined = {field: np.concatenate(arrays) for field, arrays in found.items()}
    scale = np.concatenate(share)
    excess = (joined["tail_shape"] - HEAVY) / joined["tail_error"]
    if probabilities:
        excess = np.full_like(excess, -np.inf)
    heaviest = _worst(excess, names)[:1]
    for entry in heaviest:
        entry["value"] = float(joined["tail_shape"][np.nanargmax(excess)])
    return {
        "mean_error": _of(np.max, joined["mean_error"] * scale),
        "spread_error": _of(np.max, joined["spread_error"] * scale),
        "quantile_error": _of(np.max, joined["quantile_error"] * scale),
        "tail_excess": _of(np.max, excess),
        "heaviest": heaviest,
    }


def layers(draws: Draws, groups: Mapping[str, str] | None) -> dict[str, dict[str, NDArray]]:
    """Variables by layer: the name up to its last dot, or as `groups` says."""
    grouped: dict[str, dict[str, NDArray]] = {}
    for name, values in draws.items():
        layer = (groups or {}).get(name) or name.rpartition(".")[0] or name
        grouped.setdefault(layer, {})[name] = values
    return grouped


def sampler_summary(
    stats: Draws,
    *,
    max_tree_depth: int | None,
    target_acceptance: float | None,
    superchains: int | None = None,
) -> dict[str, Any]:
    """Statistics of the sampler, per chain where that says more; None where it reports none."""
    summary: dict[str, Any] = {
        "divergences": None,
        "divergence_share": None,
        "divergences_per_chain": None,
        "ebfmi": None,
        "max_tree_depth": max_tree_depth,
        "saturated_share": None,
        "acceptance": None,
        "target_acceptance": target_acceptance,
        "steps_per_draw": None,
        "step_size": None,
        "lp_rhat": None,
        "lp_ess_bulk": None,
        "stopped_chains": {},
        # Statistic -> the chains in which it is somewhere NaN or infinite.
        "non_finite_statistics": {
            name: broken.tolist()
            for name, array in stats.items()
            if (broken := np.flatnonzero(~np.isfinite(array).all(axis=1))).size
        },
    }
    if "stopped" in stats:
        stopped = stats["stopped"].astype(bool)
        # Chain -> the first draw that was not made.
        summary["stopped_chains"] = {
            int(chain): int(stopped[chain].argmax())
            for chain in np.flatnonzero(stopped.any(axis=1))
        }
    if "diverging" in stats:
        diverging = stats["diverging"].astype(bool)
        summary["divergences"] = int(diverging.sum())
        summary["divergence_share"] = float(diverging.mean())
        summary["divergences_per_chain"] = diverging.sum(axis=1).tolist()
    if "energy" in stats:
        summary["ebfmi"] = ebfmi(stats["energy"]).tolist()
    if max_tree_depth is not None:
        if "tree_depth" in stats:
            saturated = stats["tree_depth"] >= max_tree_depth
            summary["saturated_share"] = float(saturated.mean())
        elif "n_steps" in stats:
            # A full tree of depth d has 2^d - 1 leapfrog steps.
            saturated = stats["n_steps"] >= 2**max_tree_depth - 1
            summary["saturated_share"] = float(saturated.mean())
    for name, key in (
        ("acceptance_rate", "acceptance"),
        ("n_steps", "steps_per_draw"),
        ("step_size", "step_size"),
    ):
        if name in stats:
            finite = np.ma.masked_invalid(stats[name])  # what is not is said, and no average
            summary[key] = finite.mean(axis=1, dtype=float).filled(np.nan).tolist()
    if "lp" in stats:
        found, lp = convergence_summary(stats["lp"]), stats["lp"]
        summary["lp_ess_bulk"] = float(found.ess_bulk)
        summary["lp_rhat"] = float(
            found.rhat if superchains is None else rhat_among(lp, superchains)
        )
    return summary


def _share(hit: NDArray, values: NDArray) -> float:
    known = ~np.isnan(values)
    return float(hit[known].mean()) if known.any() else float("nan")


def _of(reduction: Any, values: NDArray) -> float:
    known = values[~np.isnan(values)]
    return float(reduction(known)) if known.size else float("nan")


def _worst(
    values: NDArray, names: list[tuple[str, NDArray, tuple[int, ...]]]
) -> list[dict[str, Any]]:
    """Names of the largest values, with their index: `net.Dense_0.kernel[3,7]`."""
    order = np.argsort(np.where(np.isnan(values), -np.inf, values), kind="stable")[::-1]
    starts = np.cumsum([0, *(len(kept) for _, kept, _ in names)])
    worst = []
    for position in order[:_WORST]:
        if np.isnan(values[position]):
            continue
        owner = int(np.searchsorted(starts, position, side="right")) - 1
        name, kept, trailing = names[owner]
        index = np.unravel_index(kept[position - starts[owner]], trailing) if trailing else ()
        label = f"{name}[{','.join(str(i) for i in index)}]" if index else name
        worst.append({"name": label, "value": abs(float(values[position]))})
    return worst
