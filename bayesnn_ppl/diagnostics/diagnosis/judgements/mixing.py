"""Mixing: do the chains agree, and are they long enough?"""

import math
from collections.abc import Mapping

from bayesnn_ppl.core.wording import in_chains, listed, percent, round_up
from bayesnn_ppl.diagnostics.diagnosis.judgements.common import (
    Finding,
    Judgement,
    Summary,
    Thresholds,
    fewest,
    outputs,
)

__all__ = ["judge_mixing"]


def judge_mixing(
    functions: Mapping[str, Summary],
    weights: Mapping[str, Summary],
    sampler: Summary,
    limits: Thresholds,
) -> Judgement:
    """R-hat and effective sample sizes of every function output, and the health of the chains.

    Passed: every output below the R-hat threshold and above the ESS threshold, few divergences and
    no low E-BFMI. Approximate: every output within the two limits. Failed: beyond them, or a chain
    that is stuck, stopped or not finite. Weights never decide, except by values that are not
    finite: their symmetries keep equivalent chains apart.
    """
    findings: list[Finding] = [("failed", s) for s in _broken(functions, weights, sampler, limits)]
    gaps = _gaps(functions, sampler)
    findings += [("not judged", sentence) for sentence in gaps]
    figure = "no function outputs to judge"
    judged = outputs(functions)
    if judged and not gaps:
        found = _function_space(judged, sampler, limits)
        findings += found
        largest, smallest = max(s["rhat_max"] for s in judged), min(map(fewest, judged))
        rhat = "" if math.isnan(largest) else f"largest {_rhat_of(sampler)} {largest:.3f}, "
        figure = (
            f"{rhat}smallest ESS {smallest:.0f} of "
            f"{sum(s['judged'] for s in judged)} function outputs"
        )
    findings += _apart(sampler)
    findings += _transitions(sampler, limits)
    return Judgement.of("mixing", figure, findings)


def _broken(
    functions: Mapping[str, Summary],
    weights: Mapping[str, Summary],
    sampler: Summary,
    limits: Thresholds,
) -> list[str]:
    sentences = []
    for what, group in (("function values", functions), ("weights", weights)):
        count = sum(summary["non_finite"] for summary in group.values())
        if count:
            total = sum(summary["elements"] for summary in group.values())
            sentences.append(
                f"{count} of {total} {what} have draws that are NaN or infinite"
                f"{in_chains(sampler['non_finite_chains'])}: the sampler left the region where "
                "the model can be computed. Lower the step size, check the data for NaN and "
                "extreme values, or run in float64."
            )
    stopped = sampler["stopped_chains"]
    if stopped:
        draws = sorted(set(stopped.values()))
        at = f"draw {draws[0]}" if len(draws) == 1 else f"draws {draws[0]} to {draws[-1]}"
        sentences.append(
            f"{listed(list(stopped)).capitalize()} stopped at {at}, where the state was no longer "
            "finite; later draws repeat the last finite one. Lower the step size, or search for "
            "one with `find_step_size` (`--step-size auto`)."
        )
    if sampler["identical_chains"]:
        twins = ", and ".join(listed(chains) for chains in sampler["identical_chains"])
        sentences.append(
            f"{twins.capitalize()} have the same draws, all of them: one run was given twice, or "
            "runs of one seed were joined. Copies always agree, and count as draws that nobody "
            "made. Give each chain once."
        )
    for chain in sampler["stuck_chains"]:
        if chain in sampler["stopped_chains"]:
            continue
        moved, reasons = sampler["moved_share"][chain], []
        if moved < limits.stuck_share:
            reasons.append(f"{percent(moved)} of its draws differ from the draw before")
        accepted = (sampler["acceptance"] or {chain: math.nan})[chain]
        if not math.isnan(accepted):
            reasons.append(f"mean acceptance {accepted:.2g}")
        sentences.append(
            f"Chain {chain} is stuck ({', '.join(reasons)}). Its draws are not a sample of the "
            "posterior. Start it elsewhere (at a draw from the prior, not from a wide uniform), "
            "lower the initial step size, or warm up for longer."
        )
    return sentences


def _gaps(functions: Mapping[str, Summary], sampler: Summary) -> list[str]:
    sentences = []
    if not functions:
        sentences.append(
            "No function values were given, so convergence is not judged: weights alone cannot "
            "show it. Pass probe inputs, such as those that you want to predict."
        )
    elif not sum(s["judged"] + s["non_finite"] for s in functions.values()):
        sentences.append(
            "Every function output is constant over all draws, so there is nothing to judge. "
            "Check that the probe inputs reach the network and that its weights are sampled."
        )
    if sampler["draws"] < 4:
        sentences.append(
            f"{sampler['draws']} draws per chain are too few for any measure. At least 4 are "
            "needed, and hundreds are useful."
        )
    return sentences


def _function_space(judged: list[Summary], sampler: Summary, limits: Thresholds) -> list[Finding]:
    found: list[Finding] = []
    count = sum(summary["judged"] for summary in judged)
    scarce = min(judged, key=fewest)
    smallest = fewest(scarce)
    largest, agree, usable, rhat_name = float("nan"), True, True, _rhat_of(sampler)
    if sampler["chains"] > 1:
        worst = max(judged, key=lambda summary: summary["rhat_max"])
        largest, where = worst["rhat_max"], worst["worst"][0]["name"]
        below, within = (
            sum(s[share] * s["judged"] for s in judged) / count
            for share in ("rhat_below_threshold", "rhat_below_limit")
        )
        agree, usable = largest < limits.rhat_threshold, largest < limits.rhat_limit
        if not usable:
            found.append(
                (
                    "failed",
                    f"{f'Only {percent(within)}' if within else 'None'} of the {count} function "
                    f"outputs have {rhat_name} below {limits.rhat_limit:g} "
                    f"(largest {largest:.3g}, at {where}): the chains do not give the same "
                    "predictions.",
                )
            )
        elif not agree:
            found.append(
                (
                    "approximate",
                    f"Only {percent(below)} of the {count} function outputs have {rhat_name} "
                    f"below {limits.rhat_threshold:g}; the largest is {largest:.3f}, at {where}. "
                    "The chains differ a little more than their length explains. Run longer.",
                )
            )
    if smallest < limits.ess_threshold:
        now = sampler["recorded_draws"] * sampler["every"]
        needed = round_up(now * limits.ess_threshold / max(smallest, 1e-9))
        # While the chains disagree the rate says how far apart they are, not how they mix.
        advice = (
            f"at this rate about {needed} draws per chain are needed (now {now})."
            if usable
            else "the number of draws needed can be estimated when the chains agree."
        )
        found.append(
            (
                "failed" if smallest < limits.ess_limit else "approximate",
                f"The smallest effective sample size is {smallest:.0f}, at "
                f"{scarce['fewest'][0]['name']}, below {limits.ess_threshold:g}: {advice}",
            )
        )
    elif agree:
        rhat = (
            f"{rhat_name} below {limits.rhat_threshold:g} (largest {largest:.3f}) and "
            if not math.isnan(largest)
            else ""
        )
        found.append(
            (
                "passed",
                f"All {count} function outputs have {rhat}effective sample sizes of "
                f"{smallest:.0f} and more.",
            )
        )
    return found


def _rhat_of(sampler: Summary) -> str:
    return "R-hat" if sampler.get("superchains") is None else "nested R-hat"


def _apart(sampler: Summary) -> list[Finding]:
    apart = sampler["apart_chains"]
    if not apart:
        return []
    names, alone = listed(apart), len(apart) == 1
    return [
        (
            "passed",
            f"{names[0].upper()}{names[1:]} {'differs' if alone else 'differ'} from the others "
            f"in function space: without {'it' if alone else 'them'} the largest R-hat of the "
            f"outputs concerned is {sampler['rhat_without_apart']:.3f}. It may have found another "
            "mode or not yet the right one: compare log densities, warm up for longer, and leave a "
            "chain out only with a reason that does not come from its predictions.",
        )
    ]


def _transitions(sampler: Summary, limits: Thresholds) -> list[Finding]:
    found: list[Finding] = []
    target = sampler["target_acceptance"]
    count, share = sampler["divergences"], sampler["divergence_share"]
    if count:
        aim = f" (now {target:g})" if target is not None else ""
        serious = share > limits.divergence_share
        found.append(
            (
                "doubtful" if serious else "passed",
                f"{count} transition{'s' * (count > 1)} diverged ({percent(share)})"
                + (
                    f": the step is too long where the curvature is largest. Raise the target "
                    f"acceptance{aim}, or write hierarchical scales in non-centred form."
                    if serious
                    else ", too few to matter."
                ),
            )
        )
    for name, chains in sampler["non_finite_statistics"].items():
        found.append(
            (
                "not judged",
                f"`{name}` has values that are NaN or infinite{in_chains(chains)}, so what it "
                "would say of the sampler is not known. Find out at which draws, and why.",
            )
        )
    if (sampler["lp_rhat"] or 0) >= limits.rhat_limit:
        found.append(
            (
                "doubtful",
                f"The log density has {_rhat_of(sampler)} {sampler['lp_rhat']:.2f} (effective "
                f"sample size {sampler['lp_ess_bulk']:.0f}): chains are at different levels of it, "
                "which no symmetry of weights explains. They may be in different modes that agree "
                "at these inputs and not at others. Compare the chains' log densities, give inputs "
                "away from the training data, or run longer.",
            )
        )
    low = [
        chain
        for chain, value in enumerate(sampler["ebfmi"] or [])
        if value < limits.ebfmi_threshold and chain not in sampler["stuck_chains"]
    ]
    if low:
        smallest = min(sampler["ebfmi"][chain] for chain in low)
        found.append(
            (
                "doubtful",
                f"E-BFMI is {smallest:.2f} at the least, below {limits.ebfmi_threshold:g}"
                f"{in_chains(low)}: the energy moves too slowly for the tails to be explored. "
                "Reparametrise scales with heavy tails, or warm up for longer.",
            )
        )
    saturated = sampler["saturated_share"]
    if saturated is not None and saturated > limits.saturation_share:
        depth = sampler["max_tree_depth"]
        share_of = "Every tree is" if saturated == 1 else f"{percent(saturated)} of the trees are"
        found.append(
            (
                "passed",
                f"{share_of} saturated at depth {depth}: trajectories end before they turn back, "
                "so draws stay correlated. Use HMC with long trajectories of random length, or "
                "ChEES; or raise NUTS's `max_tree_depth` (in a shell, `--max-tree-depth`), or "
                "adapt a dense mass matrix.",
            )
        )
    if target is not None and sampler["acceptance"] is not None:
        short = [
            chain
            for chain, value in enumerate(sampler["acceptance"])
            if value < target - limits.acceptance_shortfall and chain not in sampler["stuck_chains"]
        ]
        if short:
            smallest = min(sampler["acceptance"][chain] for chain in short)
            found.append(
                (
                    "passed",
                    f"Mean acceptance is {smallest:.2f}{in_chains(short)}, far below the target "
                    f"{target:g}: the step size had not adapted. Warm up for longer.",
                )
            )
    return found
