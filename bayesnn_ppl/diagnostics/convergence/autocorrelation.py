"""Autocorrelation times, and effective samples for what they cost."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.diagnostics.convergence.measures import convergence_summary

__all__ = ["autocorrelation_time", "effective_sample_size", "ess_per_gradient"]


def effective_sample_size(draws: ArrayLike) -> Any:
    """Independent draws that would estimate the mean as well: (sd / MCSE)².

    That of the raw values; `ess_bulk` is that of their ranks, which heavy tails leave alone.

    Args:
        draws: shape (chain, draw, ...).

    Returns:
        Array of the trailing shape; the number of draws for a constant.

    Raises:
        ValueError, TypeError: as `rhat`.
    """
    values = np.asarray(draws)
    found = convergence_summary(values)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ess = (found.sd / found.mcse_mean) ** 2
    return np.where(found.sd == 0, float(values.shape[0] * values.shape[1]), ess)[()]


def autocorrelation_time(draws: ArrayLike) -> Any:
    """Integrated autocorrelation time τ = 1 + 2 Σ ρ_k, in draws: all draws over the effective ones.

    Chains that disagree lengthen it. It is 1 for independent draws and below 1 for draws that
    alternate.

    Args:
        draws: shape (chain, draw, ...).

    Returns:
        Array of the trailing shape.

    Raises:
        ValueError, TypeError: as `rhat`.
    """
    values = np.asarray(draws)
    return values.shape[0] * values.shape[1] / effective_sample_size(values)


def ess_per_gradient(draws: ArrayLike, gradients: ArrayLike) -> Any:
    """Effective sample size over the gradients of all chains: what a sampler gives for its work.

    A minibatch gradient counts as one; multiply by B/N to count passes over the data.

    Args:
        draws: shape (chain, draw, ...), best function values.
        gradients: how many were computed for these draws, a total, or (chain, draw), as the
            statistic `n_steps` has them.

    Returns:
        Array of the trailing shape.

    Raises:
        ValueError: there is no gradient to divide by; and as `rhat`.
    """
    total = float(np.sum(np.asarray(gradients, dtype=float)))
    if not (np.isfinite(total) and total > 0):
        raise ValueError(f"`gradients` come to {total:g}; a positive number is needed.")
    return effective_sample_size(draws) / total
