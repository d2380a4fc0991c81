"""The linear model of known noise: its posterior at any temperature, and its evidence."""

from typing import NamedTuple

import numpy as np
import optax

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.contract import inspect_model

PRIOR, NOISE = 0.7, 0.5
NAMES = ("net.Dense_0.kernel", "net.Dense_0.bias")
MODE = bnn.approximations.MAP(optimiser=optax.lbfgs(), schedule=None, batch_size=None, epochs=60)


def data():
    """Forty rows whose inputs are off centre, so that the posterior is correlated."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2)) + 1.0
    y = x @ np.array([0.8, -0.5]) + 0.3 + NOISE * generator.normal(size=40)
    return x, y


def linear(temperature=1.0, prior=None, noise=NOISE):
    return bnn.bayesian_network(
        bnn.nn.MLP(hidden=(), outputs=1),
        bnn.priors.normal(PRIOR) if prior is None else prior,
        bnn.likelihoods.gaussian(scale=noise),
        temperature=temperature,
    )


def problem_of(model, x, y, *, float64=True):
    return Problem(model, x, y, inspect_model(model, x, y), 0, float64, None, False, None)


def design(x):
    return np.column_stack([x, np.ones(len(x))]).astype(float)


def posterior(x, y, *, likelihood=1.0, whole=1.0, prior=PRIOR, noise=NOISE):
    """Mean and precision where the likelihood counts `likelihood` times and all `whole` times."""
    a = design(x)
    precision = likelihood * a.T @ a / noise**2 + np.eye(a.shape[1]) / prior**2
    mean = np.linalg.solve(precision, likelihood * a.T @ y / noise**2)
    return mean, whole * precision


class Exact(NamedTuple):
    mean: np.ndarray
    precision: np.ndarray
    log_evidence: float


def exact(x, y, *, temperature=1.0, noise=NOISE, prior=PRIOR):
    """The posterior of kernel and bias, and log of the integral of p(y|θ)^(1/T) p(θ)."""
    mean, precision = posterior(x, y, likelihood=1 / temperature, noise=noise, prior=prior)
    log_z = -0.5 * len(y) * np.log(2 * np.pi * noise**2) / temperature
    log_z -= 0.5 * (y @ y / (noise**2 * temperature) - mean @ precision @ mean)
    log_z -= 0.5 * np.linalg.slogdet(precision)[1] + len(mean) * np.log(prior)
    return Exact(mean, precision, log_z)


def draws_of(fitted):
    """Draws (draws, 3) in the order of the design's columns."""
    return np.concatenate(
        [fitted.draws[name][0].reshape(fitted.draws[name].shape[1], -1) for name in NAMES], axis=1
    )


def moment_errors(draws, mean, covariance):
    """The largest errors of a mean and of a covariance of independent normal draws, in SE."""
    count, variance = len(draws), np.diag(covariance)
    of_mean = np.abs(draws.mean(0) - mean) / np.sqrt(variance / count)
    spread = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
    return of_mean.max(), (np.abs(np.cov(draws.T) - covariance) / spread).max()


def worst_error(draws, mean, covariance):
    return max(moment_errors(draws, mean, covariance))
