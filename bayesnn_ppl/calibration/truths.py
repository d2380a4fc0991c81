"""Parameters and data of each replication: from the prior, or from the posterior given data."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np
from numpyro import handlers

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.prior.traced_model import forward, key_of_draw, latent_values

type Values = Mapping[str, np.ndarray]

# Streams of randomness of one calibration; each must be apart from the others.
METHOD, TIES, ORDER = 1, 2, 3


class Truth:
    """The parameters of a replication, site -> value, and its data y, those of the method."""

    def __init__(self, parameters: Values, y: np.ndarray) -> None:
        self.parameters, self.y = dict(parameters), y


class Truths(Protocol):
    """Makes the truth of each replication; the same number always has the same one."""

    def draw(self, replication: int) -> Truth: ...


def seed_of(seed: int, replication: int, stream: int) -> int:
    """A seed below 2^32 for one use of randomness."""
    return int(np.random.SeedSequence([seed, replication, stream]).generate_state(1)[0])


@partial(jax.jit, static_argnames="model")
def _simulate(model: StaticValue, seed: Any, replication: Any, given: Any, x: Any) -> Any:
    key = key_of_draw(jax.random.key(seed), replication)
    trace = forward(handlers.substitute(model.value, data=given), key, x)
    return latent_values(trace), trace["y"]["value"]


@dataclass(frozen=True)
class FromPrior:
    """θ ~ p(θ), y ~ p(y|x, θ)."""

    model: Any
    x: np.ndarray
    seed: int
    float64: bool

    def draw(self, replication: int) -> Truth:
        with arithmetic(float64=self.float64):
            numbers = np.uint32(self.seed), np.uint32(replication)
            found = _simulate(StaticValue(self.model), *numbers, {}, self.x)
            return Truth(*jax.tree.map(np.asarray, found))


@dataclass(frozen=True)
class AroundData:
    """θ' ~ p(θ|x, y), ỹ ~ p(y|x, θ'): the method is given the rows of x twice, with y and with ỹ.

    Attributes:
        model: makes ỹ.
        rows, y: the data at hand.
        parameters: site -> (R, ...), draws from the posterior given these data.
        seed, float64: of the simulation.
    """

    model: Any
    rows: np.ndarray
    y: np.ndarray
    parameters: Values
    seed: int
    float64: bool

    def draw(self, replication: int) -> Truth:
        own = {name: a[replication] for name, a in self.parameters.items()}
        with arithmetic(float64=self.float64):
            numbers = np.uint32(self.seed), np.uint32(replication)
            _, new = _simulate(StaticValue(self.model), *numbers, own, self.rows)
            return Truth(own, np.concatenate([self.y, np.asarray(new).astype(self.y.dtype)]))
