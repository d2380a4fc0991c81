"""Precision: how large are the Monte Carlo errors of means, spreads and quantiles?"""

import math
from collections.abc import Mapping

from bayesnn_ppl.diagnostics.diagnosis.judgements.common import (
    Finding,
    Judgement,
    Summary,
    outputs,
)
from bayesnn_ppl.diagnostics.diagnosis.summaries import HEAVY

__all__ = ["judge_precision"]

# The quantiles of a normal distribution have twice the error of its mean; other shapes have more.
_QUANTILE = 5.0
# The largest error of so many outputs may be twice as large: it is also the largest by chance.
_MANY = 1000


def judge_precision(
    functions: Mapping[str, Summary], *, ess_threshold: float, ess_limit: float
) -> Judgement:
    """Are the errors of mean and spread at most 1/sqrt(ESS threshold), and the tails light enough?

    Means are measured in standard deviations of the posterior, spreads (standard deviations) in
    per cent of themselves, of which the largest of 1 000 may be twice as large. What is passed at
    the threshold 400 is off by more than 0.2 sd, or a single output by more than 20 %, at four
    standard errors only. Measured on known truths, see `benchmarks/verdicts`.

    Args:
        functions: label -> summary with `mean_error`, `spread_error`, `quantile_error`.
        ess_threshold, ess_limit: effective sample sizes whose errors pass, and are of use.
    """
    judged = outputs(functions)
    known = [s for s in judged if not math.isnan(s["mean_error"])]
    if not known:
        return Judgement("precision", "not judged", "no function outputs with enough draws")
    mean, spread, quantile = (
        max(s[name] for s in known) for name in ("mean_error", "spread_error", "quantile_error")
    )
    figure = (
        f"means good to {_digits(2 * mean)} sd; spreads to {_percent(2 * spread)}; 5 % and 95 % "
        f"quantiles to {_digits(2 * quantile)} sd"
    )
    findings: list[Finding] = []
    count = sum(s["judged"] for s in known)
    # In units of the error that an effective sample of one draw has.
    allowed = 1 + min(1.0, math.log(count) / math.log(_MANY))
    worst = max(mean, spread / allowed, quantile / _QUANTILE)
    if worst > ess_threshold**-0.5:
        usable = worst <= ess_limit**-0.5
        findings.append(
            (
                "approximate" if usable else "failed",
                f"Errors (two standard errors): {figure}. "
                + (
                    "If this is not precise enough, run longer."
                    if usable
                    else "This is too imprecise to use. Run longer."
                ),
            )
        )
    heavy = max(known, key=lambda s: s["tail_excess"])
    # The largest of many estimates is larger than one.
    if heavy["tail_excess"] > 0.7 * math.sqrt(2 * math.log(count)):
        name, shape = heavy["heaviest"][0]["name"], heavy["heaviest"][0]["value"]
        findings.append(
            (
                "doubtful",
                f"The tails of {name} are so heavy (Pareto shape {shape:.2f}, "
                f"{HEAVY:g} is the limit) that a few draws decide its standard deviation, and the "
                "errors above are too small. Use medians and quantiles in place of means and "
                "standard deviations.",
            )
        )
    return Judgement.of("precision", figure, findings)


def _digits(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.01 else f"{100 * value:.1g} %"
