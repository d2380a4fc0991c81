"""One question, has the sampler converged, answered from function space down to the sampler."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.diagnostics.convergence.dispersion import dispersion_of_starts
from bayesnn_ppl.diagnostics.diagnosis.chain_faults import odd_chains
from bayesnn_ppl.diagnostics.diagnosis.given import Given
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
    every: int = 1,
    resolution: float | None = None,
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
        every: draws of a chain that were made for each that is given, where only some were kept;
            `stats` may be of all of them.
        resolution: distance of neighbouring numbers in `draws`, relative to them, where they were
            rounded to less than their type can hold: 2^-7 for bfloat16.
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
            chains or draws, there are neither functions nor draws, starts are of other functions,
            the chains are not so many superchains, or a limit asks for more than its threshold.
        TypeError: an array is not real.
    """
    if rhat_threshold > rhat_limit or ess_limit > ess_threshold:
        raise ValueError(
            f"`rhat_threshold` ({rhat_threshold:g}) must not exceed `rhat_limit` "
            f"({rhat_limit:g}), nor `ess_limit` ({ess_limit:g}) `ess_threshold` "
            f"({ess_threshold:g}): the first is the target, the second the limit of what is useful."
        )
    given = Given.checked(functions, draws, stats, starts, every=every, superchains=superchains)
    values, weights = given.functions, given.draws
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
        layer: summarise(variables, **measure, resolution=resolution)
        for layer, variables in layers(weights, groups).items()
    }
    sampler = {
        "chains": given.chains,
        "draws": next(iter((values or weights).values())).shape[1],
        "recorded_draws": given.recorded,
        "every": every,
        "superchains": superchains,
        **sampler_summary(
            given.stats,
            max_tree_depth=depth,
            target_acceptance=target_acceptance,
            superchains=superchains,
        ),
    }
    sampler |= odd_chains(given, sampler["acceptance"], limits)
    compared = _compared_starts(given)
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


def _compared_starts(given: Given) -> dict[str, Any]:
    for name, starts in given.starts.items():
        values, groups = given.functions[name], given.superchains or given.chains
        of_group = values.reshape(groups, -1, *values.shape[2:])
        first = starts[:: given.chains // groups]
        if np.array_equal(np.repeat(first, given.chains // groups, axis=0), starts):
            starts, values = first, of_group  # chains of a group that share a start count once
        found = dispersion_of_starts(starts, values)
        return {"status": found.status, "median": found.median, "sentence": found.sentence}
    return {}
