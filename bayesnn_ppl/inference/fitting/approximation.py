"""What an approximation is, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["Approximation", "Finding", "Fitted"]


class Finding(NamedTuple):
    """Something that a reader of the result must know.

    Attributes:
        kind: "failure": the result is not what it should be; "doubt": it may not be; "remark".
        sentence: what, why, and what to do.
    """

    kind: Literal["failure", "doubt", "remark"]
    sentence: str


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
        model: the model to predict with, where it is not the fitted one.
        centre: latent site -> values (chains, ...) in the model's space, kept with the draws:
            θ* of a model that is linearised there, so that a run on disk predicts as it did.
    """

    positions: Mapping[str, np.ndarray]
    record: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    statistics: Mapping[str, np.ndarray] = field(default_factory=dict)
    interrupted: bool = False
    model: Model | None = None
    centre: Mapping[str, np.ndarray] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Chains and draws."""
        chains, draws = next(iter(self.positions.values())).shape[:2]
        return chains, draws

    def opened_with(self, problem: Problem) -> Model:
        """The model to give when the result is opened again, so that no other is accepted.

        It is the one fitted, which a linearised model is made from, unless the draws are of other
        sites.
        """
        if self.model is None or set(self.positions) == set(problem.summary.latents):
            return problem.model
        return self.model


@runtime_checkable
class Approximation(Protocol):
    """An immutable object whose fields are its settings.

    `model` is a NumPyro model. `solve` checks what depends on the data before it compiles
    anything, and returns draws.
    """

    @property
    def model(self) -> Model | None: ...

    def solve(self, problem: Problem) -> Fitted: ...
