"""From posteriors and rows that did not train them to calibrated predictions."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.conformal.calibrated import Calibrated, Part
from bayesnn_ppl.conformal.scores import AdaptiveSets, Quantile, Residual, Score
from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.folds import Fit, deal
from bayesnn_ppl.core.predictions import class_labels, class_probabilities, exact_targets, same_rows

# The usual score of each task.
_USUAL: dict[str, type[Quantile | AdaptiveSets]] = {
    "regression": Quantile,
    "classification": AdaptiveSets,
}


def split(posterior: Any, x: Any, y: Any, *, score: Score | None = None) -> Calibrated:
    """Split-conformal prediction: calibrate the predictions of a posterior on other rows.

    The calibration rows must not have trained the posterior, and the rows to be predicted must be
    exchangeable with them: of one source, in no particular order. Nothing is asked of the model,
    the prior or the sampler; what they are worth shows in the width of the intervals.

    Args:
        posterior: what `sample`, `fit` or `load` returned; or any object whose `predict(x)` gives
            a prediction in the data's units.
        x: calibration inputs (n, ...), prepared as the training inputs were.
        y: their targets in the training units, (n, ...), as those of `data.test`; or labels.
        score: `Quantile()`, the usual one of numbers; `Residual()`; or `AdaptiveSets()` of labels.

    Returns:
        A `Calibrated`, with `interval(x, level)` or `sets(x, level)`.

    Raises:
        ValueError: x and y have different lengths, rows have trained the posterior, the score
            is not one of the task, a target is censored or masked, or rows have more than one
            label.
        TypeError: `score` is not a score.

    References:
        Papadopoulos, Proedrou, Vovk and Gammerman (2002), Inductive confidence machines for
        regression, ECML.
    """
    _check_given(x, y, score)
    _require_untrained(posterior, x, y)
    part = _part(posterior, x, y, score)
    return Calibrated((part,), score or _usual(part.prediction))


def cross(
    fit: Fit, x: Any, y: Any, *, folds: int = 10, seed: int = 0, score: Score | None = None
) -> Calibrated:
    """Cross-conformal prediction (CV+), where rows are too few to set some aside.

    Rows are dealt into folds, labels evenly, and each fold calibrates the posterior of the others.
    So every row trains and calibrates, at the price of K runs for training and for prediction.

    Args:
        fit: `(x, y, seed) -> posterior`, as of `metrics.k_fold`: called with the rows of the other
            folds and with `seed` + number of the fold.
        x, y: all rows; those of y keep the units of `data.load`.
        folds: K, from 2 to the number of rows.
        seed: of folds and fits.
        score: as of `split`.

    Returns:
        A `Calibrated`.

    Raises:
        ValueError: `folds` is out of range; or as `split`.
        TypeError: `fit` cannot be called, or `score` is not a score.

    References:
        Vovk (2015), Cross-conformal predictors, arXiv:1208.0806. Barber, Candès, Ramdas and
        Tibshirani (2021), Predictive inference with the jackknife+, arXiv:1905.02928.
    """
    if not callable(fit):
        raise TypeError(
            f"`fit` must be a function (x, y, seed) -> posterior, not {fit!r}: every fold is "
            "trained from the start. A posterior that is there already is for `split`."
        )
    _check_given(x, y, score)
    x, y = (a if isinstance(a, np.ndarray) else np.asarray(a) for a in (x, y))
    folds = integer(folds, "`folds`", at_least=2, below=len(y) + 1)
    seed = integer(seed, "`seed`", at_least=0)
    member = deal(y, folds, seed)
    parts = []
    for fold in range(folds):
        out = member == fold
        parts.append(_part(fit(x[~out], y[~out], seed + fold), x[out], y[out], score))
    return Calibrated(tuple(parts), score or _usual(parts[0].prediction))


def _check_given(x: Any, y: Any, score: Any) -> None:
    if x is None or y is None:
        raise ValueError(
            "Calibration needs inputs and targets, `x` and `y`, of rows that trained nothing."
        )
    same_rows(x, y)
    if score is not None and not isinstance(score, Quantile | Residual | AdaptiveSets):
        raise TypeError(
            f"`score` is {score!r}, but a score is `Quantile()`, `Residual()` or `AdaptiveSets()` "
            "of `bnn.conformal`."
        )


def _usual(prediction: Any) -> Score:
    return _USUAL[prediction.task]()


def _part(posterior: Any, x: Any, y: Any, score: Score | None) -> Part:
    if not hasattr(posterior, "predict"):
        raise TypeError(
            f"{type(posterior).__name__} has no `predict(x)`, but a posterior is calibrated, as "
            "`sample` or `fit` returns it."
        )
    prediction = posterior.predict(x)
    if score is not None and score.task != prediction.task:
        raise ValueError(
            f"`score` is {score!r}, which is for {score.task}, but the model is of "
            f"{prediction.task}. Use `{_USUAL[prediction.task].__name__}()`."
        )
    if prediction.task == "classification":
        p = class_probabilities(prediction.probabilities)
        if p.ndim != 2:
            raise ValueError(
                f"The class probabilities have shape {p.shape}, but sets are made for rows of one "
                "label, shape (N, K)."
            )
        return Part(posterior, prediction, class_labels(y, p), (x, y))
    target, exact = exact_targets(prediction, y, np.shape(prediction.mean))
    if not exact.all():
        raise ValueError(
            f"{int((~exact).sum())} calibration targets are censored or masked, so nothing says "
            "whether they lie inside an interval. To leave these rows out would calibrate for "
            "others than those that are predicted."
        )
    target = np.asarray(target, np.float64).reshape(exact.shape)
    return Part(posterior, prediction, target, (x, y))


def require_new_rows(training: tuple[Any, Any], x: Any, y: Any) -> None:
    """Refuse calibration rows most of which are among those of training."""
    again = repeated(training, (x, y))
    if 2 * again > len(y):
        raise _trained(f"{again} of the {len(y)} calibration rows trained the posterior")


def _require_untrained(posterior: Any, x: Any, y: Any) -> None:
    """Refuse rows that trained the posterior, as far as it knows them.

    A run in this process has its training rows, and one that was loaded a hash of all of them.
    """
    known = getattr(posterior, "data", None)
    if known is not None:
        require_new_rows(known, x, y)
        return
    hashed = isinstance((getattr(posterior, "provenance", {})).get("data_sha256"), str)
    if hashed and posterior.is_trained_on(x, y):
        raise _trained(f"The {len(y)} calibration rows are those that trained the posterior")


def _trained(what: str) -> ValueError:
    return ValueError(
        f"{what}. It fits them better than new rows, so the intervals would be too narrow. Give "
        "rows that it has not seen, such as a part of `data.test`, or use `cross`."
    )


def repeated(others: tuple[Any, Any], rows: tuple[Any, Any]) -> int:
    """How many of the rows are one of the others, which occurs once among these.

    Rows of few discrete features repeat by chance, so one that the others have twice says nothing.
    """
    counts = Counter(_bytes(*others))
    return sum(counts[row] == 1 for row in _bytes(*rows))


def _bytes(x: Any, y: Any) -> list[bytes]:
    parts: list[NDArray[Any]] = [np.asarray(a, dtype=np.float32) for a in (x, y)]
    table = np.concatenate([a.reshape(len(a), -1) for a in parts], axis=1)
    return [row.tobytes() for row in table]
