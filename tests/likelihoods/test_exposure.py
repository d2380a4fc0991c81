"""Counts over unequal exposures: their distribution, what the network sees, and a posterior."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from flax import linen
from numpyro.distributions.transforms import ExpTransform
from numpyro.infer import NUTS
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk, prior_predictive
from bayesnn_ppl.modeling.contract import inspect_model
from tests.marks import checked

L = bnn.likelihoods
RNG = np.random.default_rng(4)
EXPOSURE = np.array([0.5, 1.0, 20.0, 3.0, 7.5, 100.0])


@pytest.mark.parametrize(
    ("outputs", "shape"), [(1, (6, 1)), (2, (6, 2)), (None, (6, 4, 5))], ids=["1", "2", "image"]
)
def test_rates_are_multiplied_by_the_exposure(outputs, shape):
    f = RNG.normal(size=shape)
    mean = np.exp(f[..., 0] if outputs == 1 else f)
    mean = EXPOSURE.reshape(-1, *(1,) * (mean.ndim - 1)) * mean
    y = RNG.poisson(mean)
    known = {"exposure": jnp.asarray(EXPOSURE)}
    fn = L.poisson(outputs=outputs, exposure=0).distribution(jnp.asarray(f), **known)
    expected = stats.poisson(mean).logpmf(y).reshape(6, -1).sum(1)
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-4, atol=1e-5)
    known["concentration"] = 3.0
    fn = L.negative_binomial(3.0, outputs=outputs, exposure=0).distribution(jnp.asarray(f), **known)
    counts = stats.nbinom(3.0, 3.0 / (3.0 + mean))
    expected = counts.logpmf(y).reshape(6, -1).sum(1)
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(fn.variance, mean + mean**2 / 3, rtol=1e-4)


def model_of(exposure, likelihood=L.poisson):
    return bnn.models.linear(likelihood=likelihood(exposure=exposure))


X = np.column_stack([RNG.normal(size=8), RNG.uniform(1, 9, size=8), RNG.normal(size=8)])
X = X.astype(np.float32)
Y = RNG.poisson(X[:, 1])


@pytest.mark.parametrize("exposure", [1, -2])
def test_the_network_sees_the_other_columns_alone(exposure):
    model = model_of(exposure)
    assert inspect_model(model, X, Y).latents["net/Dense_0.kernel"] == (2, 1)
    kernel, bias = np.array([[0.3], [-0.7]]), np.array([0.2])
    draws = {"net/Dense_0.kernel": kernel[None, None], "net/Dense_0.bias": bias[None, None]}
    run = {"latents": list(draws), "precision": "float32", "chains": 1}
    posterior = bnn.Posterior.from_arrays(draws, {"lp": np.zeros((1, 1))}, run, model=model)
    rate = np.exp(X[:, [0, 2]] @ kernel + bias)[:, 0]
    np.testing.assert_allclose(posterior.predict(X).mean, X[:, 1] * rate, rtol=1e-5)
    # Twice the exposure has twice the counts; the negative control is a network that sees it.
    twice = X * np.array([1, 2, 1], np.float32)
    np.testing.assert_allclose(posterior.predict(twice).mean, 2 * X[:, 1] * rate, rtol=1e-5)
    assert inspect_model(model_of(None), X, Y).latents["net/Dense_0.kernel"] == (3, 1)
    with pytest.raises(ValueError, match=r"x\[2, 1\] = 0.0 cannot be an exposure"):
        posterior.predict(np.where(np.arange(24).reshape(8, 3) == 7, 0, X))


class Constant(linen.Module):
    """One log rate for all rows."""

    @linen.compact
    def __call__(self, x):
        rate = self.param("log_rate", linen.initializers.zeros, (1,))
        return jnp.broadcast_to(rate, (x.shape[0], 1))


def test_a_constant_rate_has_its_conjugate_posterior():
    """λ ~ Gamma(a, b) and counts over e_i: Gamma(a + Σ y, b + Σ e)."""
    prior = dist.TransformedDistribution(dist.Gamma(2.0, 1.0), [ExpTransform().inv])
    model = bnn.bayesian_network(Constant(), {"log_rate": prior}, L.poisson(exposure=-1))
    x = np.column_stack([np.zeros(6), EXPOSURE]).astype(np.float32)
    y = np.array([1, 0, 33, 2, 11, 121])
    posterior = bnn.sample(NUTS(model), x, y, warmup=200, draws=2000, chains=2, progress=False)
    rate = np.exp(posterior.draws["net.log_rate"].astype(float))

    def z(shape, scale):
        values = np.stack([rate, np.abs(rate - shape * scale) ** 2], axis=-1)
        expected = np.array([shape * scale, shape * scale**2])
        error = values.std(axis=(0, 1)) / np.sqrt(np.asarray(ess_bulk(values)))
        return np.abs((values.mean(axis=(0, 1)) - expected) / error).max()

    assert z(2 + y.sum(), 1 / (1 + EXPOSURE.sum())) < 4.5
    assert z(2 + y.sum(), 1 / (1 + 6)) > 50  # where the exposures were not seen


@pytest.mark.parametrize("likelihood", checked([L.poisson, L.negative_binomial]))
def test_stochastic_gradients_take_minibatches_of_it(likelihood):
    """The exposure of a row goes with it: the model is found to look at each row by itself."""
    kernel = bnn.kernels.SGLD(model_of(1, likelihood), step_size=1e-4, batch_size=4)
    posterior = bnn.sample(kernel, X, Y, warmup=0, draws=2, chains=1, progress=False)
    assert np.isfinite(posterior.draws["net.Dense_0.kernel"]).all()


BAD = X.copy()
BAD[5, 1] = -0.25


@pytest.mark.parametrize(
    ("exposure", "x", "words"),
    [
        (1, BAD, r"x\[5, 1\] = -0.25 cannot be an exposure.*its own units"),
        (-2, BAD, r"x\[5, 1\] = -0.25"),
        (3, X, r"`exposure=3` of the PoissonLikelihood .* rows of shape \(3,\)"),
        (-4, X, "`exposure=-4`"),
        (0, X[:, 1:2], "at least one more, which the network sees"),
        (0, np.ones((8, 4, 4, 1), np.float32), "Rows must be vectors"),
    ],
)
def test_what_is_no_exposure_is_refused(exposure, x, words):
    for model in (model_of(exposure), bnn.cold(model_of(exposure), 1.0)):
        with pytest.raises(ValueError, match=words):
            inspect_model(model, x, Y)
    with pytest.raises(ValueError, match=words):
        prior_predictive(model_of(exposure), x, draws=2)


@pytest.mark.parametrize("exposure", [True, 1.0, "time", [1]])
def test_a_column_is_an_integer(exposure):
    for likelihood in (L.poisson, L.negative_binomial):
        with pytest.raises(TypeError, match="`exposure` is the index of a column"):
            likelihood(exposure=exposure)
