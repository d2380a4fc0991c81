"""The health of the chains: what says that draws are not a sample, whatever R-hat says."""

import math
from collections.abc import Mapping

from bayesnn_ppl.core.wording import in_chains, listed, percent
from bayesnn_ppl.diagnostics.diagnosis.judgements.common import (
    Finding,
    Summary,
    Thresholds,
    rhat_name,
)

__all__ = ["apart", "broken", "rounded", "transitions"]


def broken(
    functions: Mapping[str, Summary],
    weights: Mapping[str, Summary],
    sampler: Summary,
    limits: Thresholds,
) -> list[str]:
    """Sentences on draws and chains that are no sample."""
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


def rounded(functions: Mapping[str, Summary], weights: Mapping[str, Summary]) -> list[Finding]:
    """Draws that were kept in too few digits."""
    found: list[Finding] = []
    for what, group in (("function outputs", functions), ("weights", weights)):
        coarse = [summary for summary in group.values() if summary["rounded"]]
        if coarse:
            worst = max((s["coarsest"][0] for s in coarse), key=lambda entry: entry["value"])
            found.append(
                (
                    "doubtful",
                    f"{sum(s['rounded'] for s in coarse)} of "
                    f"{sum(s['judged'] for s in group.values())} {what} are rounded to steps wider "
                    f"than their standard deviation (at {worst['name']} {worst['value']:.2g} "
                    "times): they look wider and more heavy-tailed than they are. Keep draws in "
                    "float32, not bfloat16 or float16, and take a large offset out of the targets.",
                )
            )
    return found


def apart(sampler: Summary) -> list[Finding]:
    """Chains that differ from the others."""
    odd = sampler["apart_chains"]
    if not odd:
        return []
    names, alone = listed(odd), len(odd) == 1
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


def transitions(sampler: Summary, limits: Thresholds) -> list[Finding]:
    """Divergences, energies, log densities and acceptance."""
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
                f"The log density has {rhat_name(sampler)} {sampler['lp_rhat']:.2f} (effective "
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
