"""All scores of a posterior on held-out data, in the data's units."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesnn_ppl.conformal import Calibrated, split
from bayesnn_ppl.core.predictions import exact_targets, mean_log_score, same_rows
from bayesnn_ppl.metrics.calibration import VARIANTS, expected_calibration_error
from bayesnn_ppl.metrics.class_scores import (
    ClassScore,
    balanced_accuracy,
    base_rate,
    scores_by_class,
)
from bayesnn_ppl.metrics.conformal_scores import check_calibration, scores_by_level
from bayesnn_ppl.metrics.reference import check_reference, reference_scores
from bayesnn_ppl.metrics.referral import referral_curve
from bayesnn_ppl.metrics.score_tables import Evaluation
from bayesnn_ppl.metrics.scores import (
    accuracy,
    brier,
    crps_samples,
    interval_coverage,
    interval_width,
    nll_moment_matched,
    rmse,
)


def evaluate(
    posterior: Any,
    x: Any = None,
    y: Any = None,
    *,
    reference: Any = None,
    calibration: Any = None,
    intervals: Sequence[float] = (0.5, 0.9, 0.95),
    samples: int = 1000,
    class_names: Sequence[str] | None = None,
) -> Evaluation:
    """Score a posterior's predictions at `x` against `y`.

    Regression: `rmse`, `nll_mixture` (exact mixture over draws), `nll_moment_matched`, `crps`
    (fair estimate from predictive samples), `aurc` and `excess_aurc` in squared units, and
    `coverage_XX` and `width_XX` of each central interval. Where y has more axes than rows (several
    outputs, pixels), every score is a mean over elements except `nll_mixture`, which is the joint
    density of a whole row, and the two areas, which rank rows by the means over their elements.
    What the likelihood masks counts in none of them, and what it says is censored in `nll_mixture`
    alone, as a probability: a bound is not a target. Where nothing else is there, that is the one
    score.
    Classification: `accuracy`, and with it what giving all rows the most frequent label has,
    `base_rate`, and the mean over classes, `balanced_accuracy`; `nll`, `brier`, the three published
    calibration errors, `aurc` and `excess_aurc`, and the mean predictive `entropy` and
    `mutual_information`. `by_class` has the recall and precision of each class. The areas under
    the risk-coverage curve are those of `evaluate_referral`.
    With a reference, for labels `reference_agreement` and `reference_total_variation`; for
    numbers `reference_mean_difference`, mean |E y - E' y|, and `reference_wasserstein`, both in
    the data's units.
    With calibration rows, the conformal intervals of each level that they make of the posterior's
    own: `conformal_coverage_XX` and `conformal_width_XX`; for labels `set_coverage_XX` and
    `set_size_XX`, the mean number of classes in a set. Their coverage is the level up to chance
    whatever the model, so a good posterior shows in narrow intervals and small sets.

    Args:
        posterior: an object whose `predict(x)` gives a prediction in the data's units.
        x: inputs, leading axis N. Without x and y, the run is scored at its probe inputs, from what
            it kept there, `sample(..., keep=Keep(probe=(x, y)))`; that needs no model.
            Quantiles and samples are then those of the one predictive sample of each draw.
        y: targets in the training units, leading axis N; scores are in the data's units.
        reference: another posterior, trained on targets in the same units; or averaged class
            probabilities (N, ..., K); or a `Reference` for some of the rows, such as
            `hmc_reference(name)`. Rows are matched by their order.
        calibration: rows `(x, y)` that neither trained the posterior nor are scored, for
            `conformal.split`; or what it or `conformal.cross` returned.
        intervals: probabilities of the central intervals, and of what is calibrated, inside (0, 1).
            Of labels without calibration there are none.
        samples: predictive samples behind the CRPS and the Wasserstein distance (seed 0).
            Regression only.
        class_names: for `by_class`; by default those of the `Dataset` that y, or else the training
            data of the run, are a part of. A class without a name has its number.

    Returns:
        An `Evaluation`.

    Raises:
        ValueError: `intervals` or `samples` out of range, x and y of different lengths, y of
            another shape than the predictions, a prediction of another task, or a reference that
            does not fit the rows, the classes, the task or the units; more names than classes.
            Calibration rows that are too few for a level of `intervals`, are scored too, or are
            refused by `conformal.split`; with them a target that is censored or masked, or no
            `x` and `y`.
        TypeError: the reference is neither a posterior nor numbers, or the calibration not rows.

    Warns:
        UserWarning: most rows of x or y lie far outside those of training.
    """
    for level in intervals:
        if not 0 < level < 1:
            raise ValueError(
                f"`intervals` holds {level}, but the probability of an interval lies inside "
                "(0, 1): write 0.95 for 95 %."
            )
    if samples < 2:
        raise ValueError(f"`samples` is {samples}, but the CRPS needs two or more.")
    recorded = x is None and y is None
    if recorded:
        x, y = _probe(posterior)
    elif x is None or y is None:
        raise ValueError("Give `x` and `y` both, or neither to score the probe inputs of the run.")
    same_rows(x, y)
    if reference is not None:
        check_reference(reference, len(y))
    calibrated = None
    if calibration is not None:
        check_calibration(calibration, x, y, intervals, recorded=recorded)
        calibrated = calibration
        if not isinstance(calibration, Calibrated):
            calibrated = split(posterior, *calibration)
    from bayesnn_ppl.data.new_inputs import warn_targets_outside  # JAX, which scores do without

    prediction = posterior.predict() if recorded else posterior.predict(x)
    warn_targets_outside(y, getattr(posterior, "provenance", None) or {})
    if (most := getattr(prediction, "most_samples", None)) is not None:
        samples = min(samples, most)
    by_class: tuple[ClassScore, ...] = ()
    partial = 0
    if prediction.task == "classification":
        scores = _classification(prediction, y)
        if class_names is None:
            facts = getattr(y, "dataset", None) or {}
            class_names = facts.get("class_names") or getattr(prediction, "class_names", None)
        by_class = scores_by_class(prediction.probabilities, y, class_names)
    elif prediction.task == "regression":
        target, exact = exact_targets(prediction, y, np.shape(prediction.mean))
        partial = int(np.sum(~exact.reshape(len(y), -1).all(axis=1)))
        scores = _regression(prediction, y, target, exact, intervals, samples)
    else:
        raise ValueError(
            f"The prediction's task is {prediction.task!r}, but `evaluate` scores 'regression' "
            "and 'classification'. Use the functions of `metrics` on the prediction's arrays."
        )
    if calibrated is not None:
        scores |= scores_by_level(calibrated, posterior, prediction, x, y, intervals)
    if reference is not None:
        scores |= reference_scores(prediction, reference, x, y, samples)
    return Evaluation(prediction.task, len(y), scores, by_class, partial)


def _probe(posterior: Any) -> tuple[Any, Any]:
    probe = getattr(posterior, "probe", None)
    if probe is None or probe[1] is None:
        raise ValueError(
            "The run kept no function values with targets, so `x` and `y` must be given. A run "
            "sampled with `keep=Keep(probe=(x, y))` needs neither."
        )
    return probe


def _regression(
    prediction: Any, y: Any, target: Any, exact: Any, intervals: Sequence[float], samples: int
) -> dict[str, float]:
    mean = np.asarray(prediction.mean)
    scores = {"nll_mixture": -mean_log_score(prediction, y)}
    if not exact.any():
        return scores
    mean, variance = mean[exact], np.asarray(prediction.variance)[exact]
    scores = {
        "rmse": rmse(mean, target),
        **scores,
        "nll_moment_matched": nll_moment_matched(mean, variance, target),
        "crps": crps_samples(prediction.samples(samples, seed=0)[:, exact], target),
        **_selective(prediction, y),
    }
    for level in intervals:
        lower = prediction.quantile((1 - level) / 2)[exact]
        upper = prediction.quantile((1 + level) / 2)[exact]
        scores[f"coverage_{100 * level:g}"] = interval_coverage(lower, upper, target)
        scores[f"width_{100 * level:g}"] = interval_width(lower, upper)
    return scores


def _selective(prediction: Any, y: Any) -> dict[str, float]:
    curve = referral_curve(prediction, y)
    return {"aurc": curve.aurc, "excess_aurc": curve.excess_aurc}


def _classification(prediction: Any, y: Any) -> dict[str, float]:
    probabilities = np.asarray(prediction.probabilities)
    scores = {
        "accuracy": accuracy(probabilities, y),
        "base_rate": base_rate(y),
        "balanced_accuracy": balanced_accuracy(probabilities, y),
        "nll": -mean_log_score(prediction, y),
        "brier": brier(probabilities, y),
    }
    for variant in VARIANTS:
        scores[f"ece_{variant}"] = expected_calibration_error(probabilities, y, variant=variant)
    scores |= _selective(prediction, y)
    for name in ("entropy", "mutual_information"):
        values = np.asarray(getattr(prediction, name), dtype=np.float64)
        scores[name] = float(np.mean(values))
    return scores
