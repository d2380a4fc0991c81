"""What a report is about: a posterior, the rows it is judged at, and where it came from."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesnn_ppl.core.predictions import Predicted
from bayesnn_ppl.metrics import Evaluation, evaluate
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.report.parts.thinning import thinned, weights_of

# What looking at all training rows may cost: a few seconds of two cores.
_MOST_VALUES, _MOST_PRODUCTS = 5_000_000, 2e10
_FEWEST_DRAWS = 100  # with which the training rows are worth a look


@dataclass(frozen=True, eq=False)
class Subject:
    """One posterior of a page; everything expensive is computed once, when it is first asked.

    Attributes:
        name: of the run.
        key: the same as part of an identifier.
        posterior: with its model, or one that kept function values.
        x, y: held-out rows, in the units the model was given; None for the probe inputs of the run.
        train: the training rows, `(x, y)`; None where they are not at hand.
        words: what the command line knows of the run besides: `command`, `data`, `target`,
            `classes`.
        gradients: at how many draws the configurational temperature is read; 0 for none.
        calibration: rows `(x, y)` for conformal intervals or sets; None for none.
    """

    name: str
    key: str
    posterior: Posterior
    _: KW_ONLY
    x: Any = None
    y: Any = None
    train: tuple[Any, Any] | None = None
    words: Mapping[str, Any] = field(default_factory=dict)
    gradients: int = 0
    calibration: tuple[Any, Any] | None = None

    @cached_property
    def run(self) -> dict[str, Any]:
        """The provenance."""
        return self.posterior.provenance

    @property
    def fitted(self) -> bool:
        """Whether it came from `fit` and not from a sampler."""
        return self.run.get("approximation") is not None

    @property
    def at_probe(self) -> bool:
        """Whether it is judged by what the run kept."""
        return self.x is None

    @cached_property
    def targets(self) -> Any:
        """Targets of the rows in the model's units; None where none are known."""
        if not self.at_probe:
            return self.y
        probe = self.posterior.probe
        return None if probe is None else probe[1]

    @cached_property
    def inputs(self) -> np.ndarray | None:
        """Inputs of the rows in the model's units; None where there is no probe."""
        if not self.at_probe:
            return np.asarray(self.x)
        probe = self.posterior.probe
        return None if probe is None else np.asarray(probe[0])

    @property
    def temperatures(self) -> Any:
        """Those of the diagnosis; None of a fit, and of a sampler that has an accept step."""
        if self.fitted or self.run.get("accept_step"):
            return None
        return self.diagnosis.temperatures

    @property
    def _rows(self) -> tuple[Any, Any] | None:
        """The training rows, where gradients of all of them can be computed."""
        able = self.posterior.model is not None and self.posterior.has_weights
        return self.train if able and not self.run.get("local") else None

    @property
    def training(self) -> Posterior | None:
        """With the groups of ArviZ at the training rows; None where `untrained` says why.

        Of a fit only those of the predictive check: its draws are not the posterior's.
        """
        return self._training[0]

    @property
    def untrained(self) -> str:
        """Why there is nothing at the training rows, as a sentence; empty where there is."""
        return self._training[1]

    @cached_property
    def _training(self) -> tuple[Posterior | None, str]:
        if not self.posterior.has_weights:
            return None, "the run kept no draws of its weights."
        if self.posterior.model is None:
            return None, "the model is not at hand."
        if self.run.get("local"):
            return None, "the model has latent values of single training rows."
        if self.train is None:
            return None, "the training rows are not at hand."
        x, y = self.train
        each = len(x) * max(1, weights_of(self.posterior))
        most = int(min(_MOST_VALUES / len(x), _MOST_PRODUCTS / each))
        if most < _FEWEST_DRAWS:
            return None, f"evaluating {len(x)} training rows at enough draws would take too long."
        groups = ["posterior_predictive", "observed_data"]
        groups += [] if self.fitted else ["log_likelihood", "log_prior", "functions"]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of tempered draws, which are weighted rightly
                return thinned(self.posterior, most).with_groups(*groups, x=x, y=y), ""
        except ValueError as error:
            return None, str(error)

    @cached_property
    def remarks(self) -> list[str]:
        """What could not be shown, and why."""
        return []

    @cached_property
    def diagnosis(self) -> Any:
        """The verdict, which needs draws or function values."""
        if self.fitted:
            return self.posterior.diagnose(self.x)
        return self.posterior.diagnose(self._judged_at, data=self._rows, gradients=self.gradients)

    @property
    def _judged_at(self) -> Any:
        """Where chains are judged: `x`; None, the probe inputs, if more draws are known there."""
        return None if self.posterior.knows_more_at_probe else self.x

    @cached_property
    def functions(self) -> dict[str, np.ndarray]:
        """What each draw's network says where it is judged, name -> (chain, draw, N, ...)."""
        if self.inputs is None:
            return {}
        return self.posterior.function_values(self._judged_at)

    @cached_property
    def prediction(self) -> Any:
        """The posterior predictive distribution at the rows; None where there are none."""
        if self.inputs is None:
            return None
        return self.posterior.predict(self.x)

    @cached_property
    def scores(self) -> Evaluation | None:
        """Held-out scores; None without targets, which calibration needs."""
        if self.targets is None and self.calibration is None:
            return None
        # What calibrates predicts at other rows too.
        known = self.at_probe or self.calibration is not None
        return evaluate(
            self.posterior if known else Predicted(self.prediction),
            self.x,
            self.y,
            calibration=self.calibration,
            class_names=self.words.get("classes"),
        )

    @cached_property
    def has_bounds(self) -> bool:
        """Whether some target is not a number to be predicted, since it is censored or masked."""
        if self.targets is None or self.prediction.task == "classification":
            return False
        return not self.prediction.exact(self.targets).all()

    @property
    def unit(self) -> str | None:
        """What the target is called, for axes; None where it has no name."""
        return self.words.get("target") or (self.run.get("dataset") or {}).get("target_name")

    @property
    def target(self) -> str:
        """What the target is called in a sentence."""
        return self.unit or "y"

    @property
    def class_names(self) -> Sequence[str]:
        """The names of the classes, as far as they are known."""
        known = (self.run.get("dataset") or {}).get("class_names")
        return self.words.get("classes") or known or ()

    def class_name(self, index: int) -> str:
        """The name of a class, or its number."""
        names = self.class_names
        return names[index] if index < len(names) else str(index)
