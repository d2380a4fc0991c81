"""Posteriors without draws: closed-form predictions, as objects with the interface of `predict`."""

from types import SimpleNamespace

import numpy as np
from scipy import stats

CENTRE, SCALE = 50.0, 4.0  # data's units = CENTRE + SCALE · model's units


def numbers(mean, sd):
    """Predictions N(mean(x), sd(x)²) in the model's units, shown in those of the data."""

    def predict(x):
        m, s = (CENTRE + SCALE * mean(x)), SCALE * np.broadcast_to(sd(x), mean(x).shape)
        return SimpleNamespace(
            task="regression",
            mean=m,
            variance=s**2,
            quantile=lambda q: stats.norm.ppf(q, m, s),
            y=lambda y: CENTRE + SCALE * np.asarray(y),
        )

    return SimpleNamespace(predict=predict)


def linear(x, y, *, noise):
    """The exact posterior of a linear model with N(0, 10²) weights and a noise that is given."""
    phi = np.column_stack([x, np.ones(len(x))])
    precision = np.eye(phi.shape[1]) / 100 + phi.T @ phi / noise**2
    weights = np.linalg.solve(precision, phi.T @ y / noise**2)
    covariance = np.linalg.inv(precision)

    def design(new):
        return np.column_stack([new, np.ones(len(new))])

    return numbers(
        lambda new: design(new) @ weights,
        lambda new: np.sqrt(
            np.einsum("ni,ij,nj->n", design(new), covariance, design(new)) + noise**2
        ),
    )


def classes(probabilities):
    """Predictions of class probabilities, a function of x."""

    def predict(x):
        return SimpleNamespace(task="classification", probabilities=probabilities(x))

    return SimpleNamespace(predict=predict)
