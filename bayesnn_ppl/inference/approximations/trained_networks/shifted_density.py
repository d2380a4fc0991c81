"""A law whose density is taken at another value than that of its site."""

from collections.abc import Callable
from typing import Any

import numpyro.distributions as dist

__all__ = ["MovedLaw"]


class MovedLaw(dist.Distribution):
    """log p'(v) = log p(move(v)); everything else is that of p.

    Put in the place of a site's law it changes an objective, and nothing that the program computes
    from the site's value.

    Args:
        law: p.
        move: from a value to one of the same shape in the support of p.
    """

    def __init__(self, law: Any, move: Callable[[Any], Any]) -> None:
        self.law, self.move = law, move
        super().__init__(law.batch_shape, law.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        return self.law.support

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return self.law.sample(key, sample_shape)

    def log_prob(self, value: Any) -> Any:
        return self.law.log_prob(self.move(value))
