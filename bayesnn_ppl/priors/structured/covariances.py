"""Covariance matrices as a caller gives them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def cholesky_of(matrix: Any, what: str) -> Any:
    """The lower Cholesky factor L of Σ = L Lᵀ, or an error that says what is wrong with Σ.

    A matrix that is known only when the model runs, because the prior samples parts of it, is
    factored there and not checked.
    """
    if isinstance(matrix, jax.core.Tracer):
        return jnp.linalg.cholesky(matrix)
    sigma = _square(matrix, what)
    scale = np.sqrt(np.abs(np.diag(sigma)))
    if not np.allclose(sigma, sigma.T, rtol=1e-4, atol=1e-5 * float(scale.max()) ** 2):
        raise ValueError(f"{what} must be symmetric: it differs from its transpose.")
    try:
        return np.linalg.cholesky((sigma + sigma.T) / 2)
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(sigma)[0])
        raise ValueError(
            f"{what} is not positive definite: its smallest eigenvalue is {least:.3g}. Add a "
            "small multiple of the identity."
        ) from None


def lower_triangle(matrix: Any, what: str) -> np.ndarray:
    """A lower triangular matrix of positive diagonal, or an error that says what is wrong."""
    factor = _square(matrix, what)
    if np.any(np.triu(factor, 1)) or np.any(np.diag(factor) <= 0):
        raise ValueError(
            f"{what} must be lower triangular with a positive diagonal, as "
            "`numpy.linalg.cholesky` returns it."
        )
    return factor


def _square(matrix: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a matrix of numbers, not {matrix!r}.") from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ValueError(f"{what} must be a square matrix, but its shape is {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} has entries that are not finite.")
    return array
