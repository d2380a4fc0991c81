"""Models whose posterior moments are known, and the test of a sampler against them."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk

NOISE = 0.5  # of `closed_form` and LINEAR


def closed_form(x, y, *, likelihood_temperature=1.0, posterior_temperature=1.0):
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)
    evidence = phi.T @ phi / (NOISE**2 * likelihood_temperature)
    precision = (np.eye(phi.shape[1]) + evidence) / posterior_temperature
    covariance = np.linalg.inv(precision)
    weighted = phi.T @ y / (NOISE**2 * likelihood_temperature * posterior_temperature)
    return covariance @ weighted, covariance


def coefficients(posterior):
    draws = posterior.draws
    kernel = draws["net.Dense_0.kernel"][..., 0]
    return np.concatenate([kernel, draws["net.Dense_0.bias"]], axis=-1).astype(float)


def worst_deviation(theta, mean, covariance):
    """The largest distance of a first or second moment from its true value, in MCSE."""
    centred = theta - mean
    i, j = np.triu_indices(len(mean))
    quantities = np.concatenate([centred, centred[..., i] * centred[..., j]], axis=-1)
    expected = np.concatenate([np.zeros(len(mean)), covariance[i, j]])
    ess = np.asarray(ess_bulk(quantities))
    assert ess.min() > 400, "check ESS before bias"
    mcse = quantities.std(axis=(0, 1)) / np.sqrt(ess)
    return np.max(np.abs(quantities.mean(axis=(0, 1)) - expected) / mcse)


# The data say nothing about the parameters of the models here: the prior is the posterior.
NO_DATA = np.zeros((4, 1), np.float32), np.zeros(4, np.float32)
SETTINGS = dict(chains=4, seed=1, progress=False)
LINEAR = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(NOISE))


def unrelated_data(x, y, batch_size):
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(jnp.zeros(x.shape[0]), 1.0), obs=y)


ALIGNED = np.diag(np.geomspace(1.0, 1e-4, 4))


def standard_normals(x, y=None, *, batch_size=None):
    """Three of them on the site "theta", for runs that are only to run."""
    numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([3]))


def gaussian(covariance):
    """N(0, covariance) on the site "theta"."""

    def model(x, y=None, *, batch_size=None):
        numpyro.sample(
            "theta",
            dist.MultivariateNormal(jnp.zeros(len(covariance)), jnp.asarray(covariance)),
        )
        unrelated_data(x, y, batch_size)

    return model


def funnel_and_banana(x, y=None, *, batch_size=None):
    """v ~ N(0, 1), u_i ~ N(0, e^v); a ~ N(0, 1), b ~ N((a² - 1)/2, 1/4)."""
    v = numpyro.sample("v", dist.Normal(0.0, 1.0))
    numpyro.sample("u", dist.Normal(0.0, jnp.exp(v / 2)).expand([2]))
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("b", dist.Normal(0.5 * (a**2 - 1), 0.5))
    unrelated_data(x, y, batch_size)


def funnel_and_banana_values(posterior):
    """v, u, a, b in one array, and its mean and covariance in closed form."""
    draws = posterior.draws
    parts = [draws["v"][..., None], draws["u"], draws["a"][..., None], draws["b"][..., None]]
    # Var u = E e^v = e^{1/2}; Var b = Var(a²)/4 + 1/4 = 3/4; all covariances vanish.
    covariance = np.diag([1.0, np.exp(0.5), np.exp(0.5), 1.0, 0.75])
    return np.concatenate(parts, axis=-1).astype(float), np.zeros(5), covariance


def gaussian_deviation(kernel, covariance, **settings):
    """The worst error of a moment of a Gaussian, in Monte-Carlo standard errors."""
    posterior = bnn.sample(kernel, *NO_DATA, **(SETTINGS | settings))
    theta = posterior.draws["theta"].astype(float)
    return worst_deviation(theta, np.zeros(len(covariance)), covariance)


def linear_deviation(kernel, x, y, *, temperatures=None, **settings):
    """Likewise for Bayesian linear regression with known noise."""
    posterior = bnn.sample(kernel, x, y, **(SETTINGS | settings))
    return worst_deviation(coefficients(posterior), *closed_form(x, y, **(temperatures or {})))


def scale_model(x, y=None, *, batch_size=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(0.0, scale), obs=y)


def half_space(x, y=None, *, batch_size=None):
    """N(0, I) without the half space a > 1, where the density is NaN."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([3]))
    numpyro.factor("hole", 0 * jnp.sqrt(1.0 - theta[0]))
    unrelated_data(x, y, batch_size)
