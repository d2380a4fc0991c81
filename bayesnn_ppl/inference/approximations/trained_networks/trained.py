"""What all approximations that train networks share: settings, their checks, and what to say."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from bayesnn_ppl.core.arguments import integer, near_misses
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.settings import TrainingSettings
from bayesnn_ppl.inference.training.trainer import Trained, train
from bayesnn_ppl.modeling.temperature import Model

__all__ = [
    "TrainedByGradients",
    "interrupted_finding",
    "not_negative",
    "still_falling",
    "thinned",
]

_OBJECTIVES = ("likelihood", "posterior")
_STEPS = 10_000  # of a training whose epochs are not given
_MOST_LOSSES = 200  # in the record
# A loss that falls by less than this from the middle of training to its end has settled: nats per
# observation, and the share of what it fell by in all.
_SETTLED_NATS, _SETTLED_SHARE = 0.01, 0.02


@dataclass(frozen=True)
class TrainedByGradients:
    """Settings of the trainer; see the approximations that have them."""

    _learning_rate: ClassVar[float] = 1e-3  # of AdamW, where none is given
    model: Model | None = None
    _: KW_ONLY
    objective: str = "posterior"
    learning_rate: float | None = None
    weight_decay: float | None = None
    optimiser: Any = None
    schedule: Callable[[Any], Any] | None = None
    batch_size: int | None = None
    epochs: int | None = None
    validation_fraction: float = 0.0
    patience: int | None = None
    start: str = "auto"
    retries: int = 3

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.model is not None and not callable(self.model):
            raise TypeError(
                f"`{name}` takes a NumPyro model, a function of (x, y), or none where another "
                f"has one, not {self.model!r}."
            )
        if self.objective not in _OBJECTIVES:
            raise ValueError(
                f"`objective` must be one of {_OBJECTIVES}, not {self.objective!r}. "
                + near_misses(str(self.objective), _OBJECTIVES)
            )
        if self.epochs is not None:
            integer(self.epochs, "`epochs`", at_least=1)
        for field in ("learning_rate", "weight_decay"):
            not_negative(getattr(self, field), f"`{field}`")
        if self.optimiser is not None and (
            self.learning_rate is not None or self.weight_decay is not None
        ):
            raise ValueError(
                "`learning_rate` and `weight_decay` are those of AdamW and would be ignored with "
                "an `optimiser` of your own: give that optimiser its own learning rate."
            )
        if self.objective == "posterior" and self.weight_decay:
            raise ValueError(
                f'`weight_decay` is {self.weight_decay}, but with objective="posterior" the '
                "prior is the weight decay and the weights would be shrunk twice. Leave it out, or "
                'use objective="likelihood".'
            )

    def _rates(self) -> tuple[float, float]:
        """Learning rate and weight decay of AdamW."""
        decay = 1e-3 if self.objective == "likelihood" else 0.0
        return (
            self._learning_rate if self.learning_rate is None else float(self.learning_rate),
            decay if self.weight_decay is None else float(self.weight_decay),
        )

    def _optimiser(self) -> Any:
        if self.optimiser is not None:
            return self.optimiser
        import optax

        learning_rate, weight_decay = self._rates()
        return optax.adamw(learning_rate, b1=0.9, b2=0.999, weight_decay=weight_decay)

    def train_members(self, problem: Problem, members: int) -> Trained:
        """Train so many members of the problem's model by these settings."""
        rows, epochs = len(problem.x), self.epochs
        if epochs is None:
            batch = rows if self.batch_size is None else min(self.batch_size, rows)
            epochs = math.ceil(_STEPS / max(rows // batch, 1))
        settings = TrainingSettings(
            optimiser=self._optimiser(),
            epochs=epochs,
            batch_size=self.batch_size,
            objective=self.objective,
            schedule=self.schedule,
            validation_fraction=self.validation_fraction,
            patience=self.patience,
            start=self.start,
            retries=self.retries,
        )
        return train(problem, settings, members)

    def as_fitted(self, trained: Trained) -> Fitted:
        """The members as they are, each a chain of one draw."""
        return Fitted(
            positions={name: value[:, None] for name, value in trained.positions.items()},
            record=self.record_with_losses(trained),
            findings=self.findings(trained),
            interrupted=trained.interrupted,
        )

    def describe_training(self, trained: Trained) -> dict[str, Any]:
        """How it was trained, and the result, JSON-ready."""
        rates = dict(zip(("learning_rate", "weight_decay"), self._rates(), strict=True))
        return {
            "objective": self.objective,
            "optimiser": "adamw" if self.optimiser is None else "given",
            **(rates if self.optimiser is None else {}),
            "schedule": None if self.schedule is None else describe(self.schedule),
            "batch_size": self.batch_size,
            "epochs": trained.losses.shape[1],
            "validation_fraction": self.validation_fraction,
            "patience": self.patience,
            "start": trained.start,
            "rows": trained.rows,
            "best_epochs": trained.best_epochs.tolist(),
            "best_losses": [round(float(loss), 6) for loss in trained.best_losses],
            "attempts": trained.attempts.tolist(),
            "seconds": {name: round(value, 3) for name, value in trained.seconds.items()},
        }

    def record_with_losses(self, trained: Trained, **more: Any) -> dict[str, Any]:
        """The record of a fit that is this training, and `more`."""
        losses = {name: thinned(getattr(trained, name)) for name in ("losses", "held_out_losses")}
        return self.describe_training(trained) | more | losses

    def require_trained(self, trained: Trained) -> None:
        """Raise RuntimeError where a member failed at each attempt; the sentence names it."""
        failed = np.flatnonzero(trained.failed)
        if failed.size:
            first = int(failed[0])
            raise RuntimeError(
                f"Members {failed.tolist()} of the {type(self).__name__} could not be trained: "
                f"the loss or a parameter of member {first} was not finite at each of "
                f"{int(trained.attempts[first])} attempts, in epoch "
                f"{int(np.sum(~np.isnan(trained.losses[first]))) + 1} of the last. Lower the "
                "learning rate, standardise inputs and targets, or narrow the prior."
            )

    def findings(self, trained: Trained) -> tuple[Finding, ...]:
        """Members that failed, training that was cut short, and losses that were still falling."""
        found = []
        failed = np.flatnonzero(trained.failed).tolist()
        if failed:
            found.append(
                Finding(
                    "failure",
                    f"Members {failed} could not be trained: a loss or a parameter was not finite "
                    "at each attempt. Their best parameters before that are kept. Lower the "
                    "learning rate, standardise inputs and targets, or narrow the prior.",
                )
            )
        if trained.interrupted:
            found.append(interrupted_finding(trained.losses))
        falling = [i for i in range(len(trained.losses)) if i not in failed and _falls(trained, i)]
        if falling and not trained.interrupted:
            found.append(
                Finding(
                    "doubt",
                    f"The loss of {len(falling)} of {len(trained.losses)} members was still "
                    "falling at the end of training. Train for more epochs, or with a higher "
                    "learning rate.",
                )
            )
        return tuple(found)


def interrupted_finding(losses: np.ndarray) -> Finding:
    """That the training of these losses, (members, epochs), was cut short."""
    made = int(np.isfinite(losses).any(axis=0).sum())
    return Finding("doubt", f"Training was interrupted after {made} of {losses.shape[1]} epochs.")


def _falls(trained: Trained, member: int) -> bool:
    """Whether a member's loss was still falling; the held-out one, where there is one."""
    held, losses = trained.held_out_losses[member], trained.losses[member]
    return still_falling(losses if np.isnan(held).all() else held)


def still_falling(watched: np.ndarray) -> bool:
    """Whether a loss (epochs,) fell notably from the middle of its training to its end.

    A schedule that lowers the rate flattens the end of any curve, so the last epochs alone would
    always look settled. A member that stopped early, with NaN after its last epoch, was judged by
    held-out rows, and has settled.
    """
    made = np.flatnonzero(~np.isnan(watched))
    if len(made) < watched.size:  # it stopped by patience
        return False
    if watched.size < 4:
        return True
    part = max(1, watched.size // 10)
    half = watched.size // 2
    middle = watched[half - part // 2 : half - part // 2 + part].mean()
    end, begin = watched[-part:].mean(), watched[0]
    drop = middle - end
    return bool(drop > max(_SETTLED_NATS, _SETTLED_SHARE * (begin - end)))


def thinned(losses: np.ndarray) -> list[list[float | None]]:
    """Loss curves (members, epochs), at most 200 epochs of them, as JSON has numbers."""
    columns = np.unique(np.linspace(0, losses.shape[1] - 1, _MOST_LOSSES).astype(int))
    return [
        [None if not np.isfinite(v) else round(float(v), 6) for v in row[columns]] for row in losses
    ]


def not_negative(value: Any, what: str) -> None:
    """TypeError unless None or a number, ValueError unless finite and at least 0."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise TypeError(f"{what} must be a number, not {value!r}.")
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"{what} must be finite and not negative, not {value}.")
