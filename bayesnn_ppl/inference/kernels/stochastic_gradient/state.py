"""What a stochastic-gradient step is told, and what one draw hands to the next."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.inference.kernels.common.minibatch_density import (
    MinibatchDensity,
    MinibatchGradient,
)
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields

__all__ = [
    "StepGradient",
    "StepSettings",
    "StochasticGradientState",
    "WholeData",
    "draw_statistics",
]


class StepSettings(NamedTuple):
    """What one step is told; all traced.

    Attributes:
        step_size: ε = h², on the summed loss; shape ().
        temperature: T of the target exp(-U/T), shape ().
        noise: the factor on the noise: 1, or 0 while a cycle explores; shape ().
        mass: the diagonal of M, shape () or (d,).
        drift: Γ, that a preconditioner which moves with the position adds; shape () or (d,).
        index: steps done before this one, those of the warm-up included; shape ().
    """

    step_size: Any
    temperature: Any
    noise: Any
    mass: Any
    drift: Any
    index: Any


@named_fields
class StochasticGradientState(NamedTuple):
    """The state of one chain.

    Attributes:
        z: site -> unconstrained value.
        variables: what the method has besides the position: momenta, thermostats.
        preconditioner, estimator, minibatches: states of those.
        stopped: a draw was not finite; the chain stays at its last finite draw.
        iteration: draws made, warm-up included.
        rng_key: one key.
        statistics: kinetic_temperature, mᵀM⁻¹m/d of each site, in the order of their names, where
            there are momenta; stopped; step_size and temperature, of the last step; num_steps,
            minibatch gradients of the draw; accept_prob, where something is accepted; kick_angle,
            of the last step, where gradients turn a velocity of fixed length.
    """

    z: Any
    variables: Any
    preconditioner: Any
    estimator: Any
    minibatches: Any
    stopped: Any
    iteration: Any
    rng_key: Any
    statistics: Any


class WholeData(NamedTuple):
    """All rows: `terms(θ, x, y, temperature=T)` of the density are those of the full U.

    Attributes:
        density: the model as a function of rows.
        x, y: the data.
    """

    density: MinibatchDensity
    x: Any
    y: Any


class StepGradient:
    """θ -> the step's estimate of ∇U(θ), shape (d,); `potential` is that of the minibatch alone.

    A gradient that is known already is not computed again: `known` are pairs of a position (the
    very array) and the gradient there.
    """

    def __init__(self, minibatch: MinibatchGradient, estimate: Callable[..., Any]) -> None:
        self._minibatch, self._estimate = minibatch, estimate
        self.known: list[tuple[Any, Any]] = []

    def __call__(self, vector: Any) -> Any:
        for position, gradient in self.known:
            if position is vector:
                return gradient
        return self._estimate(vector, self._minibatch)

    def potential(self, vector: Any) -> Any:
        """Û(θ) of the minibatch."""
        return self._minibatch.potential(vector)


def draw_statistics(
    recorded: tuple[str, ...],
    variables: Any,
    last: StepSettings,
    sizes: tuple[int, ...],
    gradients: Any,
) -> dict[str, Any]:
    """The statistics of a draw whose last step had these settings; `sizes` are those of sites."""
    told = {
        "step_size": last.step_size,
        "temperature": last.temperature,
        "num_steps": gradients,
        "stopped": jnp.zeros((), bool),
    }
    for name in ("accept_prob", "kick_angle"):
        if name in recorded:
            told[name] = getattr(variables, name, jnp.zeros((), last.mass.dtype))
    momentum = getattr(variables, "momentum", None)
    if momentum is not None:
        energies = jnp.split(momentum**2 / last.mass, np.cumsum(sizes)[:-1])
        told["kinetic_temperature"] = jnp.stack([part.mean() for part in energies])
    return told
