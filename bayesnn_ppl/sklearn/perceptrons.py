"""Estimators whose model is a multilayer perceptron."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.data.common.standardisation import Units
from bayesnn_ppl.likelihoods import categorical, gaussian
from bayesnn_ppl.likelihoods.common.base import Likelihood
from bayesnn_ppl.modeling.bayesian_networks import bayesian_network
from bayesnn_ppl.nn.mlp import MLP
from bayesnn_ppl.priors import fan_in_normal
from bayesnn_ppl.sklearn.estimators import BayesianClassifier, BayesianRegressor

__all__ = ["BayesianMLPClassifier", "BayesianMLPRegressor"]


class BayesianMLPRegressor(BayesianRegressor):
    """Regression of a table by a Bayesian multilayer perceptron.

    y ~ likelihood(f(x)), where f has the layers `hidden` and a prior on every weight. See
    `BayesianRegressor` for what `fit` does, for the attributes and for the default method.

    Args:
        hidden: widths of the hidden layers; a number is that of a single one.
        activation: "tanh", "relu", "swish", "gelu" or "sigmoid".
        prior: of the weights, see `bnn.priors`; None for `fan_in_normal()`, which keeps the size of
            f as the width grows.
        likelihood: of `bnn.likelihoods`, for one target; None for `gaussian()`, with a learned
            noise. Counts need `standardise="inputs"`.
        method, warmup, draws, chains, init, max_time, standardise, random_state, progress: as for
            `BayesianRegressor`.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> from sklearn.datasets import load_diabetes
        >>> x, y = load_diabetes(return_X_y=True)
        >>> regressor = bnn.sklearn.BayesianMLPRegressor(
        ...     hidden=4, method=bnn.approximations.Laplace, random_state=0)
        >>> regressor.fit(x[:400], y[:400]).predict_interval(x[400:], level=0.8).shape
        (42, 2)
    """

    def __init__(
        self,
        hidden: int | Sequence[int] = (50,),
        *,
        activation: str = "tanh",
        prior: Any = None,
        likelihood: Any = None,
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
        self.hidden = hidden
        self.activation = activation
        self.prior = prior
        self.likelihood = likelihood
        self.method = method
        self.warmup = warmup
        self.draws = draws
        self.chains = chains
        self.init = init
        self.max_time = max_time
        self.standardise = standardise
        self.random_state = random_state
        self.progress = progress

    def _model(self) -> Any:
        likelihood = gaussian() if self.likelihood is None else self.likelihood
        return _perceptron(self.hidden, self.activation, self.prior, likelihood)


class BayesianMLPClassifier(BayesianClassifier):
    """Classification of a table by a Bayesian multilayer perceptron.

    As `BayesianMLPRegressor`, for labels of any type.

    Args:
        hidden, activation, prior: as for `BayesianMLPRegressor`.
        likelihood: a function of the number of classes, such as `bnn.likelihoods.ordinal`; None for
            `categorical`.
        method, warmup, draws, chains, init, max_time, standardise, random_state, progress: as for
            `BayesianRegressor`.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> classifier = bnn.sklearn.BayesianMLPClassifier(
        ...     hidden=4, method=bnn.approximations.Laplace, random_state=0)
        >>> classifier.fit(x, y).score(x, y) > 0.9
        True
    """

    def __init__(
        self,
        hidden: int | Sequence[int] = (50,),
        *,
        activation: str = "tanh",
        prior: Any = None,
        likelihood: Any = None,
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
        self.hidden = hidden
        self.activation = activation
        self.prior = prior
        self.likelihood = likelihood
        self.method = method
        self.warmup = warmup
        self.draws = draws
        self.chains = chains
        self.init = init
        self.max_time = max_time
        self.standardise = standardise
        self.random_state = random_state
        self.progress = progress

    def _model(self, classes: int) -> Any:
        likelihood = categorical if self.likelihood is None else self.likelihood
        if isinstance(likelihood, Likelihood) or not callable(likelihood):
            raise TypeError(
                f"`likelihood` of a classifier is {likelihood!r}, but must be a function of the "
                "number of classes, which only the labels tell: `bnn.likelihoods.categorical`, "
                "without a call."
            )
        return _perceptron(self.hidden, self.activation, self.prior, likelihood(classes))


def _perceptron(hidden: Any, activation: str, prior: Any, likelihood: Any) -> Any:
    """The model; `bayesian_network` says what is wrong with a prior or a likelihood."""
    layers = np.atleast_1d(np.asarray(hidden, object)).tolist()
    widths = tuple(integer(width, "A width in `hidden`", at_least=1) for width in layers)
    network = MLP(widths, outputs=getattr(likelihood, "outputs", None), activation=activation)
    return bayesian_network(network, fan_in_normal() if prior is None else prior, likelihood)
