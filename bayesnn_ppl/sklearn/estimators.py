"""Regression and classification of tables, of any model and by any method."""

import inspect
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from bayesnn_ppl.core.arguments import positive, strict_switches
from bayesnn_ppl.data.common.checks import ARRAYS, check_regression_target
from bayesnn_ppl.sklearn.base import BayesianEstimator

__all__ = ["BayesianClassifier", "BayesianRegressor"]


class BayesianRegressor(RegressorMixin, BayesianEstimator):
    """Bayesian regression of a table: any NumPyro model, sampled or approximated by any method.

    `fit` standardises inputs and targets by the training rows, draws from the posterior
    p(θ | D) ∝ p(y | x, θ) p(θ), and judges the draws. Predictions are those of the posterior
    predictive p(y | x, D) = E p(y | x, θ), in the units of the data. Sparse inputs, several targets
    and `sample_weight` are refused.

    By default up to 1 000 rows are sampled by ChEES (Hoffman et al. 2021), and more rows as by
    `bnn.mile` (Sommer et al. 2025, arXiv:2502.06335) with a tenth of its warm-up, 5 000 steps, and
    200 draws: chains from trained networks, whose verdict is usually "not converged". On four UCI
    sets of 277 to 927 rows ChEES had the lower test NLL in 7 of 8 runs, by up to 0.3, after 48 to
    205 s. On kin8nm, 7 373 rows, it had no draw after 200 s, and these chains had the lowest
    NLL after 108 s (`python -m benchmarks estimator_methods`).

    Args:
        model: a NumPyro model `model(x, y=None, *, batch_size=None)` of standardised rows, such as
            `bnn.models.linear()`; see `bnn.bayesian_network`.
        method: a class such as `bnn.kernels.HMC` or `bnn.approximations.Laplace`, a
            `functools.partial` of one, another function that builds one from the model, an
            approximation without a model, or `bnn.mile`. None chooses by the number of rows, see
            above.
        warmup, draws, chains: draws per chain that adapt a kernel, draws per chain that are kept,
            and chains; None for 500, 500 and 4. An approximation has settings of its own, and
            `mile` has `warmup_steps`.
        init: where chains start, as for `bnn.sample`: "network", `bnn.approximations.Ensemble()`;
            None for draws from the prior.
        max_time: seconds, or text such as "10m", after which a sampler returns the draws it has;
            compilation and warm-up count, the diagnosis does not. Approximations refuse it.
        standardise: whether inputs and targets are mapped to mean 0 and standard deviation 1;
            "inputs" leaves targets, such as counts, as they are.
        random_state: an integer for the same draws at every `fit`, a
            `numpy.random.RandomState`, or None for other draws each time.
        progress: show a bar.

    Attributes:
        posterior_: the `Posterior`, for everything else: `posterior_.predict(x, raw=True)`,
            `bnn.report.page`, ArviZ.
        diagnosis_: the verdict, from function values at up to 100 training rows.
        n_features_in_, feature_names_in_: as in every estimator of scikit-learn.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> from sklearn.datasets import load_diabetes
        >>> x, y = load_diabetes(return_X_y=True)
        >>> laplace = bnn.sklearn.BayesianRegressor(
        ...     bnn.models.linear(), method=bnn.approximations.Laplace, random_state=0)
        >>> laplace.fit(x[:400], y[:400]).diagnosis_.status
        'fitted'
        >>> mean, std = laplace.predict(x[400:], return_std=True)
        >>> mean.shape == std.shape == (42,)
        True
    """

    def _model(self) -> Any:
        return self.model

    def fit(self, X: Any, y: Any) -> Self:
        """Draw from the posterior given the rows.

        Args:
            X: numbers without NaN, shape (n, d) with n ≥ 2: an array, or a table of pandas or
                polars, whose columns are then known by name.
            y: shape (n,), not all equal.

        Returns:
            The estimator.

        Raises:
            TypeError, ValueError: the data, the model or a parameter is not what it must be; said
                before anything is compiled.
            RuntimeError: `max_time` was over before the first draw.

        Warns:
            ConvergenceWarning: of scikit-learn, where the verdict is "not converged",
                "doubtful" or "not judged".
        """
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, np.float64)
        check_regression_target(y, ARRAYS)
        self._fit(self._model(), x, y, None)
        return self

    @strict_switches
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of the posterior predictive distribution, in the units of y.

        Args:
            X: shape (n, d).
            return_std: return the predictive standard deviation too: noise and uncertainty about
                the function, √Var(y | x, D).

        Returns:
            float64 of shape (n,), or a pair of these.
        """
        prediction, rows = self._prediction(X)
        mean = prediction.mean[rows]
        return (mean, np.sqrt(prediction.variance[rows])) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """The central predictive interval, which y lies in with the probability `level`.

        Args:
            X: shape (n, d).
            level: between 0 and 1.

        Returns:
            Lower and upper ends in the units of y, the (1 - level)/2 and (1 + level)/2 quantiles of
            the posterior predictive, shape (n, 2).

        Raises:
            TypeError, ValueError: `level` is not a number between 0 and 1.
        """
        if positive(level, "`level`") >= 1:
            raise ValueError(
                f"`level` is the probability of the interval, between 0 and 1, not {level}: 0.9 is "
                "an interval of 90 %."
            )
        prediction, rows = self._prediction(X)
        return prediction.quantile([0.5 - level / 2, 0.5 + level / 2])[:, rows].T


class BayesianClassifier(ClassifierMixin, BayesianEstimator):
    """Bayesian classification of a table: any NumPyro model, sampled or approximated by any method.

    As `BayesianRegressor`, for labels of any type, which `classes_` has in their order.

    Args:
        model: a NumPyro model of standardised rows and labels 0..K-1; or a function with an
            argument `classes` that builds one, such as `bnn.models.logistic`, which is given the
            number of labels in `y`.
        method, warmup, draws, chains, init, max_time, standardise, random_state, progress: as for
            `BayesianRegressor`; labels are never standardised.

    Attributes:
        classes_: the labels, sorted, shape (K,).
        posterior_, diagnosis_, n_features_in_, feature_names_in_: as of `BayesianRegressor`.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> laplace = bnn.sklearn.BayesianClassifier(
        ...     bnn.models.logistic, method=bnn.approximations.Laplace, random_state=0)
        >>> laplace.fit(x, y).predict_proba(x).shape
        (150, 3)
    """

    classes_: np.ndarray

    def _model(self, classes: int) -> Any:
        if callable(self.model) and "classes" in inspect.signature(self.model).parameters:
            return self.model(classes=classes)
        return self.model

    def fit(self, X: Any, y: Any) -> Self:
        """Draw from the posterior given the rows.

        Args:
            X: numbers without NaN, shape (n, d), as for `BayesianRegressor.fit`.
            y: labels, shape (n,): numbers, text or booleans, of two classes or more.

        Returns:
            The estimator.

        Raises:
            TypeError, ValueError, RuntimeError: as `BayesianRegressor.fit`.

        Warns:
            ConvergenceWarning: as `BayesianRegressor.fit`.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        classes = [str(name) for name in self.classes_]
        if len(classes) < 2:
            raise ValueError(
                f"`y` has one class, {classes[0]}, in all its rows, so there is nothing to learn. "
                "Classification needs at least two classes."
            )
        self._fit(self._model(len(classes)), x, labels, classes)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities averaged over the posterior, (n, K), in the order of `classes_`.

        Args:
            X: shape (n, d).
        """
        prediction, rows = self._prediction(X)
        return prediction.probabilities[rows]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row, shape (n,).

        Args:
            X: shape (n, d).
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
