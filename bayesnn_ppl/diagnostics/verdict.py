"""From numbers to a judgement in words: what is wrong, why, and what to do next."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bayesnn_ppl.diagnostics.thermometry import Thermometry
from bayesnn_ppl.diagnostics.wording import in_chains, listed, percent, round_up

type Status = Literal["converged", "usable with care", "not converged", "not judged"]
type Summary = Mapping[str, Any]


class Thresholds(NamedTuple):
    """The numbers a verdict rests on; see `diagnose` for their meaning."""

    rhat_threshold: float
    rhat_limit: float
    ess_threshold: float
    ess_limit: float
    usable_share: float
    ebfmi_threshold: float
    divergence_share: float
    saturation_share: float
    stuck_share: float
    acceptance_shortfall: float


def judge(
    functions: Mapping[str, Summary],
    weights: Mapping[str, Summary],
    sampler: Summary,
    limits: Thresholds,
    temperatures: Thermometry | None = None,
) -> tuple[Status, tuple[str, ...]]:
    """The status and the sentences that give its reasons.

    Failures rule out convergence, doubts lower it to "usable with care", gaps leave it open and
    remarks change nothing; the worst present decides.
    """
    failures = _broken(functions, weights, sampler, limits)
    gaps = _gaps(functions, sampler)
    doubts: list[str] = []
    praise: list[str] = []
    if not gaps:
        for kind, sentence in _function_space(functions, sampler, limits):
            {"failure": failures, "doubt": doubts, "praise": praise}[kind].append(sentence)
    causes = _chains(sampler, limits)
    if temperatures is not None:
        {"failure": failures, "doubt": doubts, "remark": causes}[_heat(temperatures)].append(
            f"Temperatures: {temperatures.verdict}"
        )
    for kind, sentence in _transitions(sampler, limits):
        (doubts if kind == "doubt" else causes).append(sentence)
    status: Status = "converged"
    if failures:
        status = "not converged"
    elif gaps:
        status = "not judged"
    elif doubts:
        status = "usable with care"
    compared = _weights_against_functions(functions, weights, status, limits)
    return status, (*failures, *gaps, *praise, *doubts, *causes, *compared)


def _heat(found: Thermometry) -> str:
    """A wrong temperature is a doubt, and beyond a factor of two the law is another one."""
    if found.status in ("right", "not known"):
        return "remark"
    for array in found.arrays:
        given = [r.value / found.temperature for r in (array.configurational, array.kinetic) if r]
        if array.status in ("frozen", "wrong") or (
            array.status != "right" and not all(0.5 < value < 2 for value in given)
        ):
            return "failure"
    return "doubt"


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
    for chain, draw in sampler["stopped_chains"].items():
        sentences.append(
            f"Chain {chain} stopped at draw {draw}, which was not finite; its draws from there on "
            "repeat the last one that was. Lower the step size, or look for it with "
            "`find_step_size`."
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
            f"Chain {chain} is stuck ({', '.join(reasons)}). Start it elsewhere (a draw from the "
            "prior rather than a wide uniform), lower the initial step size, or warm up for "
            "longer; its draws are no sample of the posterior."
        )
    return sentences


def _gaps(functions: Mapping[str, Summary], sampler: Summary) -> list[str]:
    sentences = []
    if not functions:
        sentences.append(
            "No function values were given, so convergence is not judged: weights alone cannot "
            "say it. Pass probe inputs, best the ones predictions are wanted for."
        )
    elif not sum(s["judged"] + s["non_finite"] for s in functions.values()):
        sentences.append(
            "Every function output is constant over all draws, so there is nothing to judge. "
            "Check that the probe inputs reach the network and that its weights are sampled."
        )
    if sampler["chains"] < 2:
        sentences.append(
            "One chain only: that it found the whole posterior cannot be judged, because only "
            "chains from different starts can disagree. Run at least 4."
        )
    if sampler["draws"] < 4:
        sentences.append(
            f"{sampler['draws']} draws a chain are too few for any measure (4 at least, hundreds "
            "to be of use)."
        )
    return sentences


def _function_space(
    functions: Mapping[str, Summary], sampler: Summary, limits: Thresholds
) -> list[tuple[str, str]]:
    judged = [summary for summary in functions.values() if summary["judged"]]
    if not judged:
        return []
    found: list[tuple[str, str]] = []
    count = sum(summary["judged"] for summary in judged)
    worst = max(judged, key=lambda summary: summary["rhat_max"])
    largest, where = worst["rhat_max"], worst["worst"][0]["name"]
    below = sum(s["rhat_below_threshold"] * s["judged"] for s in judged) / count
    usable = sum(s["rhat_below_limit"] * s["judged"] for s in judged) / count
    agree = largest < limits.rhat_threshold
    if usable < limits.usable_share:
        found.append(
            (
                "failure",
                f"{f'Only {percent(usable)}' if usable else 'None'} of the {count} function "
                f"outputs have R-hat below {limits.rhat_limit:g} (largest {largest:.3g}, at "
                f"{where}): the chains do not give the same predictions.",
            )
        )
    elif not agree:
        found.append(
            (
                "doubt",
                f"Not fully converged: only {percent(below)} of the {count} function outputs have "
                f"R-hat below {limits.rhat_threshold:g}; the largest is {largest:.3f}, at {where}. "
                "The chains differ a little more than their length explains: run on.",
            )
        )
    scarce = min(judged, key=_fewest)
    fewest = _fewest(scarce)
    if fewest < limits.ess_threshold:
        enough = sum(s["ess_above_limit"] * s["judged"] for s in judged) / count
        now = sampler["recorded_draws"]
        needed = round_up(now * limits.ess_threshold / max(fewest, 1e-9))
        # While the chains disagree the rate says how far apart they are, not how they mix.
        advice = (
            f"at this rate about {needed} draws a chain would be needed (now {now})."
            if usable >= limits.usable_share
            else "how many draws are needed can be said once the chains agree."
        )
        found.append(
            (
                "failure" if enough < limits.usable_share else "doubt",
                f"The smallest effective sample size is {fewest:.0f}, at "
                f"{scarce['fewest'][0]['name']}, below {limits.ess_threshold:g}: {advice}",
            )
        )
    elif agree:
        found.append(
            (
                "praise",
                f"All {count} function outputs have R-hat below {limits.rhat_threshold:g} "
                f"(largest {largest:.3f}) and effective sample sizes of {fewest:.0f} and more.",
            )
        )
    return found


def _chains(sampler: Summary, limits: Thresholds) -> list[str]:
    apart = sampler["apart_chains"]
    if not apart:
        return []
    names = listed(apart)
    return [
        f"{names[0].upper()}{names[1:]} {'stands' if len(apart) == 1 else 'stand'} apart from "
        "the others in function space: without "
        f"{'it' if len(apart) == 1 else 'them'} the largest R-hat of the outputs concerned is "
        f"{sampler['rhat_without_apart']:.3f}. It may have found another mode or not yet the "
        "right one: compare log densities, warm up for longer, and leave a chain out only with "
        "a reason that does not come from its predictions."
    ]


def _transitions(sampler: Summary, limits: Thresholds) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    target = sampler["target_acceptance"]
    count, share = sampler["divergences"], sampler["divergence_share"]
    if count:
        aim = f" (now {target:g})" if target is not None else ""
        serious = share > limits.divergence_share
        found.append(
            (
                "doubt" if serious else "remark",
                f"{count} transition{'s' * (count > 1)} diverged ({percent(share)})"
                + (
                    f": the step is too long where the density bends most. Raise the target "
                    f"acceptance{aim}, or write hierarchical scales in non-centred form."
                    if serious
                    else ", too few to matter by themselves."
                ),
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
                "doubt",
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
                "remark",
                f"{share_of} saturated at depth {depth}: trajectories end before they turn back, "
                "so draws stay correlated. Raise max_tree_depth, or shorten the way with a "
                "tighter prior, a longer warm-up or an adapted (dense) mass matrix.",
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
                    "remark",
                    f"Mean acceptance is {smallest:.2f}{in_chains(short)}, far below the target "
                    f"{target:g}: the step size had not adapted. Warm up for longer.",
                )
            )
    return found


def _weights_against_functions(
    functions: Mapping[str, Summary],
    weights: Mapping[str, Summary],
    status: Status,
    limits: Thresholds,
) -> list[str]:
    in_functions = _largest(functions)
    in_weights = _largest(weights)
    bounds = (limits.rhat_threshold, limits.rhat_limit)
    if status in ("not converged", "not judged") or not any(
        in_functions < bound <= in_weights for bound in bounds
    ):
        return []
    trust = (
        "predictions can be trusted"
        if status == "converged"
        else "judge by the predictions, with the reservations above"
    )
    return [
        f"Function space has R-hat {in_functions:.3f} at most while weights reach "
        f"{in_weights:.3g}: weight symmetries (hidden-unit permutation, sign flips) let chains "
        f"sit in equivalent places; {trust}, but do not interpret single weights."
    ]


def _largest(group: Mapping[str, Summary]) -> float:
    known = [s["rhat_max"] for s in group.values() if not math.isnan(s["rhat_max"])]
    return max(known, default=math.nan)


def _fewest(summary: Summary) -> float:
    return min(summary["ess_bulk_min"], summary["ess_tail_min"])
