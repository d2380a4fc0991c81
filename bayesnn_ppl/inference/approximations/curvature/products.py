r"""The generalised Gauss-Newton matrix M = Σ_n J_nᵀ J_n, dense, its diagonal, and its products.

J_n = ∂u_n/∂t are rows of derivatives of `LocalModel.outputs`; coordinates t are in units of the
prior's standard deviations, so the posterior's precision is M + 1. Only reverse-mode derivatives
are taken: `nn.Conv` has no others.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, Point, Rows

__all__ = ["curvature_diagonal", "curvature_product", "curvature_roots", "jacobian", "root_of"]

_ROUNDING = 1e-12  # of a sum in double precision, with room


def jacobian(local: LocalModel, point: Point, x: Any) -> Any:
    """J of each row, shape (B, R, d)."""

    def of_row(row: Any) -> Any:
        origin = jnp.zeros_like(point.centre)
        return jax.jacrev(lambda t: local.outputs(t, point, row[None])[0])(origin)

    return jax.vmap(of_row)(x)


def curvature_roots(
    local: LocalModel, point: Point, rows: Rows, parts: tuple[tuple[int, int], ...]
) -> tuple[Any, ...]:
    """Roots R of the blocks (begin, end) of M on its diagonal, M = RᵀR, each (end - begin,)².

    The sum is taken in double precision on the host: where the largest eigenvalue is beyond 1e7,
    single precision would leave negative ones, and the posterior no precision.
    """
    totals = [np.zeros((end - begin,) * 2) for begin, end in parts]
    for chunk in zip(*rows, strict=True):
        flat = np.asarray(_weighted_jacobian(local, point, *chunk), np.float64)
        for total, (begin, end) in zip(totals, parts, strict=True):
            total += flat[:, begin:end].T @ flat[:, begin:end]
    return tuple(jnp.asarray(root_of(total), point.centre.dtype) for total in totals)


@partial(jax.jit, static_argnames="local")
def _weighted_jacobian(local: LocalModel, point: Point, x: Any, weight: Any) -> Any:
    rows_of = jacobian(local, point, x) * weight[:, None, None]
    return rows_of.reshape(-1, local.dimension)


def root_of(matrix: np.ndarray) -> np.ndarray:
    """R of M = RᵀR, M positive semi-definite but for rounding."""
    largest = np.diag(matrix).max(initial=0.0)
    if not np.isfinite(largest):
        return np.full_like(matrix, np.nan)
    if not largest:
        return matrix
    return np.linalg.cholesky(matrix + _ROUNDING * largest * np.eye(len(matrix))).T


@partial(jax.jit, static_argnames="local")
def curvature_diagonal(local: LocalModel, point: Point, rows: Rows) -> Any:
    """The diagonal of M, shape (d,)."""

    def add(total: Any, chunk: Any) -> Any:
        x, weight = chunk
        square = jnp.square(jacobian(local, point, x)).sum(1)
        return total + weight @ square, None

    return jax.lax.scan(add, jnp.zeros_like(point.centre), rows)[0]


@partial(jax.jit, static_argnames="local")
def curvature_product(local: LocalModel, point: Point, rows: Rows, vectors: Any) -> Any:
    """M v for each v of `vectors` (K, d), without M."""
    origin = jnp.zeros_like(point.centre)

    def add(total: Any, chunk: Any) -> Any:
        x, weight = chunk
        u, back = jax.vjp(lambda t: local.outputs(t, point, x), origin)
        # back is linear, and its transpose is J: the derivative of a derivative, for want of jvp.
        _, forward = jax.vjp(lambda c: back(c)[0], jnp.zeros_like(u))

        def product(vector: Any) -> Any:
            return back(forward(vector)[0] * weight[:, None])[0]

        return total + jax.lax.map(product, vectors), None

    return jax.lax.scan(add, jnp.zeros_like(vectors), rows)[0]
