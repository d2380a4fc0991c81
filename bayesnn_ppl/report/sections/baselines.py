"""What simple methods make of the same rows."""

from typing import Any

import numpy as np

from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.baselines import (
    Vote,
    class_shares,
    comparison,
    linear_regression,
    logistic_regression,
    posterior_forecast,
    training_mean,
)
from bayesnn_ppl.report.parts.subject import Subject

_MOST_VALUES = 5_000_000  # of the training inputs: a baseline that takes minutes is none


def baselines_section(subject: Subject) -> str:
    """The posterior compared with a linear model and a constant; nothing without training rows."""
    if subject.train is None or subject.at_probe or subject.targets is None:
        return ""
    x, y = (np.asarray(part) for part in subject.train)
    labels = subject.prediction.task == "classification"
    odd = np.ndim(subject.targets) != 1 or (not labels and np.ndim(subject.prediction.mean) != 1)
    if x.ndim != 2 or x.size > _MOST_VALUES or x.dtype.kind != "f" or odd:
        return markup.note("Linear baselines are for tables with one target, and of modest size.")
    if subject.has_bounds:
        return markup.note("Linear baselines are for targets that are neither censored nor masked.")
    return _labels(subject, x, y) if labels else _numbers(subject, x, y)


def _numbers(subject: Subject, x: Any, y: Any) -> str:
    prediction = subject.prediction
    target = np.asarray(prediction.y(subject.targets), dtype=np.float64)
    known = np.asarray(prediction.y(y), dtype=np.float64)
    forecasts = [posterior_forecast(subject.name, prediction, subject.targets)]
    if len(x) > x.shape[1] + 1:
        forecasts.append(linear_regression(x, known, np.asarray(subject.inputs), target))
    forecasts.append(training_mean(known, target))
    rows = [
        [f.name, *(markup.number(s[k]) for k in ("rmse", "nll")), markup.share(s["coverage_90"])]
        + [markup.number(s["width_90"])]
        for f in forecasts
        for s in [f.scores(target)]
    ]
    table = markup.table(
        f"The same {len(target)} rows by simple methods (lower RMSE and NLL are better)",
        ["", "RMSE", "NLL", "inside 90 %", "width of 90 %"],
        rows,
    )
    return table + markup.paragraph(
        comparison(forecasts[0], forecasts[1], target, called="this run")
    )


def _labels(subject: Subject, x: Any, y: Any) -> str:
    p = np.asarray(subject.prediction.probabilities, dtype=np.float64)
    labels, classes = np.asarray(subject.targets), p.shape[-1]
    votes = [Vote(subject.name, p)]
    if len(np.unique(y)) > 1:
        votes.append(logistic_regression(x, y, np.asarray(subject.inputs), classes))
    votes.append(class_shares(y, len(labels), classes))
    rows = [[v.name, *(markup.number(s) for s in v.scores(labels).values())] for v in votes]
    return markup.table(
        f"The same {len(labels)} rows by simple methods (lower NLL and Brier score are better)",
        ["", "accuracy", "NLL", "Brier"],
        rows,
    )
