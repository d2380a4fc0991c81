"""Entropies of class probabilities: how uncertain, and how much of it the data could remove.

References:
    Houlsby et al. (2011), Bayesian active learning for classification and preference learning,
    arXiv:1112.5745.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.core.predictions import class_probabilities


@strict_switches
def predictive_entropy(
    probabilities: ArrayLike, *, averaged: bool | None = None
) -> NDArray[np.float64]:
    """Entropy of the averaged class probabilities, -sum_k p_k log p_k, in nats.

    Args:
        probabilities: (S, N, K), averaged over the draws here, or averaged ones (N, K).
        averaged: whether the axis of draws is gone already. Two axes mean yes and three mean no;
            other shapes, such as pixels (S, N, H, W, K), need the word.

    Returns:
        Array (N,), between 0 and log K.

    Raises:
        ValueError: no probabilities, or a shape that does not say whether it has draws.
    """
    p = class_probabilities(probabilities).astype(np.float64)
    if averaged is None:
        if p.ndim > 3:
            raise ValueError(
                f"`probabilities` has shape {p.shape}, which may or may not begin with draws. "
                "Pass averaged=True or averaged=False."
            )
        averaged = p.ndim == 2
    return entr(p if averaged else p.mean(axis=0)).sum(axis=-1)


def mutual_information(probabilities: ArrayLike) -> NDArray[np.float64]:
    """Mutual information of label and parameters (BALD), H[mean_s p_s] - mean_s H[p_s], in nats.

    The epistemic part of the predictive entropy: zero where all draws agree.

    Args:
        probabilities: per draw, (S, N, K) (any axes between draws and classes).

    Returns:
        Array (N,), between 0 and log K.

    Raises:
        ValueError: no probabilities, or no axis of draws.
    """
    p = class_probabilities(probabilities).astype(np.float64)
    if p.ndim < 3:
        raise ValueError(
            f"`probabilities` has shape {p.shape}, but mutual information needs (S, N, K): "
            "averaged probabilities no longer say how far the draws disagree."
        )
    total = entr(p.mean(axis=0)).sum(axis=-1)
    # Rounding may leave a negative zero where all draws agree.
    return np.maximum(total - entr(p).sum(axis=-1).mean(axis=0), 0.0)
