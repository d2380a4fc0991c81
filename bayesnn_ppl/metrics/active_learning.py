"""Which unlabelled rows to label next: scores of the pool, and the rows that they choose.

References:
    MacKay (1992), Information-based objective functions for active data selection. Houlsby et al.
    (2011), arXiv:1112.5745 (BALD). Gal, Islam and Ghahramani (2017), arXiv:1703.02910.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.metrics.ood import uncertainty

ACQUISITIONS = ("mutual_information", "entropy", "max_probability", "epistemic", "random")


def acquisition(
    prediction: Any, rule: str = "mutual_information", *, seed: int = 0
) -> NDArray[np.float64]:
    r"""How much each row of a pool is worth labelling; the highest first.

    - `mutual_information` of the target and the parameters, I(y; θ | x, D), in nats.
      Of labels it is BALD, H[E p_θ] - E H[p_θ]. Of numbers it is that of a
      Gaussian predictive distribution, ½ log(1 + v_e/v_a) with the variance
      v_e of the mean over draws and that of the noise, v_a.
    - `entropy` of the averaged class probabilities, in nats; labels only.
    - `max_probability`: 1 minus the largest class probability; labels only.
    - `epistemic`: variance of the mean over draws, squared units; of labels, that of the class
      probabilities, summed over classes.
    - `random`: uniform numbers, the control that every rule must beat.

    Where a prediction has several elements (pixels, outputs), theirs are averaged.

    Args:
        prediction: of `Posterior.predict` at the N rows of the pool.
        rule: one of the above.
        seed: of `random`.

    Returns:
        Scores, shape (N,).

    Raises:
        ValueError: the rule is unknown, needs labels that the model does not have, or the mutual
            information of numbers without noise is asked for, which is infinite.
    """
    if rule not in ACQUISITIONS:
        raise ValueError(
            f"`rule` is {rule!r}, but an acquisition is one of {', '.join(ACQUISITIONS)}."
        )
    if rule == "random":
        rows = len(np.asarray(prediction.mean))
        return np.random.default_rng(seed).random(rows)
    if rule == "mutual_information" and prediction.task != "classification":
        return _gaussian_information(prediction)
    return uncertainty(prediction, rule)


def highest(scores: Any, count: int) -> NDArray[np.intp]:
    """The places of the `count` highest scores, the highest first; of equal ones the first.

    Args:
        scores: shape (N,).
        count: how many, 1 to N.

    Raises:
        ValueError: there are not so many, or a score is NaN.
    """
    values = np.asarray(scores, dtype=np.float64)
    count = integer(count, "`count`", at_least=1)
    if values.ndim != 1 or count > values.size:
        raise ValueError(
            f"`scores` has shape {values.shape}, but {count} rows of a vector are to be chosen."
        )
    if np.isnan(values).any():
        raise ValueError(
            f"`scores` holds {int(np.isnan(values).sum())} NaN entries, which have no place in an "
            "order. The posterior predicts no numbers there: look at its diagnosis first."
        )
    return np.argsort(-values, kind="stable")[:count]


def _gaussian_information(prediction: Any) -> NDArray[np.float64]:
    noise = np.asarray(prediction.aleatoric, dtype=np.float64)
    if (noise <= 0).any():
        raise ValueError(
            "The mutual information of a number without noise is infinite. Give the likelihood a "
            "noise, or use rule='epistemic'."
        )
    values = 0.5 * np.log1p(np.asarray(prediction.epistemic, dtype=np.float64) / noise)
    return values.reshape(len(values), -1).mean(axis=1)
