"""Stein variational gradient descent: the direction in which particles move, arrays alone."""

from typing import Any

import jax.numpy as jnp

__all__ = ["median_bandwidth", "stein_direction"]


def median_bandwidth(squares: Any) -> Any:
    """h = median |θ_i - θ_j|² / log M of squared distances (M, M): all others weigh about 1."""
    count = squares.shape[0]
    pairs = squares[jnp.triu_indices(count, 1)]
    return jnp.maximum(jnp.median(pairs) / jnp.log(count), jnp.finfo(squares.dtype).tiny)


def stein_direction(particles: Any, scores: Any, bandwidth: Any = None) -> Any:
    r"""φ_i = (1/M) Σ_j [ k(θ_j, θ_i) s_j + (2/h) k(θ_j, θ_i) (θ_i - θ_j) ],  k = exp(-|θ - θ'|²/h).

    The first part draws a particle to where the density is higher, the second pushes it away from
    the others; at a fixed point the particles obey Stein's identity for the kernel's functions.

    Args:
        particles: θ, shape (M, d).
        scores: s = ∇ log p(θ), shape (M, d).
        bandwidth: h, shape (); None for `median_bandwidth`.

    References:
        Liu and Wang (2016), arXiv:1608.04471, eq. 8.
    """
    # The differences of nearby particles, from inner products: centred, or digits would be lost.
    centred = particles - particles.mean(0)
    norms = jnp.square(centred).sum(1)
    squares = jnp.maximum(norms[:, None] + norms - 2 * centred @ centred.T, 0.0)
    squares = jnp.fill_diagonal(squares, 0.0, inplace=False)
    h = median_bandwidth(squares) if bandwidth is None else bandwidth
    kernel = jnp.exp(-squares / h)
    apart = kernel.sum(1)[:, None] * centred - kernel @ centred
    return (kernel @ scores + 2 / h * apart) / particles.shape[0]
