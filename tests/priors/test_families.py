"""Every family against SciPy: density, event shape and draws, on kernels and biases."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from bayesnn_ppl import priors
from bayesnn_ppl.priors.common.fitting import distribution_of
from tests.priors.prior_checks import SMALLEST_P, ks_p_value, largest_z

PARAMETERS = {  # name -> shape, fan-in
    "Dense_0.kernel": ((3, 4), 3),
    "Conv_0.kernel": ((2, 2, 3, 2), 12),
    "Dense_0.bias": ((4,), None),
}


class Mixture:
    """A mixture of normals, as SciPy has none."""

    def __init__(self, weights, scales):
        self.parts = [(w, stats.norm(0, s)) for w, s in zip(weights, scales, strict=True)]

    def logpdf(self, x):
        return np.log(sum(w * fn.pdf(x) for w, fn in self.parts))

    def cdf(self, x):
        return sum(w * fn.cdf(x) for w, fn in self.parts)


def both(prior):
    """The same prior for all parameters."""
    return lambda fan_in: prior


def kernels(prior_of, bias):
    """A prior that depends on the fan-in, and one for parameters that have none."""
    return lambda fan_in: bias if fan_in is None else prior_of(fan_in)


IID = {
    "normal": (priors.normal(0.5), both(stats.norm(0, 0.5))),
    "normal by variance": (priors.bnn_hmc(5), both(stats.norm(0, 5**-0.5))),
    "fan-in normal": (
        priors.fan_in_normal(2.0, bias_scale=0.3),
        kernels(lambda n: stats.norm(0, 2 / n**0.5), stats.norm(0, 0.3)),
    ),
    "He": (priors.he_normal(), kernels(lambda n: stats.norm(0, (2 / n) ** 0.5), stats.norm(0, 1))),
    "Glorot": (  # fan-out is 4 for the dense kernel and 2·2·2 for the convolution
        priors.glorot_normal(),
        kernels(lambda n: stats.norm(0, (2 / (n + {3: 4, 12: 8}[n])) ** 0.5), stats.norm(0, 1)),
    ),
    "Laplace": (
        priors.laplace(2.0, bias_scale=0.5, fan_in=True),
        kernels(lambda n: stats.laplace(0, 2 / n**0.5), stats.laplace(0, 0.5)),
    ),
    "logistic": (priors.logistic(0.7), both(stats.logistic(0, 0.7))),
    "Student-t": (priors.student_t(3.0, 0.7), both(stats.t(3, 0, 0.7))),
    "Cauchy": (
        priors.cauchy(2.0, fan_in=True),
        kernels(lambda n: stats.cauchy(0, 2 / n**0.5), stats.cauchy(0, 2)),
    ),
    "generalised normal 1.5": (
        priors.generalised_normal(1.5, 0.8, fan_in=True),
        kernels(lambda n: stats.gennorm(1.5, 0, 0.8 / n**0.5), stats.gennorm(1.5, 0, 0.8)),
    ),
    "generalised normal 0.5": (priors.generalised_normal(0.5), both(stats.gennorm(0.5))),
    "generalised normal 8": (priors.generalised_normal(8.0), both(stats.gennorm(8.0))),
    "mixture": (
        priors.normal_mixture((0.25, 0.75), (1.0, 0.1)),
        both(Mixture((0.25, 0.75), (1.0, 0.1))),
    ),
    "spike and slab": (
        priors.spike_and_slab(slab_scale=2.0, spike_scale=0.05, slab_probability=0.3, fan_in=True),
        kernels(
            lambda n: Mixture((0.3, 0.7), (2 / n**0.5, 0.05 / n**0.5)),
            Mixture((0.3, 0.7), (2.0, 0.05)),
        ),
    ),
    "cold_posterior_bnn": (
        priors.cold_posterior_bnn(),
        kernels(lambda n: stats.norm(0, (2 / n) ** 0.5), stats.cauchy(0, 1)),
    ),
    "cold_posterior_bnn, gaussian": (priors.cold_posterior_bnn("gaussian"), both(stats.norm())),
    "half-normal, as asked": (
        priors.constrained(dist.HalfNormal(2.0)),
        both(stats.halfnorm(0, 2)),
    ),
}


@pytest.mark.parametrize("name", IID)
def test_weights_are_independent_with_the_density_and_the_draws_of_the_closed_form(name):
    prior, reference = IID[name]
    for parameter, (shape, fan_in) in PARAMETERS.items():
        fn = distribution_of(prior, parameter, shape)
        assert fn.event_shape == ()
        whole = fn.expand(shape).to_event()
        assert whole.event_shape == shape
        value = np.abs(np.sin(np.arange(np.prod(shape)) + 1.0)).reshape(shape)
        expected = reference(fan_in).logpdf(value).sum()
        np.testing.assert_allclose(whole.log_prob(value), expected, rtol=2e-4, atol=1e-4)
    fn = distribution_of(prior, "Dense_0.kernel", (3, 4))
    draws = np.asarray(fn.sample(jax.random.key(1), (20_000,)), float)
    assert ks_p_value(draws, reference(3).cdf) > SMALLEST_P
    # The same test sees a scale that is wrong by a quarter.
    assert ks_p_value(1.25 * draws, reference(3).cdf) < SMALLEST_P


def test_moments_and_cdf_of_the_generalised_normal():
    fn, reference = priors.GeneralisedNormal(1.5, 0.8), stats.gennorm(1.5, 0, 0.8)
    x = np.array([-2.0, -0.1, 0.0, 0.4, 3.0])
    np.testing.assert_allclose(fn.cdf(x), reference.cdf(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fn.variance, reference.var(), rtol=1e-5)
    assert fn.mean == 0


def test_the_gradient_at_zero_is_finite_where_the_density_has_one():
    for power in (1.0, 1.5, 2.0, 4.0):
        fn = priors.GeneralisedNormal(power, 0.8)
        assert np.isfinite(jax.grad(fn.log_prob)(0.0))


SIGMA = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
OTHER = np.array([[1.0, 0.8], [0.8, 1.5]])
GRID = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
FILTERS = np.exp(-np.linalg.norm(GRID[:, None] - GRID[None], axis=-1) / 2.0) * 9 / 12


def gates(value):
    """The log density of an LSTM's bias under the gates of the table below."""
    i, g, f, o = np.split(value, 4, axis=-1)
    blocks = (stats.norm(), stats.laplace(0, 2), stats.norm(1, 0.5), stats.norm())
    return sum(fn.logpdf(block).sum(-1) for fn, block in zip(blocks, (i, g, f, o), strict=True))


STRUCTURED = {  # prior, name, shape, event_shape, covariance of the flattened parameter
    "whole parameter": (
        priors.multivariate_normal(np.kron(SIGMA, OTHER)),
        ("kernel", (3, 2), (3, 2), np.kron(SIGMA, OTHER)),
    ),
    "trailing axes": (
        priors.multivariate_normal(OTHER),
        ("kernel", (3, 2), (2,), np.kron(np.eye(3), OTHER)),
    ),
    "by function": (
        priors.multivariate_normal(lambda name, shape: SIGMA if name == "bias" else None),
        ("bias", (3,), (3,), SIGMA),
    ),
    "Kronecker": (
        priors.kronecker_normal(SIGMA, OTHER),
        ("kernel", (3, 2), (3, 2), np.kron(SIGMA, OTHER)),
    ),
    "Kronecker, rows only": (
        priors.kronecker_normal(row=SIGMA),
        ("kernel", (3, 2), (3, 2), np.kron(SIGMA, np.eye(2))),
    ),
    "filters": (
        priors.correlated_filters(2.0, scale=3.0),
        ("Conv_0.kernel", (2, 2, 3, 2), (2, 2, 3, 2), np.kron(FILTERS, np.eye(6))),
    ),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_correlated_weights_have_the_density_and_the_covariance_of_the_closed_form(name):
    prior, (parameter, shape, event, covariance) = STRUCTURED[name]
    fn = distribution_of(prior, parameter, shape)
    assert fn.event_shape == event
    whole = fn.expand(shape[: len(shape) - len(event)]).to_event()
    draws = np.asarray(whole.sample(jax.random.key(2), (4000,)), float)
    flat = draws.reshape(4000, -1)
    expected = stats.multivariate_normal(np.zeros(len(covariance)), covariance).logpdf(flat[:5])
    np.testing.assert_allclose(whole.log_prob(draws[:5]), expected, rtol=1e-4)
    assert largest_z(flat, covariance) < 7
    # The same test sees that the weights are not independent.
    assert largest_z(flat, np.diag(np.diag(covariance))) > 7


def test_gates_of_an_lstm_have_priors_of_their_own():
    prior = priors.lstm_gates(cell=dist.Laplace(0.0, 2.0), forget=dist.Normal(1.0, 0.5))
    fn = distribution_of(prior, "LSTM_0.bias", (12,))
    assert fn.event_shape == (12,)
    draws = np.asarray(fn.sample(jax.random.key(0), (4000,)), float)
    np.testing.assert_allclose(fn.log_prob(draws[:5]), gates(draws[:5]), rtol=1e-5)
    forget = draws[:, 6:9]
    assert ks_p_value(forget, stats.norm(1, 0.5).cdf) > SMALLEST_P
    assert ks_p_value(forget, stats.norm(0.95, 0.5).cdf) < SMALLEST_P
    np.testing.assert_allclose(fn.mean, np.repeat([0, 0, 1, 0], 3), atol=1e-6)
    np.testing.assert_allclose(fn.variance, np.repeat([1, 8, 0.25, 1], 3), rtol=1e-5)

    scaled = distribution_of(priors.lstm_gates(fan_in=True), "LSTM_0.kernel", (4, 12))
    value = np.linspace(-1, 1, 48).reshape(4, 12)
    np.testing.assert_allclose(
        scaled.log_prob(value), stats.norm(0, 0.5).logpdf(value).sum(-1), rtol=1e-5
    )


def test_dense_kernels_and_biases_fall_to_the_other_prior_of_filters():
    prior = priors.correlated_filters(others=dist.Cauchy(0.0, 3.0))
    assert isinstance(distribution_of(prior, "Dense_0.kernel", (3, 4)), dist.Cauchy)
    default = priors.correlated_filters(scale=2.0)
    assert distribution_of(default, "Dense_0.kernel", (4, 2)).variance == pytest.approx(1.0)


def test_cold_posterior_bnn_has_its_own_scale_for_embeddings():
    fn = priors.cold_posterior_bnn()("Embed_0.embedding", (20, 8))
    assert fn.variance == pytest.approx(0.25)
