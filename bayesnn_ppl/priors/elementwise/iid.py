"""Independent, identically distributed normal weights."""

import math
from dataclasses import dataclass

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive


@dataclass(frozen=True)
class _Normal:
    scale: float

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        return dist.Normal(0.0, self.scale)


def normal(scale: float | None = None, *, variance: float | None = None) -> _Normal:
    """w ~ N(0, scale²) for every parameter, biases included.

    Args:
        scale: standard deviation; 1 when neither argument is given.
        variance: its square, as published settings often state it
            (`weight_decay` of bnn_hmc is 1 / variance).

    Raises:
        ValueError: both arguments given, or one not positive and finite.

    References:
        Izmailov et al. (2021), arXiv:2104.14421, section 3.
    """
    if scale is not None and variance is not None:
        raise ValueError("Give `scale` or `variance`, not both: variance = scale².")
    if variance is not None:
        return _Normal(math.sqrt(positive(variance, "The prior's variance")))
    return _Normal(positive(1.0 if scale is None else scale, "The prior's scale"))
