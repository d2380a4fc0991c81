"""What a Bayesian network has to be compared with: linear models, the mean, shares of classes."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

LEVEL = 0.9


class Forecast(NamedTuple):
    """What one method says of n test rows, in the data's units.

    Attributes:
        name: of the method.
        mean, lower, upper: predictive mean and ends of the central 90 % interval, shape (n,).
        nll: -log density of each observation, nats, shape (n,).
    """

    name: str
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    nll: np.ndarray

    def scores(self, y: np.ndarray) -> dict[str, float]:
        """RMSE, mean NLL, coverage and width of the 90 % interval, against y of shape (n,)."""
        return {
            "rmse": float(np.sqrt(np.mean((self.mean - y) ** 2))),
            "nll": float(np.mean(self.nll)),
            "coverage_90": float(np.mean((self.lower <= y) & (y <= self.upper))),
            "width_90": float(np.mean(self.upper - self.lower)),
        }


def _gaussian(name: str, mean: np.ndarray, sd: float, y: np.ndarray) -> Forecast:
    lower, upper = norm.interval(LEVEL, mean, sd)
    return Forecast(name, mean, lower, upper, -norm.logpdf(y, mean, sd))


def linear_regression(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: Any) -> Forecast:
    """Least squares with Gaussian noise: its variance is RSS / (n - d - 1) of the training rows.

    Args:
        x, y: training rows, (n, d) and (n,), y in the data's units.
        x_new, y_new: test rows.
    """
    from sklearn.linear_model import LinearRegression

    fitted = LinearRegression().fit(x, y)
    residuals = y - fitted.predict(x)
    sd = float(np.sqrt(residuals @ residuals / (len(y) - x.shape[1] - 1)))
    return _gaussian("linear regression", fitted.predict(x_new), sd, y_new)


def training_mean(y: np.ndarray, y_new: np.ndarray) -> Forecast:
    """The mean and standard deviation of the training targets, whatever the inputs."""
    mean, sd = float(np.mean(y)), float(np.std(y, ddof=1))
    return _gaussian("mean of training rows", np.full(len(y_new), mean), sd, y_new)


def posterior_forecast(name: str, prediction: Any, y: Any) -> Forecast:
    """The predictions of a posterior at the test rows, whose y is in the units of the model."""
    lower, upper = prediction.quantile([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    nll = -np.asarray(prediction.log_prob(y), dtype=np.float64)
    return Forecast(name, np.asarray(prediction.mean), lower, upper, nll)


def comparison(
    first: Forecast, second: Forecast, y: np.ndarray, *, called: str | None = None
) -> str:
    """A sentence on which of two forecasts is better, and whether so few rows can tell.

    Args:
        first, second: the forecasts, whose names are those of methods.
        y: the observations, (n,), in the data's units.
        called: what the first one is called in place of "the" and its name, which may be that of a
            folder.
    """
    scores = []  # differences of losses in standard errors of their mean: the rows are the same
    for a, b in (((first.mean - y) ** 2, (second.mean - y) ** 2), (first.nll, second.nll)):
        error = float(np.std(a - b, ddof=1) / np.sqrt(len(y)))
        scores.append(float(np.mean(a - b)) / error if error > 0 else 0.0)
    square, nll = (f"{abs(s):.1f} standard errors {'above' if s > 0 else 'below'}" for s in scores)
    tell = (
        f"too little to tell them apart with {len(y)} rows"
        if max(map(abs, scores)) < 2
        else f"more than chance would give with {len(y)} rows"
    )
    return (
        f"Row by row, the squared error of {called or f'the {first.name}'} lies {square} that of "
        f"the {second.name}, and its NLL {nll}: {tell}."
    )


class Vote(NamedTuple):
    """What one method says of n test rows with labels.

    Attributes:
        name: of the method.
        probabilities: of the classes, shape (n, K).
    """

    name: str
    probabilities: np.ndarray

    def scores(self, labels: np.ndarray) -> dict[str, float]:
        """Accuracy, mean NLL and Brier score against labels of shape (n,)."""
        from bayesnn_ppl import metrics

        return {
            "accuracy": float(metrics.accuracy(self.probabilities, labels)),
            "nll": float(metrics.nll_probabilities(self.probabilities, labels)),
            "brier": float(metrics.brier(self.probabilities, labels)),
        }


def logistic_regression(x: np.ndarray, labels: np.ndarray, x_new: np.ndarray, classes: int) -> Vote:
    """Maximum a posteriori logistic regression with the unit prior of scikit-learn (C = 1).

    Args:
        x, labels: training rows, (n, d) and (n,).
        x_new: test rows.
        classes: K; one that no training row has gets the probability 0.
    """
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(max_iter=2000).fit(x, labels)
    probabilities = np.zeros((len(x_new), classes))
    probabilities[:, fitted.classes_.astype(int)] = fitted.predict_proba(x_new)
    return Vote("logistic regression", probabilities)


def class_shares(labels: np.ndarray, rows: int, classes: int) -> Vote:
    """The shares of the classes in training, with one row added to each, whatever the inputs."""
    counts = np.bincount(labels, minlength=classes) + 1.0
    return Vote("shares of the classes", np.tile(counts / counts.sum(), (rows, 1)))
