"""Against closed forms: linear regression with known noise, at T = 1 and T = 0.5.

θ ~ N(0, I), y ~ N(Φθ, σ²): likelihood temperature T gives the posterior precision
I + ΦᵀΦ/(σ²T), whole-posterior temperature T gives (I + ΦᵀΦ/σ²)/T; the mean of the first is
Σ Φᵀy/(σ²T), that of the second does not depend on T.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import HMC, NUTS
from scipy import integrate

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk

NOISE = 0.5


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


def draw(model, x, y, kernel=NUTS, **settings):
    return coefficients(
        bnn.sample(kernel(model, **settings), x, y, warmup=400, draws=1000, seed=1, progress=False)
    )


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("which", ["likelihood", "posterior"])
def test_nuts_has_the_closed_form_moments(regression, temperature, which):
    x, y = regression
    likelihood = bnn.likelihoods.gaussian(NOISE)
    if which == "likelihood":
        model = bnn.models.linear(likelihood=likelihood, temperature=temperature)
    else:
        model = bnn.cold(bnn.models.linear(likelihood=likelihood), temperature)
    theta = draw(model, x, y)
    name = f"{which}_temperature"
    assert worst_deviation(theta, *closed_form(x, y, **{name: temperature})) < 4
    # The negative control: the same draws at any other temperature must be caught.
    wrong = 0.5 if temperature == 1.0 else 1.0
    assert worst_deviation(theta, *closed_form(x, y, **{name: wrong})) > 6


def test_hmc_has_the_closed_form_moments(regression):
    x, y = regression
    model = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(NOISE))
    # A shorter trajectory than NumPyro's 2π, which brings a Gaussian back to where it began.
    theta = draw(model, x, y, HMC, trajectory_length=1.7)
    assert worst_deviation(theta, *closed_form(x, y)) < 4


def scale_model(x, y=None, *, batch_size=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(0.0, scale), obs=y)


def test_a_cold_half_normal_scale_against_quadrature():
    temperature = 0.5
    y = np.array([0.3, -0.8, 1.1], dtype=np.float32)

    def density(s):
        log_p = -0.5 * s**2 - len(y) * np.log(s) - 0.5 * np.sum(y**2) / s**2
        return np.exp(log_p / temperature)

    total, mean, square = (
        integrate.quad(lambda s, k=k: s**k * density(s), 0.01, 20)[0] for k in range(3)
    )
    with pytest.warns(UserWarning, match=r"depends on how the program is parametrised.*'scale'"):
        posterior = bnn.sample(
            NUTS(bnn.cold(scale_model, temperature)),
            y[:, None],
            y,
            warmup=500,
            draws=3000,
            seed=0,
            progress=False,
        )
    assert posterior.provenance["posterior_temperature"] == temperature
    scale = posterior.draws["scale"].astype(float)[..., None]
    variance = square / total - (mean / total) ** 2
    assert worst_deviation(scale, np.array([mean / total]), np.array([[variance]])) < 4
    # The negative control: the Jacobian tempered as well, density s^{1/T - 1} too high.
    tilt = [
        integrate.quad(lambda s, k=k: s ** (k + 1 / temperature - 1) * density(s), 0.01, 20)[0]
        for k in range(2)
    ]
    wrong = np.array([tilt[1] / tilt[0]])
    assert worst_deviation(scale, wrong, np.array([[variance]])) > 6
