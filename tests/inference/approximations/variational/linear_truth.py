"""A linear model of known noise; its posterior at any temperature, and its evidence."""

import numpy as np

import bayesnn_ppl as bnn

PRIOR, NOISE = 0.7, 0.5
NAMES = ("net.Dense_0.kernel", "net.Dense_0.bias")


def data():
    """Forty rows whose inputs are off centre, so that the posterior is correlated."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2)) + 1.0
    y = x @ np.array([0.8, -0.5]) + 0.3 + NOISE * generator.normal(size=40)
    return x, y


def program(prior=None, temperature=1.0):
    prior = bnn.priors.normal(PRIOR) if prior is None else prior
    likelihood = bnn.likelihoods.gaussian(scale=NOISE)
    return bnn.bayesian_network(
        bnn.nn.MLP(hidden=(), outputs=1), prior, likelihood, temperature=temperature
    )


def design(x):
    return np.column_stack([x, np.ones(len(x))])


def posterior(x, y, *, likelihood=1.0, whole=1.0, prior=PRIOR):
    """Mean and precision where the likelihood counts `likelihood` times and all `whole` times."""
    a = design(x)
    precision = likelihood * a.T @ a / NOISE**2 + np.eye(3) / prior**2
    mean = np.linalg.solve(precision, likelihood * a.T @ y / NOISE**2)
    return mean, whole * precision


def log_evidence(x, y, prior=PRIOR):
    covariance = NOISE**2 * np.eye(len(y)) + prior**2 * design(x) @ design(x).T
    quadratic = y @ np.linalg.solve(covariance, y)
    return -0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * covariance)[1])


def draws_of(fitted):
    """Draws (draws, 3) in the order of the design's columns."""
    return np.concatenate(
        [fitted.draws[name][0].reshape(fitted.draws[name].shape[1], -1) for name in NAMES], axis=1
    )


def moment_errors(draws, mean, covariance):
    """How many standard errors the moments of independent normal draws are from the truth."""
    count = len(draws)
    sd = np.sqrt(np.diag(covariance))
    of_mean = np.abs(draws.mean(0) - mean) / (sd / np.sqrt(count))
    spread = np.outer(sd, sd)
    correlation = covariance / spread
    error = np.sqrt((1 + correlation**2) / count)
    return of_mean.max(), (np.abs(np.cov(draws.T) / spread - correlation) / error).max()
