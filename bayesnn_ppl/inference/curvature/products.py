r"""The generalised Gauss-Newton matrix M = Σ_n J_nᵀ J_n, dense, its diagonal, and its products.

J_n = ∂u_n/∂t are rows of derivatives of `LocalProgram.outputs`; coordinates t are in units of the
prior's standard deviations, so the posterior's precision is M + 1. Only reverse-mode derivatives
are taken: `nn.Conv` has no others.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.curvature.local import LocalProgram, Point, Rows

__all__ = ["curvature_blocks", "curvature_diagonal", "curvature_product", "jacobian"]


def jacobian(local: LocalProgram, point: Point, x: Any) -> Any:
    """J of each row, shape (B, R, d)."""

    def of_row(row: Any) -> Any:
        origin = jnp.zeros_like(point.centre)
        return jax.jacrev(lambda t: local.outputs(t, point, row[None])[0])(origin)

    return jax.vmap(of_row)(x)


@partial(jax.jit, static_argnames=("local", "parts"))
def curvature_blocks(
    local: LocalProgram, point: Point, rows: Rows, parts: tuple[tuple[int, int], ...]
) -> tuple[Any, ...]:
    """The blocks (begin, end) of M on its diagonal, each of shape (end - begin,)²."""

    def add(blocks: Any, chunk: Any) -> Any:
        x, weight = chunk
        rows_of = jacobian(local, point, x) * weight[:, None, None]
        flat = rows_of.reshape(-1, local.dimension)
        return tuple(
            block + flat[:, begin:end].T @ flat[:, begin:end]
            for block, (begin, end) in zip(blocks, parts, strict=True)
        ), None

    zeros = tuple(jnp.zeros((end - begin,) * 2, point.centre.dtype) for begin, end in parts)
    return jax.lax.scan(add, zeros, rows)[0]


@partial(jax.jit, static_argnames="local")
def curvature_diagonal(local: LocalProgram, point: Point, rows: Rows) -> Any:
    """The diagonal of M, shape (d,)."""

    def add(total: Any, chunk: Any) -> Any:
        x, weight = chunk
        square = jnp.square(jacobian(local, point, x)).sum(1)
        return total + weight @ square, None

    return jax.lax.scan(add, jnp.zeros_like(point.centre), rows)[0]


@partial(jax.jit, static_argnames="local")
def curvature_product(local: LocalProgram, point: Point, rows: Rows, vectors: Any) -> Any:
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
