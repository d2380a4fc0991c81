"""What all estimators do: standardise, draw, judge the draws, and predict."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesnn_ppl.core.predictions import far_inputs_expected
from bayesnn_ppl.data.common.dataset import assemble
from bayesnn_ppl.data.common.standardisation import Units
from bayesnn_ppl.data.new_inputs import standardised, warn_outside
from bayesnn_ppl.diagnostics import Diagnosis, FitDiagnosis
from bayesnn_ppl.posterior.posterior import Posterior, Prediction
from bayesnn_ppl.sklearn.methods import MethodSettings, posterior_of

__all__ = ["BayesianEstimator"]

_PROBES = 100  # training rows at which the diagnosis looks
_LEAST_ROWS, _MOST_ROWS = 64, 1024  # to which the number of new rows is filled up


class BayesianEstimator(BaseEstimator):
    """What regression and classification share; the parameters are those of `BayesianRegressor`."""

    posterior_: Posterior
    diagnosis_: Diagnosis | FitDiagnosis

    def __init__(
        self,
        model: Any,
        *,
        method: Any = None,
        warmup: int | None = None,
        draws: int | None = None,
        chains: int | None = None,
        init: Any = None,
        max_time: float | str | None = None,
        standardise: Units = True,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.model = model
        self.method = method
        self.warmup = warmup
        self.draws = draws
        self.chains = chains
        self.init = init
        self.max_time = max_time
        self.standardise = standardise
        self.random_state = random_state
        self.progress = progress

    def _fit(self, model: Any, x: np.ndarray, y: np.ndarray, classes: list[str] | None) -> None:
        """Standardise, draw, and judge the draws.

        Args:
            model: a NumPyro model.
            x: float64, shape (n, d).
            y: float64, shape (n,), or labels 0..K-1.
            classes: names of the labels; None for regression.
        """
        names = getattr(self, "feature_names_in_", None)
        data = assemble(
            x,
            y,
            np.arange(len(x)),
            np.arange(0),
            standardise=self.standardise,
            name="arrays",
            feature_names=[f"x{i}" for i in range(x.shape[1])] if names is None else list(names),
            target_name="y",
            class_names=classes,
            description=f"Arrays given to {type(self).__name__}.",
        )
        settings = MethodSettings(
            method=self.method,
            warmup=self.warmup,
            draws=self.draws,
            chains=self.chains,
            init=self.init,
            max_time=self.max_time,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            progress=self.progress,
        )
        self.posterior_ = posterior_of(model, data.train.x, data.train.y, settings)
        rows = np.unique(np.linspace(0, len(x) - 1, _PROBES).astype(int))
        self.diagnosis_ = self.posterior_.diagnose(data.train.x[rows])
        if self.diagnosis_.status not in ("converged", "approximate", "fitted"):
            warnings.warn(
                f"The draws of {type(self).__name__} are {self.diagnosis_.status}. "
                f"{self.diagnosis_.verdict} `diagnosis_` has the details.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _prediction(self, X: Any) -> tuple[Prediction, slice]:
        """A prediction, and which of its rows are those of X (n, d)."""
        check_is_fitted(self, "posterior_")
        run = self.posterior_.provenance
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        x = standardised(rows, run)
        warn_outside(x, run, given=x)
        # Each number of rows is a program to compile, so there are few of them. And a row's result
        # is the same whichever rows it comes with: XLA adds in another order for another shape.
        size = _LEAST_ROWS
        while size < min(len(x), _MOST_ROWS):
            size *= 2
        more = np.broadcast_to(x[:1], (-len(x) % size, x.shape[1]))
        with far_inputs_expected():  # this has been said
            return self.posterior_.predict(np.concatenate([x, more])), slice(len(x))
