"""Mixing: do the chains agree, and are they long enough?"""

import math
from collections.abc import Mapping

from bayesnn_ppl.core.wording import percent, round_up
from bayesnn_ppl.diagnostics.diagnosis.judgements.chain_health import (
    apart,
    broken,
    rounded,
    transitions,
)
from bayesnn_ppl.diagnostics.diagnosis.judgements.common import (
    Finding,
    Judgement,
    Summary,
    Thresholds,
    fewest,
    outputs,
    rhat_name,
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
    findings: list[Finding] = [("failed", s) for s in broken(functions, weights, sampler, limits)]
    gaps = _gaps(functions, sampler)
    findings += [("not judged", sentence) for sentence in gaps]
    figure = "no function outputs to judge"
    judged = outputs(functions)
    if judged and not gaps:
        found = _function_space(judged, sampler, limits)
        findings += found
        largest, smallest = max(s["rhat_max"] for s in judged), min(map(fewest, judged))
        rhat = "" if math.isnan(largest) else f"largest {rhat_name(sampler)} {largest:.3f}, "
        figure = (
            f"{rhat}smallest ESS {smallest:.0f} of "
            f"{sum(s['judged'] for s in judged)} function outputs"
        )
    findings += [*rounded(functions, weights), *apart(sampler)]
    findings += transitions(sampler, limits)
    return Judgement.of("mixing", figure, findings)


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
    largest, agree, usable, measure = float("nan"), True, True, rhat_name(sampler)
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
                    f"outputs have {measure} below {limits.rhat_limit:g} "
                    f"(largest {largest:.3g}, at {where}): the chains do not give the same "
                    "predictions.",
                )
            )
        elif not agree:
            found.append(
                (
                    "approximate",
                    f"Only {percent(below)} of the {count} function outputs have {measure} "
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
            f"{measure} below {limits.rhat_threshold:g} (largest {largest:.3f}) and "
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
