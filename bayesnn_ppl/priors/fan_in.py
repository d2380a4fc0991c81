"""Normal weights scaled by the number of inputs of each unit."""

import math
from dataclasses import dataclass

import numpyro.distributions as dist

from bayesnn_ppl.arguments import positive

__all__ = ["fan_in_normal"]


@dataclass(frozen=True)
class _FanInNormal:
    scale: float
    bias_scale: float

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        if len(shape) < 2:
            return dist.Normal(0.0, self.bias_scale)
        # A row of an embedding is looked up, not summed over: its fan-in is 1.
        fan_in = 1 if name.rsplit(".", 1)[-1] == "embedding" else math.prod(shape[:-1])
        return dist.Normal(0.0, self.scale / math.sqrt(fan_in))


def fan_in_normal(scale: float = 1.0, *, bias_scale: float = 1.0) -> _FanInNormal:
    """w ~ N(0, scale²/fan-in), b ~ N(0, bias_scale²): functions keep their size as width grows.

    The fan-in of a kernel of shape (..., in, out) is the product of all axes but the last
    (height × width × in for a convolution). Parameters with fewer than two axes (biases, gains)
    are given `bias_scale`. With one hidden layer of width H → ∞ the network tends to a Gaussian
    process.

    Args:
        scale: standard deviation of a unit's pre-activation for inputs of unit size.
        bias_scale: standard deviation of the biases.

    Raises:
        ValueError: a scale that is not positive and finite.

    References:
        Neal (1996), Bayesian Learning for Neural Networks, chapter 2.
    """
    return _FanInNormal(
        positive(scale, "The prior's scale"), positive(bias_scale, "The prior's bias_scale")
    )
