"""A diagonal mass that makes the noise of minibatch gradients alike in all coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioner_base import Preconditioner

__all__ = ["GradientNoise", "NoiseMoments"]

# The mean over all coordinates counts as so many gradients: no coordinate whose first gradients
# happen to agree is thrown far away.
_FEW = 10


class NoiseMoments(NamedTuple):
    """What the gradients seen so far have left.

    Attributes:
        last: the last gradient, shape (d,).
        variance: v, shape (d,).
        steps: gradients seen.
    """

    last: Any
    variance: Any
    steps: Any


@dataclass(frozen=True)
class GradientNoise(Preconditioner):
    """M = max(v/mean v, floor), where v is the variance of the noise of minibatch gradients.

    v is an average of ½(g - g')², for gradients g' and g of successive steps: these differ by
    their minibatches, and hardly by their positions. All weigh alike at first, and exponentially
    less from the 1/(1 - decay)th on. In the coordinates M^{1/2} θ the noise has one variance,
    which is what `SGMCLMC` needs; with `SGHMC` it heats all coordinates alike. It needs noise:
    where every minibatch is all the data, take another preconditioner.

    The mean of M is 1, or a little more, so step sizes have the size that they have without a
    preconditioner.

    Args:
        decay: in (0, 1). M has a relative error of √(1.5 (1 - decay)): 4 % at .999.
        floor: the least M, in (0, 1) of its mean: a weight whose gradients have no noise moves at
            most 1/√floor times as far as the others.
        mode: "frozen": estimated in the warm-up, fixed afterwards. "plain": moves every step, as
            in Sommer et al. **Biased**, by what M changes along the chain.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Sommer, Diao, Robnik, Seljak and Rügamer (2026), arXiv:2602.06500. Their variance is around
        a running mean with decay .99, so that it has a part by which the gradient moves along the
        chain: 1/T times the curvature, which is much where minibatches are a large part of
        the data.
    """

    decay: float = 0.999
    floor: float = 0.01
    mode: str = "frozen"

    def __post_init__(self) -> None:
        fraction(self.decay, "`decay` of GradientNoise")
        fraction(self.floor, "`floor` of GradientNoise, a share of the mean of M,")
        if self.mode not in ("frozen", "plain"):
            raise ValueError(
                f"`mode={self.mode!r}` of GradientNoise is unknown. "
                + near_misses(str(self.mode), ("frozen", "plain"))
            )

    @property
    def always(self) -> bool:
        return self.mode == "plain"

    @property
    def least_steps(self) -> int:
        return 2  # a difference of two gradients

    def start(self, dimension: int, sizes: Sequence[int]) -> NoiseMoments:
        zeros = jnp.zeros(dimension)
        return NoiseMoments(zeros, zeros, jnp.zeros((), int))

    def update(
        self, state: NoiseMoments, gradient: Any, index: Any, curvature: Any = None
    ) -> NoiseMoments:
        weight = jnp.maximum(1 / jnp.maximum(state.steps, 1), 1 - self.decay)
        weight = jnp.where(state.steps == 0, 0.0, weight)
        found = 0.5 * (gradient - state.last) ** 2
        variance = state.variance + weight * (found - state.variance)
        return NoiseMoments(gradient, variance, state.steps + 1)

    def mass(self, state: NoiseMoments) -> Any:
        average = jnp.mean(state.variance)
        known = average > 0
        relative = state.variance / jnp.where(known, average, 1.0)
        relative = (state.steps * relative + _FEW) / (state.steps + _FEW)
        return jnp.where(known, jnp.maximum(relative, self.floor), 1.0)
