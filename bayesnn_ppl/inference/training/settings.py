"""How networks are trained."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import optax

from bayesnn_ppl.core.arguments import integer, near_misses

__all__ = ["NEVER", "TrainingSettings", "check_choices"]

NEVER = 2**31 - 1  # a patience that no training exhausts
_OBJECTIVES = ("posterior", "likelihood")
_STARTS = ("auto", "network", "prior")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of `train`.

    Args:
        optimiser: an optax transformation, such as `optax.adamw(1e-3, weight_decay=1e-3)`. One
            that wants the value of the loss, such as `optax.lbfgs()`, is given it.
        epochs: the most passes over the data.
        batch_size: rows of a minibatch; None, or more than there are, for all.
        objective: "posterior" or "likelihood".
        schedule: factor of the updates as a function of the fraction of all epochs done, in
            [0, 1), such as `cosine`; None for a constant factor of 1.
        validation_fraction: share of the rows held out, at least one row when it is above 0.
        patience: stop a member after so many epochs without a lower held-out loss.
        start: "network" for what the initialisers of the model's Flax Linen networks draw, with
            the median of 15 draws from the prior for each other site; "prior" for one draw of
            everything; "auto" for the first where there is such a network, else the second. A draw
            from a wide prior may lie where the noise is next to nothing, far from any mode.
        retries: how often a member that fails is trained again, from another start.

    Raises:
        TypeError, ValueError: a setting is not what it must be.
    """

    optimiser: optax.GradientTransformation
    epochs: int
    batch_size: int | None = None
    objective: str = "posterior"
    schedule: Callable[[Any], Any] | None = None
    validation_fraction: float = 0.0
    patience: int | None = None
    start: str = "auto"
    retries: int = 0

    def __post_init__(self) -> None:
        integer(self.epochs, "`epochs`", at_least=1, below=NEVER)
        integer(self.retries, "`retries`", at_least=0)
        for name in ("batch_size", "patience"):
            if getattr(self, name) is not None:
                integer(getattr(self, name), f"`{name}`", at_least=1)
        check_choices(self.optimiser, self.objective, self.schedule, self.start)


def check_choices(optimiser: Any, objective: Any, schedule: Any, start: Any) -> None:
    """Raise TypeError or ValueError unless each is what `train` takes."""
    if not isinstance(optimiser, optax.GradientTransformation):
        hint = " Call it: `optax.adam(1e-3)`, not `optax.adam`." if callable(optimiser) else ""
        raise TypeError(
            "`optimiser` must be an optax transformation such as `optax.adam(1e-3)`, "
            f"not {optimiser!r}.{hint}"
        )
    for value, name, known in ((objective, "objective", _OBJECTIVES), (start, "start", _STARTS)):
        if value not in known:
            raise ValueError(
                f"`{name}` must be one of {known}, not {value!r}. " + near_misses(str(value), known)
            )
    if schedule is not None and not callable(schedule):
        raise TypeError(
            "`schedule` must be a function of the fraction of training done, such as `cosine`, "
            f"or None, not {schedule!r}."
        )
