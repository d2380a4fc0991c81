"""Densities in the plane, each a trap for some sampler, all within five units of the origin."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

__all__ = ["REACH", "TARGETS", "Marginals", "log_densities", "marginals", "on_grid"]

REACH = 5.0  # half the side of what is drawn
_FAR = 300.0  # half the side of what is integrated: the tempered funnel is wide
_POINTS = 1201

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
    "banana": banana,
    "correlated": correlated,
    "standard": lambda a, b: -0.5 * (a**2 + b**2),
    "two modes": two_modes,
    "funnel": funnel,
    "donut": donut,
    "squiggle": squiggle,
    "2-weight BNN": network,
}


def log_densities(z: Any) -> Any:
    """Log density of every target, up to a constant, at z of shape (2,); shape (targets,)."""
    return jnp.stack([target(z[0], z[1]) for target in TARGETS.values()])


def on_grid(name: str, along: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log density on a square grid; rows are the second coordinate."""
    a, b = np.meshgrid(along, along)
    log_density: Any = jax.vmap(TARGETS[name])
    flat = log_density(jnp.asarray(a.ravel()), jnp.asarray(b.ravel()))
    return np.asarray(flat, np.float64).reshape(a.shape)


@dataclass(frozen=True)
class Marginals:
    """The distribution of each coordinate, by numerical integration.

    Attributes:
        along: points, shape (k,).
        densities: of both coordinates there, shape (2, k).
        mean, sd: shape (2,).
    """

    along: NDArray[np.float64]
    densities: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]

    def at(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Densities at other points, shape (2, len(points))."""
        return np.stack([np.interp(points, self.along, one) for one in self.densities])


@functools.cache
def marginals(name: str, temperature: float) -> Marginals:
    """Marginals of exp(-U/T), of which the tails beyond 300 units are left out."""
    # z = sinh t: fine near the origin, and far enough for tails.
    t = np.linspace(-np.arcsinh(_FAR), np.arcsinh(_FAR), _POINTS)
    along, widths = np.sinh(t), np.cosh(t) * (t[1] - t[0])
    values = _wide(name) / temperature
    mass = np.exp(values - values.max())
    densities = np.stack([widths @ mass, mass @ widths])
    densities /= (densities @ widths)[:, None]
    mean = (densities * widths) @ along
    variance = ((along - mean[:, None]) ** 2 * densities) @ widths
    return Marginals(along, densities, mean, np.sqrt(variance))


@functools.cache
def _wide(name: str) -> NDArray[np.float64]:
    t = np.linspace(-np.arcsinh(_FAR), np.arcsinh(_FAR), _POINTS)
    return on_grid(name, np.sinh(t))
