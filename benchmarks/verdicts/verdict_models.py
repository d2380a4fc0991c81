"""Small models whose posterior of function values is known, in closed form or by quadrature."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
from flax import linen
from jax import numpy as jnp
from numpy.typing import NDArray

import bayesnn_ppl as bnn
from benchmarks.verdicts.verdict_chains import GLIMPSE

__all__ = ["MODELS", "Known"]

type Array = NDArray[np.floating]

_NOISE = 0.5
_NETWORK_NOISE = 0.3
_FUNNEL_SCALE = 3.0
# So wide that the one observation says nothing.
_NOTHING_SAID = 1e4


@dataclass(frozen=True)
class Known:
    """A model, its data, and the truth about the network's outputs at the probe.

    Attributes:
        model: of `(x, y)`.
        x, y: its data.
        probe: inputs (K, 1).
        mean, sd: of the outputs at the probe under the posterior, (K,).
        arm: an output whose values more than three standard deviations above the mean are an arm
            of the posterior that chains enter seldom; None without one.
    """

    model: Any
    x: Array
    y: Array
    probe: Array
    mean: Array
    sd: Array
    arm: int | None = None

    def complete(self, values: Array) -> bool:
        """Whether chains, (chain, draw, output), have been in the arm for `GLIMPSE` draws."""
        if self.arm is None:
            return True
        inside = values[..., self.arm] > self.mean[self.arm] + 3 * self.sd[self.arm]
        return int(inside.sum()) >= GLIMPSE


@cache
def linear() -> Known:
    """Linear regression of 100 rows, known noise: a normal posterior of two weights."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(100, 1)).astype(np.float32)
    y = (0.7 * x[:, 0] + 0.2 + _NOISE * generator.normal(size=100)).astype(np.float32)
    probe = np.array([[-1.0], [0.0], [2.0]], np.float32)
    rows = np.column_stack([x, np.ones(100)]).astype(float)
    covariance = np.linalg.inv(np.eye(2) + rows.T @ rows / _NOISE**2)
    at = np.column_stack([probe, np.ones(3)])
    mean = at @ covariance @ rows.T @ y / _NOISE**2
    sd = np.sqrt(np.einsum("ki,ij,kj->k", at, covariance, at))
    return Known(
        bnn.models.linear(likelihood=bnn.likelihoods.gaussian(_NOISE)), x, y, probe, mean, sd
    )


class OneUnit(linen.Module):
    """f(x) = a tanh(b x): the smallest network with a symmetry, (a, b) and (-a, -b)."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Map (N, 1) to (N, 1)."""
        hidden = jnp.tanh(linen.Dense(1, use_bias=False, name="hidden")(x))
        return linen.Dense(1, use_bias=False, name="out")(hidden)


@cache
def network() -> Known:
    """One hidden unit, 20 rows: two weights, two mirrored banana-shaped modes, by quadrature.

    The end of the banana, where the third output is more than three standard deviations above its
    mean, has 1.7 % of the mass and a quarter of that output's variance.
    """
    generator = np.random.default_rng(1)
    x = generator.uniform(-1.5, 1.5, (20, 1)).astype(np.float32)
    noise = _NETWORK_NOISE * generator.normal(size=20)
    y = (np.tanh(0.8 * x[:, 0]) + noise).astype(np.float32)
    probe = np.array([[0.3], [1.0], [3.0]], np.float32)
    grid = np.linspace(-6, 6, 1201)
    a, b = grid[:, None], grid[None, :]
    log_density = -0.5 * (a**2 + b**2)
    for row, target in zip(x[:, 0], y, strict=True):
        log_density = log_density - 0.5 * ((target - a * np.tanh(b * row)) / _NETWORK_NOISE) ** 2
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    said = [a * np.tanh(b * float(row)) for row in probe[:, 0]]
    mean = np.array([(weight * f).sum() for f in said])
    sd = np.array([np.sqrt((weight * f**2).sum() - m**2) for f, m in zip(said, mean, strict=True)])
    model = bnn.bayesian_network(
        OneUnit(), bnn.priors.normal(1.0), bnn.likelihoods.gaussian(_NETWORK_NOISE)
    )
    return Known(model, x, y, probe, mean, sd, arm=2)


def _funnel(x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
    v = numpyro.sample("v", dist.Normal(0.0, _FUNNEL_SCALE))
    numpyro.sample("w", dist.Normal(0.0, jnp.exp(v / 2)))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(v * jnp.ones(x.shape[0]), _NOTHING_SAID), obs=y)


@cache
def funnel() -> Known:
    """Neal's funnel, v ~ N(0, 3²) and w ~ N(0, e^v); the output is v."""
    x = np.zeros((1, 1), np.float32)
    return Known(_funnel, x, np.zeros(1, np.float32), x, np.zeros(1), np.full(1, _FUNNEL_SCALE))


MODELS: dict[str, Callable[[], Known]] = {
    "linear": linear,
    "network": network,
    "funnel": funnel,
}
