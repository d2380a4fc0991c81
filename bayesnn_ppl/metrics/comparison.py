"""Several posteriors scored on the same rows: which predicts best, and how near are they?"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl import references
from bayesnn_ppl.conformal import split
from bayesnn_ppl.core.arguments import integer, near_misses, strict_switches
from bayesnn_ppl.core.predictions import Predicted, log_scores, same_rows, scored_rows
from bayesnn_ppl.metrics.calibration import Variant, require_variant
from bayesnn_ppl.metrics.conformal_scores import check_calibration, pair, scores_by_level
from bayesnn_ppl.metrics.evaluation import evaluate
from bayesnn_ppl.metrics.evidence import log_evidence
from bayesnn_ppl.metrics.score_tables import Comparison

_LEVELS = (0.9,)  # of the conformal intervals and sets


@strict_switches
def compare(
    posteriors: Mapping[str, Any],
    x: Any = None,
    y: Any = None,
    *,
    reference: Any = None,
    calibration: Any = None,
    samples: int = 1000,
    variant: Variant = "bnn_hmc",
    diagnose: bool = True,
) -> Comparison:
    """Score posteriors on the same held-out rows, with errors of their differences.

    Columns: `method`; `nll`, the mean negative log score of a row, with `nll_se`, and
    `nll_difference` to the best with `nll_difference_se`, which is that of the mean of the rows'
    differences and so leaves out what is hard about a row for all; for labels `accuracy` and
    `ece_<variant>`, for numbers `rmse` and `crps`; `aurc`, as `evaluate` has it; with a reference
    `agreement` and `total_variation`, or `wasserstein`, in the data's units; with calibration rows
    `conformal_width_90` and `conformal_coverage_90`, or `set_size_90` and `set_coverage_90`: of
    equal coverage the narrower interval or smaller set is better; `log_evidence`, of methods that
    estimate it; `seconds` in all, compilation included; and `status`, the verdict of `diagnose` at
    these rows, or "a selection" of draws by `Posterior.compress`. Errors are of the rows: the
    draws' own are not in them.

    Args:
        posteriors: name -> posterior, of one kind of target in one unit.
        x: inputs, leading axis N. Without x and y, the probe inputs that all runs kept. If the
            model or the weights of a posterior are missing, its probe inputs must be these rows,
            and what was kept there is scored.
        y: targets in the training units, leading axis N.
        reference: the name of one of the posteriors, or of a reference posterior
            (`references.names()`) at whose test rows they are compared; or what `evaluate` takes:
            another posterior, or class probabilities.
        calibration: rows `(x, y)` that trained none of the posteriors and are not those of `x`,
            with which each is calibrated, as by `conformal.split`.
        samples: predictive samples behind CRPS and Wasserstein distance, or as many as the run
            that kept fewest has. Two runs of one posterior are some 1.8 sd / sqrt(samples) apart.
        variant: of the calibration error, as in `expected_calibration_error`.
        diagnose: whether to judge the convergence of each.

    Returns:
        A `Comparison`, ordered by `nll`.

    Raises:
        ValueError: fewer than two posteriors, an unknown reference or variant, a posterior that
            cannot predict at these rows, or targets of different kinds or units; calibration rows
            without `x` and `y`; and as `evaluate`.
        TypeError: the calibration is not rows.
    """
    if len(posteriors) < 2:
        raise ValueError("A comparison needs two posteriors at least; `evaluate` scores one.")
    require_variant(variant)
    samples = integer(samples, "`samples`", at_least=2)
    named = reference if isinstance(reference, str) else "the reference"
    if isinstance(reference, str) and reference not in posteriors:
        if reference not in references.names():
            raise ValueError(
                f"`reference` is {reference!r}, which is not one of the posteriors. "
                + near_misses(reference, [*posteriors, *references.names()])
            )
        reference = references.load(reference)
    kept = x is None and y is None
    x, y = _rows(posteriors, x, y)
    calibrated = {}
    if calibration is not None:
        rows = pair(calibration)
        check_calibration(rows, x, y, _LEVELS, recorded=kept)
        calibrated = {name: split(p, *rows) for name, p in posteriors.items()}
    known = {name: _predicted(name, p, x, y, kept) for name, p in posteriors.items()}
    task = _check_alike(known, y)
    other = known[reference] if isinstance(reference, str) else reference
    if hasattr(other, "predict") and not isinstance(other, Predicted):
        other = _predicted("reference", other, x, y, kept)
    most = [p.prediction for p in (*known.values(), other) if isinstance(p, Predicted)]
    samples = min([samples, *(n for p in most if (n := getattr(p, "most_samples", None)))])
    scored = {name: log_scores(p.prediction, y) for name, p in known.items()}
    each = [scored_rows(p.prediction, y, scored[name]) for name, p in known.items()]
    counted = np.all(each, axis=0)
    scored = {name: scores[counted] for name, scores in scored.items()}
    best = max(scored, key=lambda name: np.nan_to_num(scored[name].mean(), nan=-np.inf))
    lines = {}
    for name, posterior in posteriors.items():
        scores = evaluate(known[name], x, y, reference=other, intervals=(), samples=samples)
        run = getattr(posterior, "provenance", {})
        status = None
        if diagnose and hasattr(posterior, "diagnose"):
            status = "a selection"
            if not run.get("selection"):
                more = known[name].recorded or getattr(posterior, "knows_more_at_probe", False)
                status = posterior.diagnose(None if more else x).status
        lines[name] = {
            "method": run.get("kernel"),
            **_likelihoods(scored[name], scored[best]),
            **_chosen(task, scores, variant),
            **(
                scores_by_level(one, posterior, known[name].prediction, x, y, _LEVELS)
                if (one := calibrated.get(name))
                else {}
            ),
            "log_evidence": _log_evidence(posterior),
            "seconds": run.get("seconds", {}).get("total"),
            "status": status,
        }
    order = sorted(lines, key=lambda name: np.nan_to_num(lines[name]["nll"], nan=np.inf))
    return Comparison(
        task=task,
        rows=int(counted.sum()),
        reference=None if other is None else named,
        lines={name: lines[name] for name in order},
        log_scores={name: scored[name] for name in order},
    )


def _log_evidence(posterior: Any) -> float | None:
    try:
        return log_evidence(posterior).value
    except (AttributeError, ValueError):  # of class probabilities, or another method
        return None


def _rows(posteriors: Mapping[str, Any], x: Any, y: Any) -> tuple[Any, Any]:
    if (x is None) != (y is None):
        raise ValueError("Give `x` and `y` both, or neither to compare at the runs' probe inputs.")
    if x is None:
        # Those that can predict anywhere follow those that cannot.
        ordered = sorted(posteriors.values(), key=_can_predict)
        probes = (_probe(p) for p in ordered)
        found = next((probe for probe in probes if probe[1] is not None), None)
        if found is None:
            raise ValueError(
                "No run kept function values with targets, so `x` and `y` must be given. Runs "
                "sampled with `keep=Keep(probe=(x, y))` need neither."
            )
        x, y = found
    same_rows(x, y)
    return x, y


def _can_predict(posterior: Any) -> bool:
    """Whether model and weights are there."""
    return getattr(posterior, "model", posterior) is not None and (
        getattr(posterior, "has_weights", True)
    )


def _probe(posterior: Any) -> tuple[Any, Any]:
    """Inputs and targets at which function values were kept; None where there are none."""
    return getattr(posterior, "probe", None) or (None, None)


def _predicted(name: str, posterior: Any, x: Any, y: Any, kept: bool) -> Predicted:
    """At x, by the model or, where `kept` or there is none, from what the run kept."""
    able = _can_predict(posterior)
    if able and not kept:
        return Predicted(posterior.predict(x))
    x_kept, y_kept = _probe(posterior)
    if y_kept is not None and np.array_equal(x_kept, x) and np.array_equal(y_kept, y):
        return Predicted(posterior.predict(), recorded=True)
    if able:
        return Predicted(posterior.predict(x))
    missing = "model" if getattr(posterior, "has_weights", True) else "weights"
    other = y_kept is not None
    why = "kept function values at other rows" if other else "kept no function values with targets"
    raise ValueError(
        f"`{name}` has no {missing} to predict these {len(y)} rows with, and {why}. "
        + (
            "Give the model: `load(path, model=...)`, or `--model FILE.py:NAME` in a shell."
            if missing == "model"
            else "Compare at the rows that it kept, or sample with its weights kept."
        )
    )


def _check_alike(known: Mapping[str, Predicted], y: Any) -> str:
    """The task of all; ValueError where tasks, classes or units differ."""
    (first, one), *others = known.items()
    task = one.prediction.task
    for name, other in others:
        if other.prediction.task != task:
            raise ValueError(
                f"`{first}` is of {task} and `{name}` of {other.prediction.task}: they predict "
                "different things and cannot be compared."
            )
        predicted = "mean" if task == "regression" else "probabilities"
        shapes = [np.shape(getattr(p.prediction, predicted)) for p in (one, other)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"`{first}` predicts shape {shapes[0]} at these rows and `{name}` {shapes[1]}: "
                "only predictions of one shape can be compared."
            )
        if task == "regression" and not np.allclose(one.prediction.y(y), other.prediction.y(y)):
            raise ValueError(
                f"`{first}` and `{name}` were trained on targets in different units, so `x` and "
                "`y` cannot suit both. Train both on data standardised alike."
            )
    return task


def _likelihoods(own: NDArray[np.float64], best: NDArray[np.float64]) -> dict[str, float]:
    with np.errstate(invalid="ignore"):  # of infinite scores
        difference = np.where(own == best, 0.0, best - own)
        return {
            "nll": float(-own.mean()),
            "nll_se": _error_of_mean(own),
            "nll_difference": float(difference.mean()),
            "nll_difference_se": _error_of_mean(difference),
        }


def _error_of_mean(each: NDArray[np.float64]) -> float:
    if len(each) < 2 or not np.isfinite(each).all():
        return math.nan
    return float(each.std(ddof=1) / math.sqrt(len(each)))


def _chosen(task: str, scores: Mapping[str, float], variant: Variant) -> dict[str, float | None]:
    names = ["rmse", "crps", "aurc", "reference_wasserstein"]
    if task != "regression":
        names = ["accuracy", "balanced_accuracy", f"ece_{variant}", "aurc"]
        names += ["reference_agreement", "reference_total_variation"]
    return {name.removeprefix("reference_"): scores.get(name) for name in names}
