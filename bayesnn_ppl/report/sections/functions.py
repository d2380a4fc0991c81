"""Convergence in function space, which decides, and by layers of weights, which do not."""

from typing import Any

import numpy as np

from bayesnn_ppl.diagnostics import rhat
from bayesnn_ppl.diagnostics.diagnosis.summaries import layers
from bayesnn_ppl.plots import plot_rhat
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure

_MOST_LAYERS = 24
_COLUMNS = ["", "count", "R<{low:g}", "R<{high:g}", "largest R-hat", "ESS bulk", "ESS tail"]


def functions_section(subject: Subject) -> str:
    """R-hat and effective sample sizes of what the networks say, and the outputs that are worst."""
    diagnosis = subject.diagnosis
    if subject.fitted or not diagnosis.functions:
        return ""
    found = {n: np.ravel(rhat(a)) for n, a in subject.functions.items()}
    values = np.concatenate(list(found.values()))
    words = _table(
        "Function space: smallest effective sample sizes", diagnosis.functions, diagnosis
    )
    words += _worst(diagnosis.functions)
    words += markup.note(diagnosis.starts["sentence"]) if diagnosis.starts else ""
    drawn = _histogram({"function space": values}, f"{subject.key}-rhat-functions")
    return words + drawn


def weights_section(subject: Subject) -> str:
    """The same layer by layer; symmetries keep equivalent chains apart, so it never decides."""
    diagnosis = subject.diagnosis
    if subject.fitted or not diagnosis.weights:
        return ""
    grouped = layers(subject.posterior.draws, None)
    found = {
        name: np.concatenate([np.ravel(rhat(a)) for a in variables.values()])
        for name, variables in list(grouped.items())[:_MOST_LAYERS]
    }
    found = {name: values for name, values in found.items() if not np.isnan(values).all()}
    left = len(grouped) - _MOST_LAYERS
    words = (
        markup.note(
            "Hidden units can be exchanged and rescaled without a change of the function, so "
            "chains with equal functions may have unlike weights. Weights never decide."
        )
        + _table("Weights by layer: smallest effective sample sizes", diagnosis.weights, diagnosis)
        + _worst(diagnosis.weights, folded=False)
        + (markup.note(f"{left} more layers are in the table alone.") if left > 0 else "")
    )
    drawn = _histogram(found, f"{subject.key}-rhat-weights") if found else ""
    return markup.columns(words, drawn)


def _table(caption: str, group: Any, diagnosis: Any) -> str:
    limits = {"low": diagnosis.thresholds["rhat_threshold"]}
    limits["high"] = diagnosis.thresholds["rhat_limit"]
    rows = [
        [
            name,
            s["judged"],
            markup.share(s["rhat_below_threshold"]),
            markup.share(s["rhat_below_limit"]),
            markup.number(s["rhat_max"]),
            markup.number(float(s["ess_bulk_min"]), 3),
            markup.number(float(s["ess_tail_min"]), 3),
        ]
        for name, s in group.items()
    ]
    return markup.table(caption, [c.format(**limits) for c in _COLUMNS], rows)


def _worst(group: Any, *, folded: bool = True) -> str:
    rows = sorted(
        ((w["name"], w["value"]) for s in group.values() for w in s["worst"]),
        key=lambda pair: -pair[1],
    )[:8]
    if not rows:
        return ""
    cells = [(name, markup.number(value)) for name, value in rows]
    made = markup.folded_table if folded else markup.table
    return made("The largest R-hats", ["", "R-hat"], cells)


def _histogram(groups: dict[str, np.ndarray], name: str) -> str:
    shares = "; ".join(
        f"{group}: {markup.share(float(np.mean(v < 1.01)))} below 1.01"
        for group, v in groups.items()
    )
    return figure(plot_rhat(groups), name, f"Histograms of R-hat on a logarithmic axis. {shares}.")
