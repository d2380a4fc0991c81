"""Fan-in and fan-out of a parameter, and the prior of one scale that may follow them."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive


def inputs_of(name: str, shape: tuple[int, ...]) -> int:
    """The fan-in of a parameter with at least two axes: all axes but the last, multiplied.

    Height × width × in for a convolution. A row of an embedding is looked up, not summed over:
    its fan-in is 1.
    """
    return 1 if _is_embedding(name) else math.prod(shape[:-1])


def outputs_of(name: str, shape: tuple[int, ...]) -> int:
    """The fan-out of a parameter with at least two axes: height × width × out."""
    return shape[-1] if _is_embedding(name) else math.prod(shape[:-2]) * shape[-1]


def _is_embedding(name: str) -> bool:
    return name.rsplit(".", 1)[-1] == "embedding"


@dataclass(frozen=True)
class ScaledPrior(ABC):
    """Independent weights of one distribution; a subclass says which.

    Attributes:
        scale: of parameters with two axes or more, divided by √fan-in where `fan_in` is set.
        bias_scale: of the others.
        fan_in: see `scale`.
    """

    scale: float
    bias_scale: float
    fan_in: bool

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        if len(shape) < 2:
            return self.distribution(self.bias_scale)
        size = math.sqrt(inputs_of(name, shape)) if self.fan_in else 1.0
        return self.distribution(self.scale / size)

    @abstractmethod
    def distribution(self, scale: float) -> dist.Distribution:
        """The distribution of one weight."""


def checked_scales(scale: float, bias_scale: float | None) -> tuple[float, float]:
    """The scales of a `ScaledPrior`; TypeError or ValueError unless they are positive numbers."""
    scale = positive(scale, "The prior's scale")
    if bias_scale is not None:
        bias_scale = positive(bias_scale, "The prior's bias_scale")
    return scale, scale if bias_scale is None else bias_scale
