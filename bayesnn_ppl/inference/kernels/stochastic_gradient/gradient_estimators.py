"""Unbiased estimates of the full gradient from a minibatch, with less variance than its own.

Each is g_B(θ) - w·(g_B(a) - ∇U(a)) with an anchor a: the gradients g_B of one minibatch at two
points go together the more, the nearer these are, and the expectation of the bracket over
minibatches is 0 whatever the anchor.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import integer, near_misses

__all__ = ["SVRG", "Anchor", "ControlVariate", "GradientEstimator", "Minibatch", "check_estimator"]

type Gradient = Callable[[Any], Any]


class GradientEstimator(ABC):
    """How a step's gradient is made. Frozen dataclasses, so that equal ones compile once.

    `full_gradient` and `minibatch_gradient` below are functions of the position (d,): ∇U of all
    rows, and ∇Û of this step's minibatch at full scale, prior included, shape (d,) both.
    """

    @property
    def gradients_per_step(self) -> int:
        """Minibatch gradients that `estimate` computes."""
        return 1

    @property
    def full(self) -> bool:
        """Whether full gradients are needed, hence all rows at once on the device."""
        return False

    @abstractmethod
    def start(self, position: Any, full_gradient: Gradient) -> Any:
        """The state at a chain's start."""

    @abstractmethod
    def refresh(
        self,
        state: Any,
        position: Any,
        full_gradient: Gradient,
        *,
        index: Any,
        warmup_steps: int,
    ) -> Any:
        """The state for the step that has `index` steps before it, the warm-up's included.

        A full gradient is computed in the steps that need it and in no other, in chains under
        `vmap` too, as long as their indices are equal.
        """

    @abstractmethod
    def estimate(self, state: Any, position: Any, minibatch_gradient: Gradient) -> Any:
        """The estimate of ∇U at `position`, shape (d,)."""


@dataclass(frozen=True)
class Minibatch(GradientEstimator):
    """The minibatch's own gradient."""

    def start(self, position: Any, full_gradient: Gradient) -> tuple[()]:
        return ()

    def refresh(
        self,
        state: Any,
        position: Any,
        full_gradient: Gradient,
        *,
        index: Any,
        warmup_steps: int,
    ) -> Any:
        return state

    def estimate(self, state: Any, position: Any, minibatch_gradient: Gradient) -> Any:
        return minibatch_gradient(position)


class Anchor(NamedTuple):
    """A point and the full gradient there.

    Attributes:
        position, gradient: a and ∇U(a), shape (d,).
        weight: w, 0 as long as there is no anchor and 1 afterwards.
    """

    position: Any
    gradient: Any
    weight: Any


class _Anchored(GradientEstimator):
    @property
    def gradients_per_step(self) -> int:
        return 2

    @property
    def full(self) -> bool:
        return True

    def start(self, position: Any, full_gradient: Gradient) -> Anchor:
        return Anchor(position, full_gradient(position), jnp.ones_like(position[0]))

    def refresh(
        self,
        state: Anchor,
        position: Any,
        full_gradient: Gradient,
        *,
        index: Any,
        warmup_steps: int,
    ) -> Anchor:
        due = self._due(index, warmup_steps)

        def renew(_: Any, state: Anchor) -> Anchor:
            return Anchor(position, full_gradient(position), jnp.ones_like(state.weight))

        # A loop of no or one passage: `cond` under `vmap` would compute both sides every step.
        return jax.lax.fori_loop(0, jnp.asarray(due, int), renew, state)

    def estimate(self, state: Anchor, position: Any, minibatch_gradient: Gradient) -> Any:
        correction = minibatch_gradient(state.position) - state.gradient
        return minibatch_gradient(position) - state.weight * correction

    @abstractmethod
    def _due(self, index: Any, warmup_steps: int) -> Any:
        """Whether the anchor moves to where the chain is."""


@dataclass(frozen=True)
class ControlVariate(_Anchored):
    """One anchor for the whole run, in the posterior's bulk: a mode, or nearly.

    Near the anchor the variance falls with the squared distance; far away it may exceed that of
    the plain minibatch gradient. A step costs two minibatch gradients, and a run one full one.

    Args:
        anchor: "start": where the chain starts; start it at a trained network, `init=...`.
            "warmup": where the warm-up ends, which runs on plain minibatch gradients.

    Raises:
        ValueError: an unknown anchor.

    References:
        Baker, Fearnhead, Fox and Nemeth (2019), arXiv:1706.05439.
    """

    anchor: str = "start"

    def __post_init__(self) -> None:
        if self.anchor not in ("start", "warmup"):
            raise ValueError(
                f"`ControlVariate(anchor={self.anchor!r})` is unknown. "
                + near_misses(str(self.anchor), ("start", "warmup"))
            )

    def start(self, position: Any, full_gradient: Gradient) -> Anchor:
        if self.anchor == "start":
            return super().start(position, full_gradient)
        return Anchor(position, jnp.zeros_like(position), jnp.zeros_like(position[0]))

    def _due(self, index: Any, warmup_steps: int) -> Any:
        return index == warmup_steps if self.anchor == "warmup" else False


@dataclass(frozen=True)
class SVRG(_Anchored):
    """An anchor that follows the chain, reset after every `every` steps.

    Args:
        every: steps from one full gradient to the next; those of an epoch make the cost three
            minibatch gradients a step.

    Raises:
        TypeError, ValueError: `every` is not an integer, or below 1.

    References:
        Johnson and Zhang (2013); Dubey et al. (2016), arXiv:1604.08139 (SVRG-LD).
    """

    every: int

    def __post_init__(self) -> None:
        integer(self.every, "`every` of SVRG", at_least=1)

    def _due(self, index: Any, warmup_steps: int) -> Any:
        return (jnp.remainder(index, self.every) == 0) & (index > 0)


def check_estimator(value: object, what: str) -> GradientEstimator:
    """The estimator itself, or that of the word "minibatch"; TypeError for anything else."""
    if value == "minibatch":
        return Minibatch()
    if not isinstance(value, GradientEstimator):
        raise TypeError(
            f'{what} must be "minibatch", `gradients.ControlVariate()` or '
            f"`gradients.SVRG(every=...)`, not {value!r}."
        )
    return value


def __dir__() -> list[str]:
    return sorted(__all__)  # what a prompt offers, without what is imported here
