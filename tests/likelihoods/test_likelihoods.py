"""Each likelihood against its density written out, for scalar, vector and image targets."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy import special, stats

import bayesnn_ppl as bnn

RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("outputs", "shape"), [(1, (6, 1)), (3, (6, 3)), (None, (6,)), (None, (6, 4, 5))]
)
def test_gaussian(outputs, shape):
    f = RNG.normal(size=shape)
    target = f[..., 0] if outputs == 1 else f
    y = RNG.normal(size=target.shape)
    fn = bnn.likelihoods.gaussian(0.7, outputs=outputs).distribution(jnp.asarray(f), scale=0.7)
    assert fn.batch_shape == (6,)
    expected = stats.norm(target, 0.7).logpdf(y).reshape(6, -1).sum(1)
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-5)


def test_gaussian_learns_its_scale_under_a_prior():
    likelihood = bnn.likelihoods.gaussian(dist.Gamma(2.0, 3.0))
    trace = handlers.trace(
        handlers.seed(likelihood.sample_parameters, jax.random.key(0))
    ).get_trace()
    assert isinstance(trace["noise_scale"]["fn"], dist.Gamma)
    assert bnn.likelihoods.gaussian(0.3).sample_parameters() == {"scale": 0.3}


@pytest.mark.parametrize("link", ["softplus", "exp"])
@pytest.mark.parametrize(
    ("outputs", "shape", "event"),
    [(2, (6, 2), ()), (4, (6, 4), (2,)), (None, (6, 3, 5, 2), (3, 5))],
)
def test_heteroscedastic(link, outputs, shape, event):
    f = RNG.normal(size=shape)
    likelihood = bnn.likelihoods.heteroscedastic(link=link, floor=0.01, outputs=outputs)
    fn = likelihood.distribution(jnp.asarray(f))
    assert fn.batch_shape == (6,) and fn.event_shape == event
    half = shape[-1] // 2
    mean, raw = f[..., :half].reshape(6, *event), f[..., half:].reshape(6, *event)
    scale = 0.01 + (np.logaddexp(0, raw) if link == "softplus" else np.exp(raw))
    y = RNG.normal(size=(6, *event))
    expected = stats.norm(mean, scale).logpdf(y).reshape(6, -1).sum(1)
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-5)


def test_categorical():
    f = RNG.normal(size=(6, 3))
    y = np.array([0, 1, 2, 2, 1, 0])
    fn = bnn.likelihoods.categorical(3).distribution(jnp.asarray(f))
    expected = special.log_softmax(f, axis=-1)[np.arange(6), y]
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-5)


@pytest.mark.parametrize(("outputs", "shape"), [(1, (6, 1)), (None, (6, 4, 4))])
def test_bernoulli(outputs, shape):
    f = RNG.normal(size=shape)
    logits = f[..., 0] if outputs == 1 else f
    y = RNG.integers(0, 2, size=logits.shape)
    fn = bnn.likelihoods.bernoulli(outputs=outputs).distribution(jnp.asarray(f))
    p = special.expit(logits)
    expected = np.log(np.where(y == 1, p, 1 - p)).reshape(6, -1).sum(1)
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: bnn.likelihoods.gaussian(0.0), ValueError, "positive and finite"),
        (lambda: bnn.likelihoods.gaussian("1"), TypeError, "must be a number"),
        (lambda: bnn.likelihoods.heteroscedastic(link="log"), ValueError, "link `log` is unknown"),
        (lambda: bnn.likelihoods.heteroscedastic(floor=-1.0), ValueError, "0 or more"),
        (lambda: bnn.likelihoods.heteroscedastic(outputs=3), ValueError, "even number"),
        (lambda: bnn.likelihoods.categorical(1), ValueError, "at least 2"),
        (lambda: bnn.likelihoods.categorical(2.5), TypeError, "integer"),
        (
            lambda: bnn.likelihoods.categorical(3).distribution(jnp.zeros((4, 2))),
            ValueError,
            "needs 3 network outputs",
        ),
        (
            lambda: bnn.likelihoods.heteroscedastic(outputs=None).distribution(jnp.zeros((4, 3))),
            ValueError,
            "must be even",
        ),
    ],
)
def test_bad_arguments(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
