"""Densities in the plane, each a trap for some sampler, all within five units of the origin."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

REACH = 5.0  # half the side of what is drawn

# Eight observations of a curve with some noise, for the network of two weights.
_INPUTS = (-2.0, -1.4, -0.9, -0.3, 0.4, 0.8, 1.5, 2.1)
_OBSERVED = (-1.42, -1.22, -0.98, -0.21, 0.52, 0.71, 1.36, 1.33)
_NOISE = 0.35


def correlated(a: Any, b: Any) -> Any:
    """A Gaussian whose coordinates have the correlation 0.95."""
    return -0.5 * (a**2 - 1.9 * a * b + b**2) / (1 - 0.95**2)


def banana(a: Any, b: Any) -> Any:
    """A valley bent to a parabola."""
    return -0.5 * (a**2 + (b - a**2 + 1) ** 2 / 0.25)


def donut(a: Any, b: Any) -> Any:
    """A ring: no mode, and no mass at the mean."""
    return -0.5 * ((jnp.sqrt(a**2 + b**2 + 1e-6) - 2.5) / 0.25) ** 2


def funnel(a: Any, b: Any) -> Any:
    """Neal's funnel, b ~ N(0, 1.5²), a | b ~ N(0, exp b): no step size fits both ends."""
    b = jnp.clip(b, -20, 20)
    return -0.5 * (b / 1.5) ** 2 - 0.5 * b - 0.5 * a**2 * jnp.exp(-b)


def two_modes(a: Any, b: Any) -> Any:
    """Two Gaussians five standard deviations apart."""
    return jnp.logaddexp(-0.5 * ((a - 2.5) ** 2 + b**2), -0.5 * ((a + 2.5) ** 2 + b**2))


def squiggle(a: Any, b: Any) -> Any:
    """A narrow path that winds."""
    return -0.5 * ((a / 1.6) ** 2 + ((b - 1.5 * jnp.sin(1.8 * a)) / 0.3) ** 2)


def network(a: Any, b: Any) -> Any:
    """A Bayesian network of two weights, b·tanh(a·x): the sign of both makes two equal modes."""
    x, y = jnp.asarray(_INPUTS), jnp.asarray(_OBSERVED)
    misfit = (y - b * jnp.tanh(a * x)) / _NOISE
    return -0.5 * jnp.sum(misfit**2) - 0.5 * (a**2 + b**2) / 2.0**2


TARGETS: dict[str, Callable[[Any, Any], Any]] = {
    "standard": lambda a, b: -0.5 * (a**2 + b**2),
    "correlated": correlated,
    "banana": banana,
    "donut": donut,
    "funnel": funnel,
    "two modes": two_modes,
    "squiggle": squiggle,
    "2-weight BNN": network,
}
