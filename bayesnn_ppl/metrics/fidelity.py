"""How close two predictive distributions are, for fidelity to a reference such as HMC.

Labels are compared by agreement and total variation, numbers by the Wasserstein distance.

References:
    Izmailov et al. (2021), What are Bayesian neural network posteriors really like?
    arXiv:2104.14421, section 6.
"""

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.core.predictions import class_probabilities, real, same_shape


def agreement(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Share of rows on which both predict the same class, mean 1[argmax p = argmax q].

    Args:
        probabilities, reference: averaged probabilities of one shape (..., K).

    Raises:
        ValueError: shapes differ, or they are not probabilities.
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
        ValueError: shapes differ, or they are not probabilities.
    """
    p = class_probabilities(probabilities).astype(np.float64)
    q = class_probabilities(reference, "reference").astype(np.float64)
    same_shape(probabilities=p, reference=q)
    return float(np.mean(0.5 * np.abs(p - q).sum(axis=-1)))


def wasserstein(samples: ArrayLike, reference: ArrayLike) -> float:
    r"""Mean 1-Wasserstein distance of predictive samples, element by element, in units of y.

    W = mean_n ∫_0^1 |F_n^{-1}(q) - G_n^{-1}(q)| dq with the empirical quantile functions F^{-1} and
    G^{-1}, which are steps: the integral is exact, over the union of both sets of steps. For
    equally many samples it is mean_i |x_(i) - x'_(i)|. Only marginals are compared, not how the
    elements depend on each other. Two independent sets of S samples of one Gaussian of standard
    deviation s are still 1.8 s / sqrt(S) apart, so smaller distances mean nothing.

    Args:
        samples: predictive samples of y, shape (S, N, ...).
        reference: those of the reference, shape (S', N, ...); S' may differ from S.

    Raises:
        ValueError: the shapes after the first axis differ, or there are no samples.

    References:
        Villani (2009), Optimal Transport: Old and New, chapter 6; Vallender (1974), Theory of
        Probability and its Applications 18(4), for the form on the line.
    """
    x, z = real(samples, "samples"), real(reference, "reference")
    if x.ndim == 0 or x.shape[1:] != z.shape[1:]:
        raise ValueError(
            f"`samples` has shape {x.shape} and `reference` {z.shape}, but after the first axis, "
            "that of the samples, both must have one shape: samples (S, N) and reference (S', N)."
        )
    x, z = np.sort(x, axis=0), np.sort(z, axis=0)
    if len(x) == len(z):
        return float(np.mean(np.abs(x - z)))
    # Steps in units of 1 / (S S'), so that they are integers and ties are exact.
    steps = np.union1d(np.arange(len(x) + 1) * len(z), np.arange(len(z) + 1) * len(x))
    below, width = steps[:-1], np.diff(steps) / (len(x) * len(z))
    distance = np.abs(x[below // len(z)] - z[below // len(x)])
    return float(np.mean(np.tensordot(width, distance, axes=1)))
