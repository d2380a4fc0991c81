"""Lower bounds of the evidence from log importance weights."""

import math
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["variational_bound"]


def variational_bound(log_weights: Any, renyi_alpha: float | None) -> Any:
    r"""The evidence lower bound, or Rényi's, of K weights w = p̃(z)/q(z) with z ~ q.

        ELBO  (1/K) Σ log w,        L_α  log[(1/K) Σ w^{1-α}] / (1 - α)

    L_α falls from the log evidence's estimate (α = 0, the importance-weighted bound) to the ELBO
    (α -> 1). Its expectation over K weights grows with K, and lies below the log evidence for
    0 ≤ α < 1.

    Args:
        log_weights: shape (K,).
        renyi_alpha: α ≠ 1, or None for the ELBO.

    Returns:
        A scalar.

    References:
        Li and Turner (2016), arXiv:1602.02311; Burda et al. (2016), arXiv:1509.00519.
    """
    if renyi_alpha is None:
        return jnp.mean(log_weights)
    power = 1.0 - renyi_alpha
    total = jax.scipy.special.logsumexp(power * log_weights) - math.log(log_weights.shape[0])
    return total / power
