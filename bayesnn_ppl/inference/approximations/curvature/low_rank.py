r"""Curvature of low rank: the largest eigenvalues of M, in units of the prior's precision.

P = noise · V diag(e) Vᵀ + diag(factors). With W = diag(factors)^{-1/2} V diag(noise · e)^{1/2}
all that is needed of P costs K³ + d K²: log |P| = Σ log factors + log |1 + WᵀW|.

References:
    Halko, Martinsson and Tropp (2011), arXiv:0909.4061, section 4.5: subspace iteration.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, Point, Rows
from bayesnn_ppl.inference.approximations.curvature.products import curvature_product

__all__ = ["LowRankCurvature", "low_rank_curvature"]

_MORE = 8  # vectors beside those that are kept
_PASSES = 4


class LowRankCurvature(NamedTuple):
    """Eigenvalues (K,), largest first, and eigenvectors (d, K) of M."""

    values: Any
    vectors: Any

    def _scaled(self, factors: Any, noise: Any) -> Any:
        return self.vectors * jnp.sqrt(noise * self.values) / jnp.sqrt(factors)[:, None]

    def log_determinant(self, factors: Any, noise: Any) -> Any:
        """log |P|."""
        w = self._scaled(factors, noise)
        inner = jnp.eye(len(self.values), dtype=w.dtype) + w.T @ w
        return jnp.log(factors).sum() + jnp.linalg.slogdet(inner)[1]

    def solve(self, factors: Any, noise: Any, vector: Any) -> Any:
        """P⁻¹ v."""
        w = self._scaled(factors, noise)
        inner = jnp.eye(len(self.values), dtype=w.dtype) + w.T @ w
        half = vector / jnp.sqrt(factors)
        return (half - w @ jnp.linalg.solve(inner, w.T @ half)) / jnp.sqrt(factors)

    def sample(self, factors: Any, noise: Any, normals: Any) -> Any:
        """Draws (S, d) of N(0, P⁻¹) from standard normals (S, d)."""
        left, singular, _ = jnp.linalg.svd(self._scaled(factors, noise), full_matrices=False)
        shrink = 1 / jnp.sqrt(1 + singular**2) - 1
        return (normals + ((normals @ left) * shrink) @ left.T) / jnp.sqrt(factors)

    def spectrum(self) -> None:
        """None: it has no coordinates in which any factors leave it diagonal."""
        return None

    def covariance(self, factors: Any, noise: Any) -> Any:
        """P⁻¹, (d, d)."""
        w = self._scaled(factors, noise)
        inner = jnp.eye(len(self.values), dtype=w.dtype) + w.T @ w
        root = 1 / jnp.sqrt(factors)
        return jnp.diag(1 / factors) - (root[:, None] * w) @ jnp.linalg.solve(inner, w.T * root)


def low_rank_curvature(
    local: LocalModel, point: Point, rows: Rows, rank: int, seed: int
) -> LowRankCurvature:
    """The `rank` largest eigenpairs, by subspace iteration: (rank + 8) · 5 products with M."""
    dimension = local.dimension
    count = min(rank + _MORE, dimension)
    start = np.random.default_rng(seed).normal(size=(dimension, count)).astype(point.centre.dtype)
    basis = jnp.linalg.qr(jnp.asarray(start))[0]
    for _ in range(_PASSES):
        basis = _orthonormal(curvature_product(local, point, rows, basis.T))
    return _ritz(basis, curvature_product(local, point, rows, basis.T), min(rank, dimension))


@jax.jit
def _orthonormal(products: Any) -> Any:
    return jnp.linalg.qr(products.T)[0]


@partial(jax.jit, static_argnames="rank")
def _ritz(basis: Any, products: Any, rank: int) -> LowRankCurvature:
    inner = basis.T @ products.T
    values, vectors = jnp.linalg.eigh(0.5 * (inner + inner.T))
    largest = slice(None, -rank - 1, -1)
    return LowRankCurvature(jnp.maximum(values[largest], 0.0), (basis @ vectors)[:, largest])
