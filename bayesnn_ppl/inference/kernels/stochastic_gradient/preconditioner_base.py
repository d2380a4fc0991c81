"""What a preconditioner is, and the one that is none."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Identity", "Preconditioner", "check_preconditioner"]


class Preconditioner(ABC):
    """How M is estimated. Frozen dataclasses, so that equal ones compile once.

    A kernel calls `start` once; while it adapts, `update` once a step, before that step; and
    `mass`, and `drift` where the preconditioner is `corrected`, in every step.
    """

    @property
    def estimated(self) -> bool:
        """Whether M is learned from gradients, so that a run needs a warm-up."""
        return True

    @property
    def always(self) -> bool:
        """Whether M keeps moving when draws are kept."""
        return False

    @property
    def least_steps(self) -> int:
        """How many gradients there must be before M is anything but 1."""
        return 1

    @property
    def corrected(self) -> bool:
        """Whether `update` is given the curvature, and `drift` gives Γ."""
        return False

    @abstractmethod
    def start(self, dimension: int, sizes: Sequence[int]) -> Any:
        """The state before any gradient.

        Args:
            dimension: d.
            sizes: entries of each parameter array, in the order of the vector; their sum is d.
        """

    @abstractmethod
    def update(self, state: Any, gradient: Any, index: Any, curvature: Any = None) -> Any:
        """The state after one more gradient.

        Args:
            state: before.
            gradient: ∇Û of a minibatch, full scale, shape (d,).
            index: steps done before.
            curvature: only where `corrected`: an estimate of the diagonal of ∇²Û on the same
                minibatch, z ⊙ (∇²Û z) with signs z, shape (d,).
        """

    @abstractmethod
    def mass(self, state: Any) -> Any:
        """The diagonal of M, shape (d,) or ()."""

    def drift(self, state: Any) -> Any:
        """Γ = ∂M^{-1}/∂θ, shape (d,), or 0 where M does not depend on θ."""
        return 0.0


@dataclass(frozen=True)
class Identity(Preconditioner):
    """M = 1."""

    @property
    def estimated(self) -> bool:
        return False

    def start(self, dimension: int, sizes: Sequence[int]) -> tuple[()]:
        return ()

    def update(self, state: Any, gradient: Any, index: Any, curvature: Any = None) -> Any:
        return state

    def mass(self, state: Any) -> float:
        return 1.0


def check_preconditioner(value: object, what: str) -> Preconditioner:
    """`value` as it is; TypeError unless it is a preconditioner."""
    if not isinstance(value, Preconditioner):
        raise TypeError(
            f"{what} must be a preconditioner, such as `preconditioners.RMSProp()`, not {value!r}."
        )
    return value
