"""Normal weights scaled by the number of inputs, and perhaps outputs, of each unit."""

import math
from dataclasses import dataclass

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.priors.common.scaling import inputs_of, outputs_of


@dataclass(frozen=True)
class _FanInNormal:
    scale: float
    bias_scale: float

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        if len(shape) < 2:
            return dist.Normal(0.0, self.bias_scale)
        return dist.Normal(0.0, self.scale / math.sqrt(inputs_of(name, shape)))


@dataclass(frozen=True)
class _GlorotNormal:
    bias_scale: float

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        if len(shape) < 2:
            return dist.Normal(0.0, self.bias_scale)
        return dist.Normal(0.0, math.sqrt(2 / (inputs_of(name, shape) + outputs_of(name, shape))))


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


def he_normal(*, bias_scale: float = 1.0) -> _FanInNormal:
    """w ~ N(0, 2/fan-in), b ~ N(0, bias_scale²): ReLU layers keep the size of their inputs.

    Args:
        bias_scale: standard deviation of parameters with fewer than two axes.

    Raises:
        ValueError: a scale that is not positive and finite.

    References:
        He et al. (2015), arXiv:1502.01852, section 2.2.
    """
    return fan_in_normal(math.sqrt(2.0), bias_scale=bias_scale)


def glorot_normal(*, bias_scale: float = 1.0) -> _GlorotNormal:
    """w ~ N(0, 2/(fan-in + fan-out)), b ~ N(0, bias_scale²).

    The fan-out of a kernel of shape (..., in, out) is the product of all axes but the last two,
    times out (height × width × out for a convolution).

    Args:
        bias_scale: standard deviation of parameters with fewer than two axes.

    Raises:
        ValueError: a scale that is not positive and finite.

    References:
        Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward
        neural networks, eq. 12.
    """
    return _GlorotNormal(positive(bias_scale, "The prior's bias_scale"))
