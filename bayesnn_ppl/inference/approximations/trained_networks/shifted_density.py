"""A distribution whose density is taken at another value than that of its site."""

from collections.abc import Callable
from typing import Any

import numpyro.distributions as dist

__all__ = ["MovedDistribution"]


class MovedDistribution(dist.Distribution):
    """log p'(v) = log p(move(v)); everything else is that of p.

    Put in the place of a site's distribution it changes an objective, and nothing that the model
    computes from the site's value.

    Args:
        distribution: p.
        move: from a value to one of the same shape in the support of p.
    """

    def __init__(self, distribution: Any, move: Callable[[Any], Any]) -> None:
        self.distribution, self.move = distribution, move
        super().__init__(distribution.batch_shape, distribution.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        return self.distribution.support

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return self.distribution.sample(key, sample_shape)

    def log_prob(self, value: Any) -> Any:
        return self.distribution.log_prob(self.move(value))
