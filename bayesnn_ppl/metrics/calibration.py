"""Expected calibration error in its published variants, which are not comparable, and its bins.

All bins are half-open, (lower, upper], and the first one holds its lower edge too: a confidence
of exactly 1, of exactly 0 or exactly on an edge falls into exactly one bin. (Strict inequalities
at both edges, as one published implementation has, drop the confident predictions.)

References:
    Naeini, Cooper, Hauskrecht (2015), Obtaining well calibrated probabilities using Bayesian
    binning, AAAI. Guo et al. (2017), arXiv:1706.04599.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.core.predictions import class_labels, class_probabilities

type Binning = Literal["equal_mass", "equal_width"]
type Variant = Literal["bnn_hmc", "tfp", "bnn_priors"]

VARIANTS: dict[Variant, tuple[Binning, int]] = {
    "bnn_hmc": ("equal_mass", 20),
    "tfp": ("equal_width", 10),
    "bnn_priors": ("equal_width", 30),
}


@readable
class Reliability(NamedTuple):
    """Bins of a reliability diagram, each an array (bins,).

    `lower` and `upper` edges; mean `confidence`, `accuracy` and number of `rows` of those in
    (lower, upper]; the two means are NaN in an empty bin.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    rows: NDArray[np.int64]


def reliability(
    probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 20, binning: Binning = "equal_mass"
) -> Reliability:
    """Confidence (largest probability) against accuracy, in bins of confidence.

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).
        bins: their number; at most that many when equal-mass bins outnumber the predictions.
        binning: "equal_width" cuts [0, 1] evenly; "equal_mass" cuts at every ceil(N / bins)-th
            order statistic, so that each bin but the last holds as many predictions, up to ties.

    Raises:
        ValueError: shapes do not fit, probabilities do not sum to 1, a label is out of range,
            probabilities are NaN, `bins` is not positive, `binning` is unknown.
        TypeError: labels are not integers.
    """
    p = class_probabilities(probabilities)
    y = class_labels(labels, p)
    if bins < 1:
        raise ValueError(f"`bins` is {bins}, but at least one bin is needed.")
    confidence = p.max(axis=-1).ravel()
    correct = (p.argmax(axis=-1) == y).ravel()
    if np.isnan(confidence).any():
        raise ValueError(
            "`probabilities` holds NaN, which belongs to no bin of confidence. Find out why the "
            "prediction is not a number before judging its calibration."
        )
    if binning == "equal_width":
        # k / bins is the double nearest to an edge such as 0.3; in the confidence's own precision
        # a float32 0.3 lies on it too.
        edges = (np.arange(bins + 1) / bins).astype(confidence.dtype)
        # Rounding may take a float32 sum of one a little above 1.
        confidence = np.minimum(confidence, edges[-1])
    elif binning == "equal_mass":
        ordered = np.sort(confidence)
        edges = np.append(ordered[:: -(-ordered.size // bins)], ordered[-1])
    else:
        raise ValueError(f"`binning` is {binning!r}, but must be 'equal_mass' or 'equal_width'.")
    total = len(edges) - 1
    member = np.maximum(np.searchsorted(edges, confidence, side="left") - 1, 0)
    count = np.bincount(member, minlength=total)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(member, confidence, minlength=total) / count
        right = np.bincount(member, correct, minlength=total) / count
    return Reliability(edges[:-1].astype(float), edges[1:].astype(float), mean, right, count)


def ece_equal_mass(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 20) -> float:
    """Expected calibration error, sum_b (n_b / N) |accuracy_b - confidence_b|, equal-mass bins.

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).
        bins: their number.

    Raises:
        ValueError, TypeError: as `reliability`, but NaN probabilities give NaN.
    """
    return _error(probabilities, labels, "equal_mass", bins)


def ece_equal_width(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 10) -> float:
    """Expected calibration error, sum_b (n_b / N) |accuracy_b - confidence_b|, equal-width bins.

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).
        bins: their number.

    Raises:
        ValueError, TypeError: as `reliability`.
    """
    return _error(probabilities, labels, "equal_width", bins)


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, *, variant: Variant
) -> float:
    """Expected calibration error as a named code base reports it.

    Args:
        probabilities: (..., K), averaged over draws.
        labels: class numbers of shape (...).
        variant: "bnn_hmc" (20 equal-mass bins), "tfp" (10 equal-width bins) or "bnn_priors"
            (30 equal-width bins). Numbers of different variants must not be compared.

    Raises:
        ValueError: the variant is unknown; else as `reliability`.
    """
    require_variant(variant)
    return _error(probabilities, labels, *VARIANTS[variant])


def require_variant(variant: str) -> None:
    """Raise ValueError unless it is the name of one of `VARIANTS`."""
    if variant not in VARIANTS:
        raise ValueError(f"`variant` is {variant!r}, but must be one of {', '.join(VARIANTS)}.")


def _error(probabilities: ArrayLike, labels: ArrayLike, binning: Binning, bins: int) -> float:
    p = class_probabilities(probabilities)
    if np.isnan(p).any():
        return float("nan")
    curve = reliability(p, labels, bins=bins, binning=binning)
    full = curve.rows > 0
    gaps = np.abs(curve.accuracy[full] - curve.confidence[full])
    return float(np.sum(curve.rows[full] * gaps) / curve.rows.sum())
