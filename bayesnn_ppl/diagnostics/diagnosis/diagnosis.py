"""One question, has the sampler converged, answered from function space down to the sampler."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.diagnostics.convergence.chains import chains_apart, moved_share
from bayesnn_ppl.diagnostics.convergence.dispersion import dispersion_of_starts
from bayesnn_ppl.diagnostics.diagnosis.judgements import (
    Thresholds,
    judge,
    judge_exactness,
    judge_exploration,
    judge_mixing,
    judge_precision,
    remarks,
)
from bayesnn_ppl.diagnostics.diagnosis.result import Diagnosis
from bayesnn_ppl.diagnostics.diagnosis.summaries import layers, sampler_summary, summarise
from bayesnn_ppl.diagnostics.temperature.readings import Thermometry

__all__ = ["Diagnosis", "diagnose"]

_STATISTICS = (
    "diverging",
    "energy",
    "acceptance_rate",
    "tree_depth",
    "n_steps",
    "step_size",
    "lp",
    "stopped",
)


@strict_switches
def diagnose(
    functions: Mapping[str, ArrayLike],
    draws: Mapping[str, ArrayLike],
    stats: Mapping[str, ArrayLike],
    *,
    groups: Mapping[str, str] | None = None,
    starts: Mapping[str, ArrayLike] | None = None,
    accept_step: bool | None = None,
    temperatures: Thermometry | None = None,
    kernel: str = "the sampler",
    symmetric: bool | None = None,
    no_temperatures: str | None = None,
    superchains: int | None = None,
    max_tree_depth: int | tuple[int, int] | None = None,
    target_acceptance: float | None = None,
    rhat_threshold: float = 1.01,
    rhat_limit: float = 1.1,
    ess_threshold: float = 400.0,
    ess_limit: float = 100.0,
    ebfmi_threshold: float = 0.3,
    divergence_share: float = 0.0025,
    saturation_share: float = 0.05,
    stuck_share: float = 0.01,
    acceptance_shortfall: float = 0.2,
) -> Diagnosis:
    """Judge whether chains have converged: function space first, then weights, then the sampler.

    Four questions are judged one by one, and the worst answer is the status.

    - *Mixing*: every function output has R-hat below `rhat_threshold` and bulk and tail effective
      sample sizes of at least `ess_threshold`; no chain is stuck, stopped or not finite; few
      transitions diverge, and E-BFMI is not low.
    - *Exploration*: four chains or more, from starts at least as far apart as draws are.
    - *Exactness*: the kernel has an accept step, or temperatures say that spreads are right.
    - *Precision*: the Monte Carlo errors of means and standard deviations are at most
      1/sqrt(`ess_threshold`), in standard deviations and relative, and tails are light enough.
      For functions labelled "probability" that vary by less than 0.05, 0.05 is the unit.

    Weights never decide, because their symmetries keep equivalent chains apart; outputs that are
    one constant over all draws are counted and left out.

    Args:
        functions: label -> values of the network at probe inputs, (chain, draw, ...); may be
            empty. They may be recorded at fewer draws than `draws`.
        draws: variable name -> array (chain, draw, ...).
        stats: any of `diverging`, `energy`, `acceptance_rate`, `tree_depth`, `n_steps`,
            `step_size`, `lp`, `stopped`, each (chain, draw); other names are left alone.
        groups: variable name -> layer, where the name up to its last dot is not the layer.
        starts: function label -> values at each chain's starting point, (chain, ...).
        accept_step: whether a Metropolis, tree or slice step leaves the target unchanged; None
            where that is not known.
        temperatures: from `judge_temperatures`; they decide on exactness where there is no accept
            step.
        kernel: name of the sampler, for the words.
        symmetric: whether the model has hidden units that could be exchanged, which explains
            weights that mix worse than functions. None: if two of `draws` are matrices.
        no_temperatures: why there are none, in a sentence, where there is more to say.
        superchains: how many equally large groups of chains there are, side by side, whose chains
            started at one point or were resampled from each other: R-hat is then the nested one
            (`nested_rhat`), and the starts that count for exploration are those of the groups.
        max_tree_depth: depth at which a NUTS tree is saturated; of a pair (warm-up, sampling)
            the second counts.
        target_acceptance: what the step size was adapted to.
        rhat_threshold: R-hat of a converged output (Vehtari et al. 2021).
        rhat_limit: R-hat up to which an output is of use at all.
        ess_threshold: effective sample size wanted of every output; 400 is 100 for each of
            four chains (Vehtari et al. 2021).
        ess_limit: effective sample size under which an output is of no use; at 100 its mean is
            good to 0.2 standard deviations, at two standard errors.
        ebfmi_threshold: E-BFMI below which tails are in doubt (Betancourt 2016).
        divergence_share: share of divergent transitions above which the draws are in doubt.
        saturation_share: share of saturated trees above which a remark is made.
        stuck_share: a chain is stuck when fewer of its draws differ from the draw before, or
            when its mean acceptance is below this.
        acceptance_shortfall: how far acceptance may stay below its target without a remark.

    Returns:
        A `Diagnosis`.

    Raises:
        ValueError: an array lacks the axes (chain, draw), the arrays have different numbers of
            chains or draws, there are neither functions nor draws, or a limit asks for more
            than its threshold.
        TypeError: an array is not real.
    """
    if rhat_threshold > rhat_limit or ess_limit > ess_threshold:
        raise ValueError(
            f"`rhat_threshold` ({rhat_threshold:g}) must not exceed `rhat_limit` "
            f"({rhat_limit:g}), nor `ess_limit` ({ess_limit:g}) `ess_threshold` "
            f"({ess_threshold:g}): the first is the target, the second the limit of what is useful."
        )
    values = _checked(functions, "functions")
    weights = _checked(draws, "draws")
    statistics = _checked(
        {name: stats[name] for name in _STATISTICS if name in stats}, "stats", axes=2
    )
    misplaced = {"max_tree_depth", "target_acceptance"} & set(stats)
    if misplaced:
        raise ValueError(
            f"`stats` holds {', '.join(sorted(misplaced))}, which is a setting and not a statistic "
            "of a draw. Pass it as a keyword argument of `diagnose`."
        )
    if not values and not weights:
        raise ValueError(
            "`functions` and `draws` are both empty: there is nothing to diagnose. "
            "Pass the posterior's draws, and best function values at probe inputs too."
        )
    chains = {array.shape[0] for group in (values, weights, statistics) for array in group.values()}
    if len(chains) > 1:
        raise ValueError(
            f"The arrays have different numbers of chains, {sorted(chains)}. The first axis of "
            "`functions`, `draws` and `stats` must be the same chains in the same order."
        )
    depth = max_tree_depth[-1] if isinstance(max_tree_depth, tuple | list) else max_tree_depth
    limits = Thresholds(
        rhat_threshold=rhat_threshold,
        rhat_limit=rhat_limit,
        ess_threshold=ess_threshold,
        ess_limit=ess_limit,
        ebfmi_threshold=ebfmi_threshold,
        divergence_share=divergence_share,
        saturation_share=saturation_share,
        stuck_share=stuck_share,
        acceptance_shortfall=acceptance_shortfall,
    )
    measure: dict[str, Any] = {
        "rhat_threshold": rhat_threshold,
        "rhat_limit": rhat_limit,
        "ess_limit": ess_limit,
        "superchains": superchains,
    }
    function_summaries = {
        name: summarise(
            {name: array}, **measure, precision=True, probabilities=name == "probability"
        )
        for name, array in values.items()
    }
    weight_summaries = {
        layer: summarise(variables, **measure)
        for layer, variables in layers(weights, groups).items()
    }
    sampler = {
        **_counts(values, weights),
        "superchains": superchains,
        **sampler_summary(statistics, max_tree_depth=depth, target_acceptance=target_acceptance),
    }
    sampler |= _odd_chains(values, weights, sampler, limits)
    compared = _compared_starts(starts or {}, values)
    judgements = (
        judge_mixing(function_summaries, weight_summaries, sampler, limits),
        judge_exploration(
            superchains or sampler["chains"],
            compared,
            functions=bool(values),
            what="chains" if superchains is None else "superchains",
        ),
        judge_exactness(accept_step, temperatures, kernel=kernel, missing=no_temperatures),
        judge_precision(function_summaries, ess_threshold=ess_threshold, ess_limit=ess_limit),
    )
    status, sentences = judge(judgements)
    if symmetric is None:
        symmetric = sum(array.ndim > 3 for array in weights.values()) > 1
    explained = remarks(function_summaries, weight_summaries, status, limits, symmetric=symmetric)
    return Diagnosis(
        status=status,
        judgements=judgements,
        verdict=" ".join((*sentences, *explained)),
        functions=function_summaries,
        weights=weight_summaries,
        sampler=sampler,
        starts=compared,
        thresholds=limits._asdict(),
        temperatures=temperatures,
    )


def _compared_starts(
    starts: Mapping[str, ArrayLike], values: Mapping[str, NDArray]
) -> dict[str, Any]:
    for name, array in starts.items():
        if name in values:
            found = dispersion_of_starts(array, values[name])
            return {"status": found.status, "median": found.median, "sentence": found.sentence}
    return {}


def _checked(group: Mapping[str, ArrayLike], what: str, axes: int | None = None) -> dict:
    """Real arrays with the axes (chain, draw), the same draws within the group."""
    arrays: dict[str, NDArray] = {name: np.asarray(value) for name, value in group.items()}
    for name, array in arrays.items():
        if array.ndim < 2 or (axes is not None and array.ndim != axes) or 0 in array.shape[:2]:
            raise ValueError(
                f"`{what}[{name!r}]` has shape {array.shape}, but must be "
                f"(chain, draw{', ...' if axes is None else ''}) with at least one of each. "
                "For a single chain add the axis: array[None]."
            )
        if array.dtype.kind not in "fiub":
            raise TypeError(
                f"`{what}[{name!r}]` has dtype {array.dtype}, but a diagnosis needs real numbers."
            )
    sizes = {array.shape[1] for array in arrays.values()}
    if len(sizes) > 1:
        raise ValueError(
            f"The arrays of `{what}` have different numbers of draws, {sorted(sizes)}. "
            "Give all of them at the same draws."
        )
    return arrays


def _counts(values: Mapping[str, NDArray], weights: Mapping[str, NDArray]) -> dict[str, int]:
    """Chains, draws that functions are judged on, and draws that the run recorded."""
    judged = next(iter((values or weights).values())).shape
    # Either may be of every k-th draw only.
    recorded = max(array.shape[1] for array in (*values.values(), *weights.values()))
    return {"chains": judged[0], "draws": judged[1], "recorded_draws": recorded}


def _odd_chains(
    values: Mapping[str, NDArray],
    weights: Mapping[str, NDArray],
    sampler: Mapping[str, Any],
    limits: Thresholds,
) -> dict[str, Any]:
    """Chains that are stuck, not finite or apart from the rest."""
    # Equal names in both groups must not hide each other.
    everything = {("f", name): array for name, array in values.items()}
    everything |= {("w", name): array for name, array in weights.items()}
    moved = moved_share(everything)
    acceptance = sampler["acceptance"] or [np.nan] * len(moved)
    stuck = [
        chain
        for chain, share in enumerate(moved)
        if sampler["recorded_draws"] >= 4
        and (share < limits.stuck_share or acceptance[chain] < limits.stuck_share)
    ]
    broken = [
        chain
        for chain in range(len(moved))
        # The extremes of a chain carry a NaN on and need no array of truth values.
        if not all(
            np.isfinite(array[chain].min()) and np.isfinite(array[chain].max())
            for array in everything.values()
            if array.size
        )
    ]
    apart: list[int] = []
    without = float("nan")
    if sampler["superchains"] is None:  # else chains are many and short
        apart, without = chains_apart(
            values, rhat_threshold=limits.rhat_threshold, rhat_limit=limits.rhat_limit
        )
    return {
        "moved_share": moved.tolist(),
        "stuck_chains": stuck,
        "non_finite_chains": broken,
        "apart_chains": apart,
        "rhat_without_apart": without if apart else None,
    }
