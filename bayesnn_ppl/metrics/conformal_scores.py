"""Conformal intervals and sets of classes, as `evaluate` and `compare` score them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesnn_ppl.conformal import Calibrated
from bayesnn_ppl.conformal.calibrated import rows_needed
from bayesnn_ppl.conformal.calibrating import repeated
from bayesnn_ppl.core.predictions import Predicted, class_labels, exact_targets
from bayesnn_ppl.metrics.scores import interval_coverage, interval_width


def check_calibration(
    calibration: Any, x: Any, y: Any, levels: Sequence[float], *, recorded: bool = False
) -> None:
    """Refuse calibration rows that cannot calibrate these levels for these rows.

    Args:
        calibration: rows `(x, y)`, or a `Calibrated`.
        x, y: the rows that are scored.
        levels: of the intervals or sets.
        recorded: x and y are not given, and what the run kept there is scored.

    Raises:
        ValueError: there is no level, or too few rows for one; inputs and targets differ in number;
            the rows are scored too; or what was recorded is scored.
        TypeError: `calibration` is neither rows nor a `Calibrated`.
    """
    if recorded:
        raise ValueError(
            "With `calibration` the model has to predict, and what a run kept at its probe inputs "
            "is not enough: give `x` and `y`, and the model; in a shell `--model FILE.py:NAME`."
        )
    if not levels:
        raise ValueError(
            "`calibration` is given, but `intervals` has no level of an interval or set: give "
            "`intervals=(0.9,)`, or no calibration."
        )
    if isinstance(calibration, Calibrated):
        parts = [part.given for part in calibration.parts]
    else:
        parts = [pair(calibration)]
    rows = sum(len(part[1]) for part in parts)
    highest = max(levels)
    if rows < rows_needed(highest):
        raise ValueError(
            f"`calibration` has {rows} rows, but level {highest:g} needs {rows_needed(highest)}: "
            "with fewer its intervals are infinite and its sets have all classes. Give more rows; "
            "in Python `evaluate` has lower levels, `intervals=`."
        )
    again = sum(repeated((x, y), part) for part in parts)
    scored = sum(repeated(part, (x, y)) for part in parts)
    if 2 * again > rows or 2 * scored > len(y):
        raise ValueError(
            f"{again} of the {rows} calibration rows are among the {len(y)} that are scored. "
            "Intervals hold the rows that they were calibrated on, so their coverage would say "
            "nothing of new ones. Calibrate with other rows, or score others."
        )


def pair(calibration: Any) -> tuple[Any, Any]:
    """Inputs and targets of calibration rows.

    Raises:
        TypeError: `calibration` is not rows.
        ValueError: inputs or targets are missing, or they differ in number.
    """
    try:
        x, y = calibration
    except (TypeError, ValueError):
        raise TypeError(
            f"`calibration` is {type(calibration).__name__}, but must be rows `(x, y)`, such as a "
            "part of `data.test`. Only `evaluate` takes what `conformal.split` or `cross` returned."
        ) from None
    if x is None or y is None or len(x) != len(y):
        counts = " and ".join("none" if part is None else str(len(part)) for part in (x, y))
        raise ValueError(
            f"`calibration` needs inputs and targets of the same rows, but has {counts}."
        )
    return x, y


def scores_by_level(
    calibrated: Calibrated, posterior: Any, prediction: Any, x: Any, y: Any, levels: Sequence[float]
) -> dict[str, float]:
    """Coverage and mean width of intervals, or mean size of sets, of each level.

    Args:
        calibrated: of this posterior; or of others, which predict at x.
        posterior, prediction: what is scored, and its predictions at x.
        x, y: the rows, in the units of training.
        levels: inside (0, 1).

    Raises:
        ValueError: a target is censored or masked.
    """
    # Each posterior predicts once for all levels.
    known = replace(
        calibrated,
        parts=tuple(
            part._replace(
                posterior=Predicted(
                    prediction if part.posterior is posterior else part.posterior.predict(x)
                )
            )
            for part in calibrated.parts
        ),
    )
    scores = {}
    if prediction.task == "classification":
        labels = class_labels(y, prediction.probabilities)
        for level in levels:
            sets = known.sets(x, level)
            scores[f"set_coverage_{100 * level:g}"] = float(
                sets[np.arange(len(labels)), labels].mean()
            )
            scores[f"set_size_{100 * level:g}"] = float(sets.sum(axis=1).mean())
        return scores
    target, exact = exact_targets(prediction, y, np.shape(prediction.mean))
    if not exact.all():
        raise ValueError(
            f"{int((~exact).sum())} targets of the scored rows are censored or masked, so nothing "
            "says whether they lie inside a conformal interval. Score rows without them, or leave "
            "`calibration` out."
        )
    target = target.reshape(exact.shape)
    for level in levels:
        lower, upper = np.moveaxis(known.interval(x, level), -1, 0)
        scores[f"conformal_coverage_{100 * level:g}"] = interval_coverage(lower, upper, target)
        scores[f"conformal_width_{100 * level:g}"] = interval_width(lower, upper)
    return scores
