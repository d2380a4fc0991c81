"""What is predicted, how sure, and whether the sureness is deserved."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.metrics import ClassScore, reliability
from bayesnn_ppl.metrics.class_scores import class_lines
from bayesnn_ppl.plots import plot_coverage, plot_predicted_observed, plot_reliability
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.class_figures import draw_certainty
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure

_LEVEL = 0.9
_MOST_ROWS = 2000  # of a figure
_MOST_LISTED = 50  # of the table
_MOST_OPEN = 4  # classes of a table that is not folded
_SAMPLES = 4000
_LEVELS = np.linspace(0.05, 0.95, 19)


def scores_section(subject: Subject) -> str:
    """Scores at held-out rows, with what each means; nothing without targets."""
    if subject.prediction is None or subject.scores is None:
        return ""
    scores = subject.scores
    rows = [(n, markup.number(v), scores.meaning(n)) for n, v in scores.items()]
    caption = f"Scores on {scores.rows} held-out rows, in the data's units"
    return markup.table(caption, ["score", "value", "meaning"], rows, words=(2,))


def predictions_section(subject: Subject) -> str:
    """Predictions compared with observations, and calibration."""
    if subject.prediction is None or subject.targets is None:
        return ""
    return _drawn(subject) + _calibrated(subject)


def _calibrated(subject: Subject) -> str:
    """Coverage and width of the posterior's own intervals and of the conformal ones, by level."""
    scores = subject.scores
    if subject.calibration is None or scores is None:
        return ""
    rows = len(subject.calibration[1])
    kinds = {
        "set_coverage": "coverage of the sets",
        "set_size": "mean number of classes in a set",
        "coverage": "own coverage",
        "conformal_coverage": "conformal coverage",
        "width": "own width",
        "conformal_width": "conformal width",
    }
    by_level: dict[str, dict[str, float]] = {}
    for name, value in scores.items():
        kind, _, level = name.rpartition("_")
        if kind in kinds:
            by_level.setdefault(level, {})[kind] = value
    shown = [kind for kind in kinds if kind in next(iter(by_level.values()))]
    return markup.table(
        f"Calibrated on {rows} other rows: whatever the model, the coverage is the level up to "
        "chance",
        ["level", *(kinds[kind] for kind in shown)],
        [
            [f"{level} %", *(markup.number(values[kind]) for kind in shown)]
            for level, values in by_level.items()
        ],
    )


def _drawn(subject: Subject) -> str:
    if subject.prediction.task == "classification":
        return _labels(subject)
    if subject.has_bounds:
        return markup.note(
            "Some targets are censored or masked, so no row is drawn; the scores know which."
        )
    if np.ndim(subject.prediction.mean) == 1:
        return _numbers(subject)
    return markup.note("There are several outputs a row, so no row is drawn.")


def _numbers(subject: Subject) -> str:
    prediction = subject.prediction
    y = np.asarray(prediction.y(subject.targets), dtype=np.float64)
    mean = np.asarray(prediction.mean, dtype=np.float64)
    ends = ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2)
    lower, upper = np.asarray(prediction.quantile(ends), dtype=np.float64)
    # So many rows as a figure can show; the scores are of all.
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), _MOST_ROWS)).astype(int))
    plot = plot_predicted_observed(y[rows], mean[rows], lower[rows], upper[rows], subject.unit)
    inside = (lower <= y) & (y <= upper)
    titles: dict[str, list[str]] = {}
    axis = plot.axes[0]
    chosen = [part for part in (inside[rows], ~inside[rows]) if part.any()]
    for index, part in enumerate(chosen):
        axis.lines[index].set_gid(f"points-{index}")
        titles[f"points-{index}"] = [
            f"row {i}: observed {y[i]:.4g}, predicted {mean[i]:.4g}, "
            f"{_LEVEL:.0%} interval {lower[i]:.4g} to {upper[i]:.4g}"
            for i in rows[part]
        ]
    share = markup.share(float(inside.mean()))
    parts = [
        figure(
            plot,
            f"{subject.key}-predicted",
            f"Predicted against observed: {share} of {len(y)} rows lie inside their 90 % interval.",
            "Point at a row for its numbers; the table below has them too.",
            titles=titles,
        )
    ]
    # Exact quantiles of 38 levels would take as long as all the rest of the page.
    count = min(_SAMPLES, prediction.most_samples or _SAMPLES)
    both = np.concatenate([(1 - _LEVELS) / 2, (1 + _LEVELS) / 2])
    low, high = np.split(np.quantile(prediction.samples(count), both, axis=0), 2)
    empirical = ((low <= y) & (y <= high)).mean(axis=1)
    parts.append(
        figure(
            plot_coverage(_LEVELS, empirical, len(y)),
            f"{subject.key}-coverage",
            f"Share of observations inside intervals of each probability: {share} inside 90 %.",
            "Below the diagonal a posterior is too sure of itself, above it not sure enough. The "
            "band is what chance allows of right intervals.",
        )
    )
    figures = f'<div class="figures">{"".join(parts)}</div>'
    return figures + _listed(subject, y, mean, lower, upper, inside)


def _listed(
    subject: Subject, y: NDArray, mean: NDArray, lower: NDArray, upper: NDArray, inside: NDArray
) -> str:
    order = np.argsort(-np.abs(mean - y), kind="stable")[:_MOST_LISTED]
    aleatoric = np.sqrt(np.asarray(subject.prediction.aleatoric))
    epistemic = np.sqrt(np.asarray(subject.prediction.epistemic))
    rows: list[list[Any]] = [
        [
            int(i),
            *(markup.number(float(v[i])) for v in (y, mean, lower, upper, aleatoric, epistemic)),
            "inside" if inside[i] else "outside",
        ]
        for i in order
    ]
    header = ["row", "observed", "predicted", "5 %", "95 %", "sd noise", "sd model", "interval"]
    count = min(len(y), _MOST_LISTED)
    caption = f"The {count} rows with the largest errors" if count < len(y) else "All rows"
    return markup.folded_table(caption, header, rows, words=(7,))


def _labels(subject: Subject) -> str:
    p = np.asarray(subject.prediction.probabilities, dtype=np.float64)
    labels = np.asarray(subject.targets)
    # Equal widths: of equal masses most would lie at full confidence.
    curve = reliability(p, labels, bins=10, binning="equal_width")
    share = float((p.argmax(-1) == labels).mean())
    drawn = figure(
        plot_reliability(curve),
        f"{subject.key}-reliability",
        f"Accuracy against confidence in bins: {markup.share(share)} of {labels.size} are right.",
        "Bins below the diagonal are too sure of themselves.",
    )
    assert subject.scores is not None  # there are targets
    each = _by_class(subject.scores.by_class)
    words = each + _confusion(subject, p, labels)
    return markup.columns(drawn, words + _certainty(subject, p, labels))


def _certainty(subject: Subject, p: NDArray, labels: NDArray) -> str:
    """How sure the predictions are of rows that they get right and of those that they do not."""
    entropy = np.asarray(subject.prediction.entropy, np.float64)
    if entropy.shape != labels.shape or not np.isfinite(entropy).all():
        return ""
    right = p.argmax(-1) == labels
    means = {
        name: markup.number(float(entropy[part].mean()), 3)
        for name, part in (("right", right), ("wrong", ~right))
        if part.any()
    }
    words = " and ".join(f"{value} nats of rows that are {name}" for name, value in means.items())
    return figure(
        draw_certainty(entropy.ravel(), right.ravel(), p.shape[-1]),
        f"{subject.key}-certainty",
        f"Predictive entropy of right and wrong rows: its mean is {words}.",
        "Wrong rows should lie further to the right, where the predictions are unsure.",
    )


def _by_class(found: Sequence[ClassScore]) -> str:
    """A line for each class, or one sentence where they are many."""
    first, *lines = class_lines(found)
    if not lines:
        return markup.paragraph(f"{first[0].upper()}{first[1:]}.")
    rows = [
        [one.name, *("-" if v is None else markup.share(v) for v in one[2:]), one.rows]
        for one in found
    ]
    return markup.table("Class by class", ["class", "recall", "precision", "rows"], rows)


def _confusion(subject: Subject, p: NDArray, labels: NDArray) -> str:
    classes = p.shape[-1]
    if classes > 20 or labels.ndim != 1:
        return ""
    names = [subject.class_name(k) for k in range(classes)]
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (labels, p.argmax(-1)), 1)
    rows = [[name, *map(int, row)] for name, row in zip(names, counts, strict=True)]
    caption = "How often each class (line) is called which (column)"
    made = markup.table if classes <= _MOST_OPEN else markup.folded_table
    return made(caption, ["class", *names], rows)
