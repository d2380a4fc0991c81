"""The linear model whose posterior and evidence are known, and problems for approximations."""

from typing import NamedTuple

import numpy as np
import optax

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.contract import inspect_model

MODE = bnn.approximations.MAP(optimiser=optax.lbfgs(), schedule=None, batch_size=None, epochs=60)
NOISE, PRIOR = 0.5, 0.7


def problem_of(model, x, y, *, float64=True):
    return Problem(model, x, y, inspect_model(model, x, y), 0, float64, None, False, None)


def linear(temperature=1.0, prior=PRIOR, noise=NOISE):
    return bnn.bayesian_network(
        bnn.nn.MLP(hidden=(), outputs=1),
        bnn.priors.normal(prior),
        bnn.likelihoods.gaussian(scale=noise),
        temperature=temperature,
    )


def rows():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2))
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.3 * generator.normal(size=40)


class Exact(NamedTuple):
    mean: np.ndarray
    precision: np.ndarray
    log_evidence: float


def exact(x, y, *, temperature=1.0, noise=NOISE, prior=PRIOR):
    """The posterior of kernel and bias, and log of the integral of p(y|θ)^(1/T) p(θ)."""
    design = np.column_stack([x, np.ones(len(x))])
    d = design.shape[1]
    precision = design.T @ design / (noise**2 * temperature) + np.eye(d) / prior**2
    mean = np.linalg.solve(precision, design.T @ y / (noise**2 * temperature))
    log_z = -0.5 * len(y) * np.log(2 * np.pi * noise**2) / temperature
    log_z -= 0.5 * (y @ y / (noise**2 * temperature) - mean @ precision @ mean)
    log_z -= 0.5 * np.linalg.slogdet(precision)[1] + d * np.log(prior)
    return Exact(mean, precision, log_z)
