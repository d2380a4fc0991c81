"""Rows, networks and gradients that studies of speed measure against."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def sine_rows(rows: int, inputs: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Normal inputs (rows, inputs), and the sine of the first as targets, in float32."""
    x = np.random.default_rng(0).normal(size=(rows, inputs)).astype(np.float32)
    return x, np.sin(x[:, 0])


def tanh_network() -> Any:
    """A 50-50 tanh MLP with known noise; with eight inputs it has 3 051 weights."""
    import bayesnn_ppl as bnn

    return bnn.models.mlp(hidden=(50, 50), likelihood=bnn.likelihoods.gaussian(0.5))


def numpyro_hmc(model: Any, step_size: float, leapfrogs: int) -> Any:
    """NumPyro's HMC without adaptation."""
    from numpyro.infer import HMC

    return HMC(
        model,
        step_size=step_size,
        num_steps=leapfrogs,
        trajectory_length=None,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )


def move(gradient: Callable[[Any], Any], z: Any) -> Any:
    """A short step of all weights along the gradient, which a compiler cannot leave out."""
    return jax.tree.map(lambda a, g: a - 1e-9 * g, z, gradient(z))


def gradient_scan(gradient: Callable[[Any], Any], count: int) -> Callable[[Any], Any]:
    """A function that moves `count` times along the gradient, in one `lax.scan`."""

    def step(z: Any, _: None) -> Any:
        return move(gradient, z), None

    return lambda z: jax.lax.scan(step, z, None, length=count)[0]
