"""How close two predictive distributions are, for fidelity to a reference such as HMC.

References:
    Izmailov et al. (2021), What are Bayesian neural network posteriors really like?
    arXiv:2104.14421, section 6.
"""

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.metrics.checks import class_probabilities, same_shape


def agreement(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Share of rows on which both predict the same class, mean 1[argmax p = argmax q].

    Args:
        probabilities, reference: averaged probabilities of one shape (..., K).

    Raises:
        ValueError: shapes differ, or they are no probabilities.
    """
    p = class_probabilities(probabilities)
    q = class_probabilities(reference, "reference")
    same_shape(probabilities=p, reference=q)
    if np.isnan(p).any() or np.isnan(q).any():
        return float("nan")
    return float(np.mean(p.argmax(axis=-1) == q.argmax(axis=-1)))


def total_variation(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Mean total variation distance, mean ½ sum_k |p_k - q_k|, between 0 and 1.

    Args:
        probabilities, reference: averaged probabilities of one shape (..., K).

    Raises:
        ValueError: shapes differ, or they are no probabilities.
    """
    p = class_probabilities(probabilities).astype(np.float64)
    q = class_probabilities(reference, "reference").astype(np.float64)
    same_shape(probabilities=p, reference=q)
    return float(np.mean(0.5 * np.abs(p - q).sum(axis=-1)))
