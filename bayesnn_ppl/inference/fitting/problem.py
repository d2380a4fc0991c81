"""What an approximation is given, and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jax.sharding import Mesh

from bayesnn_ppl.inference.training.checkpoints import TrainingRecord
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["Approximation", "Finding", "Fitted", "Problem"]


class Finding(NamedTuple):
    """Something that a reader of the result must know.

    Attributes:
        kind: "failure": the result is not what it should be; "doubt": it may not be; "remark".
        sentence: what, why, and what to do.
    """

    kind: Literal["failure", "doubt", "remark"]
    sentence: str


@dataclass(frozen=True)
class Problem:
    """A program and its data, which have passed every check of `fit`.

    Attributes:
        model: the program.
        x, y: the data as the program takes them, leading axis of rows; integer labels and counts.
        summary: what the program declares.
        seed: of all randomness.
        float64: whether to compute in double precision; `fit` has switched it on.
        mesh: devices for members, or None for the default.
        progress: whether to show a bar.
        callback: the user's, called with a `TrainingProgress` after each block of epochs or steps.
        record: where the checkpoints of its stages go; None in memory.
    """

    model: Model
    x: np.ndarray
    y: np.ndarray
    summary: ModelSummary
    seed: int
    float64: bool
    mesh: Mesh | None
    progress: bool
    callback: Callable[[Any], Any] | None
    record: TrainingRecord | None = None

    def key(self, stream: int) -> jax.Array:
        """A PRNG key for one use of randomness, `stream`, of this fit."""
        return jax.random.fold_in(jax.random.key(self.seed), stream)


@dataclass(frozen=True)
class Fitted:
    """What an approximation found.

    Attributes:
        positions: latent site -> unconstrained draws (chains, draws, ...). Independent fits, the
            members of an ensemble, are chains.
        statistics: name -> array (chains, draws).
        record: JSON-ready facts for the provenance, such as `losses` or `log_evidence`.
        findings: what did not go well, and what to do.
        interrupted: whether Ctrl-C or the callback ended it.
        model: the program to predict with, where it is not the fitted one.
        centre: latent site -> values (chains, ...) in the program's space, kept beside the draws:
            θ* of a program that is linearised there, so that a run on disk predicts as it did.
    """

    positions: Mapping[str, np.ndarray]
    record: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    statistics: Mapping[str, np.ndarray] = field(default_factory=dict)
    interrupted: bool = False
    model: Model | None = None
    centre: Mapping[str, np.ndarray] | None = None

    def opened_with(self, problem: Problem) -> Model:
        """The program to give when the result is opened again, so that no other is accepted.

        It is the one fitted, which a linearised program is made from, unless the draws are of other
        sites.
        """
        if self.model is None or set(self.positions) == set(problem.summary.latents):
            return problem.model
        return self.model


@runtime_checkable
class Approximation(Protocol):
    """An immutable object whose fields are its settings.

    `model` is a NumPyro program. `solve` checks what depends on the data before it compiles
    anything, and returns draws.
    """

    @property
    def model(self) -> Model | None: ...

    def solve(self, problem: Problem) -> Fitted: ...
