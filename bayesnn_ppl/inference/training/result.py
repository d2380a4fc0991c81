"""What a training is while it goes, and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

__all__ = [
    "Trained",
    "TrainingProgress",
    "arrays_of",
    "joined",
    "merged",
    "part_of",
    "trained_from",
]

_BY_NAME = ("positions", "values")
_BY_MEMBER = ("losses", "held_out_losses", "best_epochs", "best_losses", "failed", "attempts")


@dataclass(frozen=True)
class TrainingProgress:
    """What a callback sees after each block of epochs.

    Attributes:
        done, total: epochs made so far and asked for; of an optimisation the steps.
        seconds: since this stage began.
        losses, held_out_losses: (members, done), NaN after a member stopped.
        phase: the stage, "train" where networks are trained. A fit may have several, one after
            another: a mode is trained, and then a bound is maximised from there ("climb").
    """

    done: int
    total: int
    seconds: float
    losses: np.ndarray
    held_out_losses: np.ndarray
    phase: str = "train"


@dataclass(frozen=True)
class Trained:
    """What `train` returns; every leading axis is the member.

    Attributes:
        positions: latent site -> unconstrained values (members, ...).
        values: latent site -> the same in the model's own space.
        losses: (members, epochs), the mean objective of each epoch's minibatches per observation,
            each taken before its step; NaN after a member stopped.
        held_out_losses: (members, epochs), the mean -log p(y|x, θ) of the held-out rows after each
            epoch; NaN after a member stopped, and everywhere when nothing is held out.
        best_epochs: (members,), the epoch, counted from 1, whose end the positions are of.
        best_losses: (members,), the held-out loss there, or the training loss when nothing is
            held out.
        failed: (members,), whether a loss or a parameter was not finite. The position is then the
            best one before that, or the start (with best epoch 0).
        attempts: (members,), how many starts each member took.
        rows: how many rows were trained on.
        start: "network" or "prior".
        interrupted: whether Ctrl-C or the callback ended training.
        seconds: what compiling and training took.
        asked: whether it was the callback that ended it.
    """

    positions: Mapping[str, np.ndarray]
    values: Mapping[str, np.ndarray]
    losses: np.ndarray
    held_out_losses: np.ndarray
    best_epochs: np.ndarray
    best_losses: np.ndarray
    failed: np.ndarray
    attempts: np.ndarray
    rows: int
    start: str
    interrupted: bool
    seconds: Mapping[str, float]
    asked: bool = False


def merged(before: Trained, again: Trained, members: np.ndarray) -> Trained:
    """The first, with the given members of the second; how often each was tried counts on."""

    def pick(old: Any, new: Any) -> np.ndarray:
        return np.where(members.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)

    return replace(
        before,
        positions={name: pick(v, again.positions[name]) for name, v in before.positions.items()},
        values={name: pick(v, again.values[name]) for name, v in before.values.items()},
        losses=pick(before.losses, again.losses),
        held_out_losses=pick(before.held_out_losses, again.held_out_losses),
        best_epochs=pick(before.best_epochs, again.best_epochs),
        best_losses=pick(before.best_losses, again.best_losses),
        failed=pick(before.failed, again.failed),
        attempts=pick(before.attempts, again.attempts),
    )


def joined(parts: Sequence[Trained]) -> Trained:
    """The members of all parts, in their order."""
    arrays = [{name: getattr(part, name) for name in (*_BY_NAME, *_BY_MEMBER)} for part in parts]
    whole: dict[str, Any] = jax.tree.map(lambda *own: np.concatenate(own), *arrays)
    return replace(
        parts[0],
        **whole,
        interrupted=any(part.interrupted for part in parts),
        seconds={name: max(part.seconds[name] for part in parts) for name in parts[0].seconds},
    )


def arrays_of(trained: Trained) -> dict[str, np.ndarray]:
    """What was trained, as named arrays."""
    return {
        **{
            f"earlier/{field}/{name}": value
            for field in _BY_NAME
            for name, value in getattr(trained, field).items()
        },
        **{f"earlier/{field}": np.asarray(getattr(trained, field)) for field in _BY_MEMBER},
    }


def trained_from(arrays: Mapping[str, np.ndarray]) -> Trained:
    """What `arrays_of` was given."""
    found: dict[str, Any] = {field: part_of(arrays, f"earlier/{field}") for field in _BY_NAME}
    found |= {field: arrays[f"earlier/{field}"] for field in _BY_MEMBER}
    return Trained(**found, rows=0, start="", interrupted=False, seconds={})


def part_of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays below a prefix, by the rest of their names."""
    begin = f"{prefix}/"
    return {n.removeprefix(begin): a for n, a in arrays.items() if n.startswith(begin)}
