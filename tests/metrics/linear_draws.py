"""Exact draws of linear regression's posterior at any temperature, and its exact predictions.

θ ~ N(0, I), y ~ N(Φθ, σ²), Φ = (x, 1). With the likelihood at T and the whole at T', the precision
is (I + ΦᵀΦ/(σ²T))/T' and the mean that of T. A new y is N(φᵀm, φᵀΣφ + σ²): never tempered.
"""

import numpy as np
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.core.arrays import data_hash

NOISE = 0.5
MODEL = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(NOISE))


def features(x):
    return np.column_stack([x, np.ones(len(x))]).astype(float)


def moments(x, y, *, likelihood=1.0, whole=1.0):
    """Mean and covariance of the weights."""
    phi = features(x)
    precision = np.eye(phi.shape[1]) + phi.T @ phi / (NOISE**2 * likelihood)
    mean = np.linalg.solve(precision, phi.T @ y.astype(float) / (NOISE**2 * likelihood))
    return mean, whole * np.linalg.inv(precision)


def log_scores(x_new, y_new, x, y, **temperatures):
    """log p(y_new | x_new, x, y), in closed form."""
    mean, covariance = moments(x, y, **temperatures)
    phi = features(x_new)
    variance = np.einsum("ni,ij,nj->n", phi, covariance, phi) + NOISE**2
    return stats.norm.logpdf(y_new, phi @ mean, np.sqrt(variance))


def without_each_row(x, y, **temperatures):
    """log p(y_i | all other rows), (N,)."""
    return np.array(
        [
            log_scores(x[[i]], y[[i]], np.delete(x, i, 0), np.delete(y, i), **temperatures)[0]
            for i in range(len(y))
        ]
    )


def exact_posterior(
    x, y, *, likelihood=1.0, whole=1.0, seed=0, shape=(4, 1000), statistics=None, **attributes
):
    """A `Posterior` of independent draws, with the provenance of a run."""
    mean, covariance = moments(x, y, likelihood=likelihood, whole=whole)
    theta = np.random.default_rng(seed).multivariate_normal(mean, covariance, size=shape)
    theta = theta.astype(np.float32)
    draws = {"net/Dense_0.kernel": theta[..., :-1, None], "net/Dense_0.bias": theta[..., -1:]}
    known = {
        "kernel": "Exact",
        "kernel_settings": {},
        "latents": list(draws),
        "precision": "float32",
        "local": [],
        "input_shape": list(x.shape[1:]),
        "rows": len(x),
        "data_sha256": data_hash(x, y),
        "observed": "Normal",
        "likelihood_temperature": likelihood,
        "posterior_temperature": whole,
        "seconds": {"total": 1.5},
    }
    return bnn.Posterior.from_arrays(
        draws, statistics or {"lp": np.zeros(shape)}, known | attributes, model=MODEL
    )
