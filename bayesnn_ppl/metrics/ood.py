"""How well a score of each input tells data of another kind from the training distribution's.

The positive class is out-of-distribution throughout, and a larger score means more of it. A NaN
in a score gives NaN, never a number.

References:
    Hendrycks and Gimpel (2017), A baseline for detecting misclassified and out-of-distribution
    examples in neural networks, arXiv:1610.02136.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from bayesnn_ppl.core.predictions import far_inputs_expected, real
from bayesnn_ppl.metrics.score_tables import Evaluation

type Score = Literal["entropy", "mutual_information", "max_probability", "epistemic"]

_SCORES = ("entropy", "mutual_information", "max_probability", "epistemic")


def auroc(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Area under the receiver operating characteristic, P(out > in) + ½ P(out = in).

    That is Mann and Whitney's U / (n m): 1 where every outlier scores above every inlier, ½ where
    the score says nothing, whatever the sizes of the two sets.

    Args:
        scores_in: scores of inputs from the distribution, shape (n,).
        scores_out: scores of the others, shape (m,).

    Raises:
        ValueError: a set is empty or has more than one axis.
        TypeError: scores are not real.
    """
    from sklearn.metrics import roc_auc_score

    return _of_ranks(roc_auc_score, scores_in, scores_out)


def aupr(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Average precision sum_k (R_k - R_k-1) P_k over the thresholds, positive class out.

    A score that says nothing has m / (n + m), so numbers for different shares of outliers cannot
    be compared. Nothing is interpolated: the trapezoidal area would be too large.

    Args:
        scores_in: scores of inputs from the distribution, shape (n,).
        scores_out: scores of the others, shape (m,).

    Raises:
        ValueError, TypeError: as `auroc`.
    """
    from sklearn.metrics import average_precision_score

    return _of_ranks(average_precision_score, scores_in, scores_out)


def fpr_at_95_tpr(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Share of inputs from the distribution called out where 95 % of the others are.

    The threshold is the largest score that at least 95 % of the outliers reach. (Some papers
    exchange the two sets; these numbers differ.)

    Args:
        scores_in: scores of inputs from the distribution, shape (n,).
        scores_out: scores of the others, shape (m,).

    Raises:
        ValueError, TypeError: as `auroc`.
    """
    inside, outside = _scores(scores_in, "scores_in"), _scores(scores_out, "scores_out")
    if np.isnan(inside).any() or np.isnan(outside).any():
        return float("nan")
    # In integers: 0.95 m is not exact.
    caught = -(-95 * outside.size // 100)
    threshold = np.sort(outside)[outside.size - caught]
    return float(np.mean(inside >= threshold))


def evaluate_ood(posterior: Any, x_in: Any, x_out: Any, *, score: Score = "entropy") -> Evaluation:
    """Tell inputs of two kinds apart by the uncertainty of a posterior's predictions.

    Gives `auroc`, `aupr`, `fpr_at_95_tpr` (positive class: out), and the mean scores `mean_in` and
    `mean_out`. Where a prediction has several elements (pixels, outputs), theirs are averaged.

    Args:
        posterior: an object whose `predict(x)` gives a prediction.
        x_in: inputs from the training distribution, leading axis n, in the training units.
        x_out: inputs from elsewhere, leading axis m, put into the same units.
        score: "entropy" of the averaged class probabilities; "mutual_information" of label and
            parameters; "max_probability", 1 minus the largest class probability; or "epistemic",
            the variance of the mean over draws, the only one of a regression (for labels, of the
            class probabilities, summed over classes).

    Returns:
        An `Evaluation` with the task "out-of-distribution by <score>"; its rows count both kinds.

    Raises:
        ValueError: the score is unknown or needs labels that the model does not have, a set of
            inputs is empty, or their rows have different shapes.
    """
    if score not in _SCORES:
        raise ValueError(
            f"`score` is {score!r}, but must be one of {', '.join(map(repr, _SCORES))}."
        )
    shapes = np.shape(x_in), np.shape(x_out)
    if 0 in (len(x_in), len(x_out)) or shapes[0][1:] != shapes[1][1:]:
        raise ValueError(
            f"`x_in` has shape {shapes[0]} and `x_out` {shapes[1]}, but both need at least one row "
            "and rows of one shape. Bring the other data into the form the model was trained on."
        )
    with far_inputs_expected():
        inside, outside = (uncertainty(posterior.predict(x), score) for x in (x_in, x_out))
    return Evaluation(
        f"out-of-distribution by {score}",
        len(inside) + len(outside),
        {
            "auroc": auroc(inside, outside),
            "aupr": aupr(inside, outside),
            "fpr_at_95_tpr": fpr_at_95_tpr(inside, outside),
            "mean_in": float(np.mean(inside)),
            "mean_out": float(np.mean(outside)),
        },
    )


def uncertainty(prediction: Any, score: str) -> NDArray[np.float64]:
    """The score of each row, as `evaluate_ood` and `evaluate_referral` have it, shape (N,)."""
    if score not in ("epistemic", "variance") and prediction.task != "classification":
        raise ValueError(
            f"`score` is {score!r}, but this posterior predicts numbers, which have no class "
            "probabilities. Use score='epistemic'."
        )
    if score == "max_probability":
        values = 1 - np.asarray(prediction.probabilities, dtype=np.float64).max(axis=-1)
    elif score in ("epistemic", "variance"):
        values = np.asarray(getattr(prediction, score), dtype=np.float64)
        if prediction.task == "classification":
            values = values.sum(axis=-1)
    else:
        values = np.asarray(getattr(prediction, score), dtype=np.float64)
    return values.reshape(len(values), -1).mean(axis=1)


def _of_ranks(measure: Any, scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """A measure of scikit-learn, on ranks: the order alone counts, and infinities have one."""
    inside, outside = _scores(scores_in, "scores_in"), _scores(scores_out, "scores_out")
    both = np.concatenate((inside, outside))
    if np.isnan(both).any():
        return float("nan")
    return float(measure(np.arange(both.size) >= inside.size, rankdata(both, method="dense")))


def _scores(value: ArrayLike, name: str) -> NDArray[np.float64]:
    array = real(value, name)
    if array.ndim != 1:
        raise ValueError(
            f"`{name}` has shape {array.shape}, but holds one score for each input: shape (rows,)."
        )
    return array
