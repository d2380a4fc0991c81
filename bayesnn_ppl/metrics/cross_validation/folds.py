"""Cross-validation by refitting: K folds, or each of a few rows left out alone."""

from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.folds import Fit, deal
from bayesnn_ppl.metrics.leave_one_out.left_out_rows import CrossValidation
from bayesnn_ppl.metrics.leave_one_out.pareto_smoothed import LeaveOneOut


@overload
def k_fold(
    fit: Fit, x: Any, y: Any, *, loo: LeaveOneOut, above: float | None = None, seed: int = 0
) -> LeaveOneOut: ...
@overload
def k_fold(fit: Fit, x: Any, y: Any, *, folds: int = 10, seed: int = 0) -> CrossValidation: ...
def k_fold(
    fit: Fit,
    x: Any,
    y: Any,
    *,
    folds: int | None = None,
    loo: LeaveOneOut | None = None,
    above: float | None = None,
    seed: int = 0,
) -> CrossValidation:
    """Log scores of rows by posteriors that never saw them, each trained from the start.

    With `folds`, rows are dealt into K parts at random, labels evenly, and each part is scored by
    the posterior of the others. That is a posterior of fewer rows, so the scores are a little low
    as an estimate for all of them: compare only what was computed with the same folds, which
    `seed` fixes. With `loo`, its rows of bad k̂ are left out one at a time, and their exact scores
    take the place of the estimates.

    Args:
        fit: `(x, y, seed) -> posterior`, called with the rows that are left and with the seed
            `seed` + number of the fold (from 0), or of the row left out. Where these runs are
            long, let it write each to a folder named by that seed, and load those that are there
            already.
        x, y: all training data; rows of y keep the units of `data.load`.
        folds: K, from 2 to the number of rows; 10 if left out.
        loo: what `metrics.loo` returned for the same data.
        above: with `loo`, refit without each row whose k̂ is above this; by default its threshold.
        seed: of folds and fits.

    Returns:
        A `CrossValidation`; with `loo` a `LeaveOneOut`.

    Raises:
        ValueError: `folds` and `loo` are both given, or folds out of range, x and y of different
            lengths, `loo` of another number of rows, or a prediction that is NaN.
        TypeError: `fit` cannot be called, or returns no posterior.
    """
    if not callable(fit):
        raise TypeError(
            f"`fit` must be a function (x, y, seed) -> posterior, not {fit!r}: every fold is "
            "trained from the start."
        )
    x, y = (a if isinstance(a, np.ndarray) else np.asarray(a) for a in (x, y))
    if len(x) != len(y):
        raise ValueError(f"`x` has {len(x)} rows and `y` has {len(y)}: they must be equal.")
    seed = integer(seed, "`seed`", at_least=0)
    if above is not None and (loo is None or not 0 <= above <= loo.threshold):
        limit = "" if loo is None else f", between 0 and its threshold {loo.threshold:.2f}"
        raise ValueError(
            f"`above` is {above!r}: it is a k̂ of `loo`, which must be given{limit}. Rows above the "
            "threshold are refitted in any case."
        )
    if loo is None:
        return _in_folds(fit, x, y, 10 if folds is None else folds, seed)
    if folds is not None:
        raise ValueError("Give `folds`, or `loo` to refit without its bad rows; not both.")
    if loo.rows != len(y):
        raise ValueError(f"`loo` is of {loo.rows} rows, but `y` has {len(y)}.")
    return _refitted(fit, x, y, loo, loo.threshold if above is None else above, seed)


def _in_folds(fit: Fit, x: Any, y: Any, folds: int, seed: int) -> CrossValidation:
    folds = integer(folds, "`folds`", at_least=2, below=len(y) + 1)
    member = deal(y, folds, seed)
    scores = np.empty(len(y))
    for fold in range(folds):
        out = np.flatnonzero(member == fold)
        scores[out] = _scores_without(fit, x, y, out, seed + fold)
    return CrossValidation(
        log_scores=scores,
        method=f"{folds}-fold cross-validation",
        sentence=f"Each score is of a posterior of {100 * (1 - 1 / folds):.0f} % of the rows.",
    )


def _refitted(fit: Fit, x: Any, y: Any, loo: LeaveOneOut, above: float, seed: int) -> LeaveOneOut:
    bad = np.flatnonzero(loo.pareto_k > above)
    if not bad.size:
        return loo
    scores, k = loo.log_scores.copy(), loo.pareto_k.copy()
    error, bias = loo.monte_carlo_error.copy(), loo.tail_bias.copy()
    for row in bad:
        scores[row] = _scores_without(fit, x, y, np.array([row]), seed + int(row))[0]
    k[bad] = error[bad] = bias[bad] = np.nan
    return replace(
        loo,
        log_scores=scores,
        pareto_k=k,
        monte_carlo_error=error,
        tail_bias=bias,
        refitted=bad,
        method=f"{loo.method}, {bad.size} by exact refits",
        sentence=f"The scores of {bad.size} rows are of posteriors trained without them; of all "
        f"others k̂ is at most {above:.2f}.",
    )


def _scores_without(fit: Fit, x: Any, y: Any, out: NDArray[np.intp], seed: int) -> NDArray[Any]:
    kept = np.setdiff1d(np.arange(len(y)), out)
    posterior = fit(x[kept], y[kept], seed)
    if not hasattr(posterior, "predict"):
        raise TypeError(
            f"`fit` returned {type(posterior).__name__}, but a posterior is needed, as `sample` "
            "returns it."
        )
    scores = np.asarray(posterior.predict(x[out]).log_prob(y[out]), dtype=np.float64)
    if np.isnan(scores).any():
        raise ValueError(
            f"The posterior without {len(out)} rows (seed {seed}, first row left out {out[0]}) "
            "predicts NaN. Look at it with `fit` of that seed and `diagnose`."
        )
    return scores
