"""What is gained where the most uncertain rows are referred to somebody who knows better."""

import numpy as np

from bayesnn_ppl.metrics.referral import referral_curve
from bayesnn_ppl.plots import plot_risk_coverage
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure

_SHARES = (0.0, 0.1, 0.2, 0.3, 0.5)


def referral_section(subject: Subject) -> str:
    """The risk-coverage curve of the held-out rows, and rules; nothing without targets."""
    if subject.scores is None or not np.isfinite(subject.scores.get("aurc", np.nan)):
        return ""
    curve = referral_curve(subject.prediction, subject.targets)
    labels = subject.prediction.task == "classification"
    risk = "share of wrong labels" if labels else "mean squared error"
    drawn = figure(
        plot_risk_coverage(curve, risk=risk),
        f"{subject.key}-referral",
        f"{risk[0].upper()}{risk[1:]} of the most certain rows: the area under the curve is "
        f"{markup.number(curve.aurc)}, which is {markup.number(curve.excess_aurc)} above that of "
        "the best order.",
        "The curve should rise from left to right: then uncertain rows are those with large "
        "errors. Where it is level, the uncertainty does not tell them apart.",
    )
    rules = list(dict.fromkeys(curve.refer(share) for share in _SHARES))
    score = "1 minus the largest probability" if labels else "predictive variance"
    rows = [
        [markup.share(rule.share), markup.number(rule.threshold), markup.number(rule.risk)]
        for rule in rules
    ]
    table = markup.table(
        f"Rows whose {score} is above a threshold are referred",
        ["referred", "threshold", f"{risk} of the others"],
        rows,
    )
    return markup.columns(drawn, table)
