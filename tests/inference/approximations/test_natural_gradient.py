"""VOGN and noisy Adam: the laws that their precisions must end at."""

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations import NaturalGradient
from tests.inference.approximations import linear_truth as truth

CLIMB = {
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
    q = NaturalGradient(truth.program() if model is None else model, **(CLIMB | options))
    return bnn.fit(q, x, y, float64=True, progress=False)


def vogn_law(x, y, likelihood=1.0, square=1.0):
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
    assert max(truth.moment_errors(draws, mean, np.linalg.inv(precision))) > 10


def test_vogn_ends_at_the_fixed_point_of_its_own_law(linear):
    draws = truth.draws_of(fitted(*linear))
    mean, covariance = vogn_law(*linear)
    assert max(truth.moment_errors(draws, mean, covariance)) < 4.5


def test_a_temperature_counts_once_in_the_curvature(linear):
    """Squares of tempered gradients would count it twice."""
    temperature = 0.25
    draws = truth.draws_of(fitted(*linear, truth.program(temperature=temperature)))
    once = vogn_law(*linear, likelihood=1 / temperature, square=1 / temperature)
    twice = vogn_law(*linear, likelihood=1 / temperature, square=1 / temperature**2)
    assert max(truth.moment_errors(draws, *once)) < 4.5
    assert max(truth.moment_errors(draws, *twice)) > 10


def test_a_network_with_a_learned_noise_is_climbed_on_minibatches(regression):
    q = NaturalGradient(network, steps=1500, batch_size=16, draws=50)
    found = bnn.fit(q, *regression, progress=False)
    (losses,) = found.provenance["approximation"]["losses"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0] - 0.1
    assert found.draws["noise_scale"].min() > 0


def test_a_prior_that_couples_coordinates_is_refused(regression):
    model = bnn.models.mlp(hidden=(3,), prior=bnn.priors.hierarchical(centred=True))
    with pytest.raises(ValueError, match="couples coordinates"):
        bnn.fit(NaturalGradient(model), *regression, progress=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "vogue"}, "Did you mean `vogn`"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"curvature_rate": 2.0}, "at most 1"),
        ({"momentum": 1.0}, "momentum"),
        ({"steps": 5, "epochs": 5}, "not both"),
    ],
)
def test_bad_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        NaturalGradient(network, **options)
