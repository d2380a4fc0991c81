"""Several runs on the same rows: which predicts best, and how near are they to each other?"""

from typing import Any

from bayesnn_ppl.metrics import compare
from bayesnn_ppl.plots import plot_comparison
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure


def comparison_section(subjects: list[Subject], reference: str | None) -> str:
    """The table and the forest plot of `metrics.compare`; nothing for one run."""
    if len(subjects) < 2:
        return ""
    first = subjects[0]
    everywhere = all(not s.at_probe for s in subjects)
    x, y = (first.x, first.y) if everywhere else (None, None)
    calibration = first.calibration if everywhere else None
    posteriors = {s.name: s.posterior for s in subjects}
    try:
        found = compare(
            posteriors, x, y, reference=reference, calibration=calibration, diagnose=False
        )
    except ValueError as error:
        return markup.paragraph(f"These runs cannot be scored together. {error}")
    shown = [n for n in found.columns if not n.endswith("_se")]
    rows = [
        [name, *(_cell(line[column], line.get(f"{column}_se")) for column in shown)]
        for name, line in found.lines.items()
    ]
    header = ["run", *(n.replace("_", " ") for n in shown)]
    kind = f"distances to the run {found.reference}" if found.reference else "the best first"
    table = markup.table(f"{found.rows} rows, {kind}", header, rows, words=(1,))
    return markup.columns(table, _drawn(found, first.unit))


def comparison_figure(found: Any, unit: str | None) -> Any:
    """The forest plot of what `metrics.compare` found.

    Args:
        found: of `metrics.compare`.
        unit: of the target, for distances; None for none.
    """

    def column(name: str) -> list[Any]:
        return [line[name] for line in found.lines.values()]

    distance, label = None, ""
    if found.reference is not None:
        labels = found.task == "classification"
        distance = column("total_variation" if labels else "wasserstein")
        kind = (
            "total variation" if labels else "Wasserstein distance" + (f" [{unit}]" if unit else "")
        )
        label = f"{kind} to the run {found.reference}"
    return plot_comparison(
        list(found.lines),
        column("nll"),
        column("nll_se"),
        difference_error=column("nll_difference_se"),
        distance=distance,
        distance_label=label,
        reference=found.reference,
    )


def _drawn(found: Any, unit: str | None) -> str:
    try:
        plot = comparison_figure(found, unit)
    except ValueError as error:
        return markup.note(f"No figure: {error}")
    best = next(iter(found.lines))
    return figure(
        plot,
        "comparison-forest",
        f"Negative log likelihoods of {len(found.lines)} runs with intervals; the run "
        f"{best} has the least.",
        "Circles: each run with its 95 % interval. Triangles: its difference to the least, whose "
        "interval is narrower, since all runs share their rows.",
    )


def _cell(value: Any, error: Any) -> str:
    if value is None or isinstance(value, str):
        return value or "–"
    number = markup.number(float(value))
    return number if error is None else f"{number} ± {markup.number(float(error), 3)}"
