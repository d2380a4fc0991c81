"""What kernels with an accept step share: the decision, and checks of its settings."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import positive

__all__ = ["Decision", "fraction", "metropolis", "select"]

_DIVERGENCE = 1000.0


class Decision(NamedTuple):
    """Whether a proposal is taken; all of shape ().

    Attributes:
        accepted: bool.
        accept_prob: α = min(1, exp(log ratio)), 0 where the ratio is not finite.
        diverging: the log ratio is below -1000, or not finite.
    """

    accepted: Any
    accept_prob: Any
    diverging: Any

    def choose(self, proposed: Any, current: Any) -> Any:
        """`proposed` if accepted, else `current`, leaf by leaf."""
        return select(self.accepted, proposed, current)


def select(condition: Any, new: Any, old: Any) -> Any:
    """`new` where the condition (shape ()) holds, else `old`, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def metropolis(log_ratio: Any, uniform: Any) -> Decision:
    """Accept with probability min(1, exp(log_ratio)); never where the ratio is not finite.

    Args:
        log_ratio: log of target times reverse proposal over target times proposal, shape ().
        uniform: uniform on [0, 1), shape ().
    """
    finite = jnp.isfinite(log_ratio)
    accept_prob = jnp.where(finite, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
    return Decision(uniform < accept_prob, accept_prob, ~finite | (log_ratio < -_DIVERGENCE))


def fraction(value: object, what: str, *, zero: bool = False) -> float:
    """`value` as a float in (0, 1), or in [0, 1) if `zero`; TypeError, ValueError otherwise."""
    if zero and not isinstance(value, bool) and value == 0:
        return 0.0
    number = positive(value, what)
    if number >= 1:
        raise ValueError(f"{what} must be below 1, not {number}.")
    return number
