"""Derivatives along given directions, of functions that may know reverse mode alone."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["derivatives_along"]


def derivatives_along(function: Callable[[Any], Any], point: Any, directions: Any) -> Any:
    """`(function(point), J t)` for several directions t, J being the Jacobian at the point.

    The vector-Jacobian product c -> cᵀJ is linear in c, and its own transpose is t -> J t: reverse
    mode twice in place of forward mode, which our convolutions do not have.

    Args:
        function: of one pytree of floating arrays, with a pytree of arrays.
        point: where.
        directions: a pytree like `point`, each leaf with a leading axis of K directions.

    Returns:
        The value, and the derivatives with a leading axis K.
    """
    said, back = jax.vjp(function, point)
    _, forward = jax.vjp(lambda c: back(c)[0], jax.tree.map(jnp.zeros_like, said))
    return said, jax.vmap(lambda direction: forward(direction)[0])(directions)
