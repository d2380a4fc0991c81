"""Selective prediction: how the risk falls where the most uncertain inputs are referred.

An uncertainty ranks the inputs. The most certain are predicted, and the others are referred to
somebody who knows better. The risk is the mean loss of those that are predicted.

References:
    El-Yaniv and Wiener (2010), On the foundations of noise-free selective classification, JMLR 11.
    Geifman, Uziel and El-Yaniv (2019), Bias-reduced uncertainty estimation for deep neural
    classifiers, arXiv:1805.08206 (AURC and its excess).
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.core.predictions import class_labels, exact_targets, log_scores, real, same_rows
from bayesnn_ppl.metrics.ood import uncertainty

type Uncertainty = Literal[
    "entropy", "mutual_information", "max_probability", "epistemic", "variance"
]
type Risk = Literal["error", "squared_error", "nll"]

_UNCERTAINTIES = ("entropy", "mutual_information", "max_probability", "epistemic", "variance")
# Task -> the risks that it has, the usual one first.
_RISKS = {"classification": ("error", "nll"), "regression": ("squared_error", "nll")}


@readable
class Referral(NamedTuple):
    """A rule that refers inputs, and what it does to the rows that it was chosen on.

    Attributes:
        threshold: inputs of a larger uncertainty are referred.
        share: share of the rows that are referred; less than was asked for where uncertainties
            are equal.
        risk: mean loss of the others.
    """

    threshold: float
    share: float
    risk: float


@readable
@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The risk of the k most certain rows, for every k; what `risk_coverage` returns.

    Attributes:
        coverage: share of the rows that are predicted, k / N, shape (N,).
        risk: mean loss of these, shape (N,), in the units of the loss.
        oracle: the same where the rows are ranked by their loss, the best order there is.
        uncertainty: of the k-th most certain row, shape (N,).
    """

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    oracle: NDArray[np.float64]
    uncertainty: NDArray[np.float64]

    @property
    def aurc(self) -> float:
        """Area under the curve, (1/N) sum_k risk_k: the mean risk over all coverages."""
        return float(np.mean(self.risk))

    @property
    def excess_aurc(self) -> float:
        """`aurc` minus that of the oracle: 0 where every loss is larger than all before it.

        A model with fewer errors has a smaller `aurc` whatever its uncertainties are worth. The
        excess is what their order costs. An order that says nothing has the overall risk as its
        `aurc`.
        """
        return float(np.mean(self.risk - self.oracle))

    def refer(self, share: float) -> Referral:
        """The rule that refers a share of such inputs, at most.

        Args:
            share: from 0 to below 1.

        Raises:
            ValueError: the share is outside, or there are NaN uncertainties.
        """
        if not 0 <= share < 1:
            raise ValueError(
                f"`share` is {share}, but the share that is referred is from 0 to below 1: write "
                "0.2 for 20 %."
            )
        if np.isnan(self.uncertainty).any():
            raise ValueError(
                "Some uncertainties are NaN, so rows have no order. The posterior predicts no "
                "numbers there: look at its diagnosis first."
            )
        rows = len(self.coverage)
        kept = rows - int(np.floor(round(share * rows, 9)))
        threshold = self.uncertainty[kept - 1]
        last = int(np.searchsorted(self.uncertainty, threshold, side="right")) - 1
        return Referral(float(threshold), 1 - float(self.coverage[last]), float(self.risk[last]))

    def _figures(self) -> dict[str, Any]:
        return {"rows": len(self.risk), "aurc": self.aurc, "excess_aurc": self.excess_aurc}


def risk_coverage(uncertainty: ArrayLike, risk: ArrayLike) -> RiskCoverage:
    """Mean loss of the k most certain rows, risk_k = (1/k) sum_{i<=k} loss_(i), for k = 1..N.

    Rows of equal uncertainty are taken in random order, so each has the mean loss of all of them.

    Args:
        uncertainty: of each row, shape (N,), larger for rows to be referred first.
        risk: loss of each row, shape (N,): 1 for a wrong label and 0 for a right one, a squared
            error, or a negative log score.

    Returns:
        A `RiskCoverage`; NaN where a row has NaN.

    Raises:
        ValueError: shapes differ, have other than one axis, or are empty.
        TypeError: entries are not real.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> curve = bnn.metrics.risk_coverage([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1])
        >>> curve.risk.round(2).tolist(), round(curve.aurc, 3), curve.excess_aurc
        ([0.0, 0.0, 0.33, 0.5], 0.208, 0.0)
        >>> curve.refer(0.5)
        Referral(threshold=0.2, share=0.5, risk=0)
    """
    u, loss = real(uncertainty, "uncertainty"), real(risk, "risk")
    if u.ndim != 1 or u.shape != loss.shape:
        raise ValueError(
            f"`uncertainty` has shape {u.shape} and `risk` {loss.shape}, but both hold one number "
            "for each row, shape (N,). Take the mean over outputs or pixels first."
        )
    each = np.arange(1, u.size + 1)
    if np.isnan(u).any() or np.isnan(loss).any():
        unknown = np.full(u.size, np.nan)
        return RiskCoverage(each / u.size, unknown, unknown, np.sort(u))
    values, group = np.unique(u, return_inverse=True)
    sizes = np.bincount(group)
    means = np.bincount(group, weights=loss) / sizes
    return RiskCoverage(
        coverage=each / u.size,
        risk=np.cumsum(np.repeat(means, sizes)) / each,
        oracle=np.cumsum(np.sort(loss)) / each,
        uncertainty=np.repeat(values, sizes),
    )


def evaluate_referral(
    posterior: Any,
    x: Any,
    y: Any,
    *,
    score: Uncertainty | None = None,
    risk: Risk | None = None,
) -> RiskCoverage:
    """How much better the predictions are where the most uncertain inputs are referred.

    Where a row has several elements (pixels, outputs), its uncertainty and its loss are means over
    them. Elements that are masked or censored have no error; the NLL knows what is known of them.

    Args:
        posterior: an object whose `predict(x)` gives a prediction.
        x: inputs, leading axis N, in the training units.
        y: targets in the training units, leading axis N.
        score: "max_probability", 1 minus the largest class probability, the default of labels;
            "variance" of the predictive distribution, the default of numbers; "epistemic", its
            part that more data would remove; of labels "entropy" or "mutual_information".
        risk: "error", 1 for a wrong label, the default of labels; "squared_error" of the
            predictive mean, in squared units of the data, the default of numbers; or "nll", the
            negative log score of a row in nats.

    Returns:
        A `RiskCoverage` of the rows.

    Raises:
        ValueError: score or risk are unknown or not those of the task, x and y have different
            lengths, or y has another shape than the predictions.
    """
    if score is not None and score not in _UNCERTAINTIES:
        raise ValueError(
            f"`score` is {score!r}, but must be one of {', '.join(map(repr, _UNCERTAINTIES))}."
        )
    same_rows(x, y)
    return referral_curve(posterior.predict(x), y, score, risk)


def referral_curve(
    prediction: Any, y: Any, score: str | None = None, risk: str | None = None
) -> RiskCoverage:
    """As `evaluate_referral`, of predictions that are made already."""
    risks = _RISKS[prediction.task]
    if risk is not None and risk not in risks:
        raise ValueError(
            f"`risk` is {risk!r}, but that of a {prediction.task} is one of "
            f"{', '.join(map(repr, risks))}."
        )
    labels = prediction.task == "classification"
    loss = risk or risks[0]
    ranks = uncertainty(prediction, score or ("max_probability" if labels else "variance"))
    if loss == "nll":
        return risk_coverage(ranks, -log_scores(prediction, y))
    if labels:
        p = np.asarray(prediction.probabilities)
        wrong = (p.argmax(axis=-1) != class_labels(y, p)).reshape(len(p), -1)
        return risk_coverage(ranks, wrong.mean(axis=1))
    mean = np.asarray(prediction.mean, dtype=np.float64)
    target, exact = exact_targets(prediction, y, mean.shape)
    squares = np.zeros(mean.shape)
    squares[exact] = (mean[exact] - target) ** 2
    counts = exact.reshape(len(mean), -1).sum(axis=1)
    known = counts > 0
    return risk_coverage(
        ranks[known], squares.reshape(len(mean), -1).sum(axis=1)[known] / counts[known]
    )
