"""VOGN, noisy Adam and noisy K-FAC: the values that their precisions must end at."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations import NaturalGradient
from bayesnn_ppl.inference.approximations.curvature.kronecker import KroneckerCurvature
from tests.inference.approximations import linear_truth as truth
from tests.marks import checked

OPTIMISATION = {
    "batch_size": None,
    "steps": 4000,
    "learning_rate": 0.1,
    "curvature_rate": 0.05,
    "sigma_init": 0.1,
    "draws": 2000,
}
network = bnn.models.mlp(hidden=(3,))


@pytest.fixture(scope="module")
def linear():
    return truth.data()


def fitted(x, y, model=None, **options):
    q = NaturalGradient(truth.linear() if model is None else model, **(OPTIMISATION | options))
    return bnn.fit(q, x, y, float64=True, progress=False)


def vogn_fixed_point(x, y, likelihood=1.0, square=1.0):
    """Where s = E_q[Σ squared gradients] and the mean is that of the posterior."""
    a = truth.design(x)
    mean, precision = truth.posterior(x, y, likelihood=likelihood)
    s = np.diag(precision)
    for _ in range(200):
        residuals = (y - a @ mean) ** 2 + a**2 @ (1 / s)
        s = square * residuals / truth.NOISE**4 @ a**2 + 1 / truth.PRIOR**2
    return mean, np.diag(1 / s)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_noisy_adam_ends_at_the_mean_field_of_highest_elbo(linear, batch_size):
    found = fitted(*linear, method="noisy_adam", batch_size=batch_size)
    mean, precision = truth.posterior(*linear)
    draws = truth.draws_of(found)
    of_mean, of_covariance = truth.moment_errors(draws, mean, np.diag(1 / np.diag(precision)))
    assert of_mean < 5 and of_covariance < 5
    assert truth.worst_error(draws, mean, np.linalg.inv(precision)) > 10


def test_vogn_ends_at_its_own_fixed_point(linear):
    draws = truth.draws_of(fitted(*linear))
    mean, covariance = vogn_fixed_point(*linear)
    assert truth.worst_error(draws, mean, covariance) < 4.5


def test_a_temperature_counts_once_in_the_curvature(linear):
    """Squares of tempered gradients would count it twice."""
    temperature = 0.25
    draws = truth.draws_of(fitted(*linear, truth.linear(temperature=temperature)))
    once = vogn_fixed_point(*linear, likelihood=1 / temperature, square=1 / temperature)
    twice = vogn_fixed_point(*linear, likelihood=1 / temperature, square=1 / temperature**2)
    assert truth.worst_error(draws, *once) < 4.5
    assert truth.worst_error(draws, *twice) > 10


FEW = 8  # rows, so that the prior counts against the likelihood


def kfac(x, y, **options):
    settings = {"steps": 4000, "draws": 4000, "method": "noisy_kfac", "learning_rate": 0.02}
    return fitted(x[:FEW], y[:FEW], **(settings | options))


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_noisy_kfac_of_a_dense_layer_ends_at_the_posterior(linear, temperature):
    x, y = (a[:FEW] for a in linear)
    found = kfac(x, y, model=truth.linear(temperature=temperature))
    mean, precision = truth.posterior(x, y, likelihood=1 / temperature)
    draws = truth.draws_of(found)
    of_mean, of_covariance = truth.moment_errors(draws, mean, np.linalg.inv(precision))
    assert of_covariance < 4.5
    assert of_mean / np.sqrt(len(draws)) < 0.12  # standard deviations; the steps are noisy
    # A mean field, the prior left out, and a temperature counted twice or not at all.
    without = precision - np.eye(3) / truth.PRIOR**2
    others = [np.diag(np.diag(precision)), without]
    if temperature != 1:
        others += [truth.posterior(x, y, likelihood=t)[1] for t in (1, temperature**-2)]
    for other in others:
        assert truth.moment_errors(draws, mean, np.linalg.inv(other))[1] > 8
    if temperature == 1:
        record = found.provenance["approximation"]
        assert abs(record["elbo"]["mean"] - truth.exact(x, y).log_evidence) < 0.01
        assert record["method"] == "noisy_kfac" and record["layers"] == ["Dense_0"]


def test_noise_that_is_not_preconditioned_is_caught(linear, monkeypatch):
    """The negative control: draws of the diagonal of the precision, as of a mean field."""

    def of_the_diagonal(self, factors, noise, normals):
        precision = jnp.linalg.inv(self.covariance(factors, noise))
        return normals / jnp.sqrt(jnp.diag(precision))

    monkeypatch.setattr(KroneckerCurvature, "sample", of_the_diagonal)
    x, y = (a[:FEW] for a in linear)
    # At another temperature, or what was compiled before would be taken again.
    draws = truth.draws_of(kfac(x, y, model=truth.linear(temperature=2.0), steps=1000))
    mean, precision = truth.posterior(x, y, likelihood=0.5)
    assert truth.moment_errors(draws, mean, np.linalg.inv(precision))[1] > 8


class Normalised(linen.Module):
    """A layer that is neither dense nor a convolution."""

    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.LayerNorm()(x))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            bnn.bayesian_network(
                Normalised(), bnn.priors.normal(1.0), bnn.likelihoods.gaussian(scale=0.5)
            ),
            '`method="noisy_kfac"` knows dense.*is a LayerNorm.*vogn',
        ),
        (bnn.models.mlp(hidden=(3,), prior=bnn.priors.student_t(4.0)), "is not normal.*vogn"),
        (
            bnn.models.mlp(hidden=(3,), prior=bnn.priors.hierarchical(centred=True)),
            "couples coordinates",
        ),
    ],
)
def test_noisy_kfac_refuses_what_it_does_not_know(model, words, regression):
    with pytest.raises(ValueError, match=words):
        bnn.fit(NaturalGradient(model, method="noisy_kfac"), *regression, progress=False)


@pytest.mark.parametrize("method", checked(["vogn", "noisy_kfac"], "vogn"))
def test_a_network_with_a_learned_noise_is_fitted_on_minibatches(regression, method):
    q = NaturalGradient(network, method=method, steps=1500, batch_size=16, draws=50)
    found = bnn.fit(q, *regression, progress=False)
    (losses,) = found.provenance["approximation"]["losses"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0] - 0.1
    assert found.draws["noise_scale"].min() > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "vogue"}, "Did you mean `vogn`"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"curvature_rate": 2.0}, "at most 1"),
        ({"momentum": 1.0}, "momentum"),
        ({"refresh": 5}, "would be ignored"),
        ({"method": "noisy_kfac", "refresh": 0}, "refresh"),
        ({"steps": 5, "epochs": 5}, "not both"),
    ],
)
def test_bad_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        NaturalGradient(network, **options)
