"""Anchored ensembles against the exact posterior on the linear model with known noise."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations.trained_networks.anchored_model import with_anchors
from tests.inference.approximations import linear_truth as truth
from tests.inference.approximations.linear_truth import linear, worst_error
from tests.inference.kernels.known_moments import coefficients

MEMBERS = 400
PLAIN = {"validation_fraction": 0.0, "patience": None, "objective": "posterior"}


def posterior(x, y, *, temperature=1.0):
    """Mean and covariance, with a temperature of the likelihood."""
    mean, precision = truth.posterior(x, y, likelihood=1 / temperature)
    return mean, np.linalg.inv(precision)


def members(model, data, **settings):
    ensemble = bnn.approximations.Ensemble(
        model,
        members=MEMBERS,
        anchored=True,
        optimiser=optax.lbfgs(),
        batch_size=None,
        epochs=12,
        start="prior",
        **PLAIN,
        **settings,
    )
    return coefficients(bnn.fit(ensemble, *data, float64=True, progress=False))[:, 0]


@pytest.fixture(scope="module")
def few(regression):
    """So few rows that the prior counts."""
    return regression[0][:6], regression[1][:6]


def test_anchors_alone_have_the_mean_and_less_than_the_covariance(few):
    """Under a temperature of the whole posterior, which scales all covariances."""
    found = members(bnn.cold(linear(), 0.5), few)
    mean, covariance = posterior(*few)
    right = covariance @ covariance / truth.PRIOR**2
    assert worst_error(found, mean, 0.5 * right) < 4.5
    # Negative controls: the posterior itself, the temperature twice or never, a mean of nought.
    assert worst_error(found, mean, 0.5 * covariance) > 6
    assert worst_error(found, mean, 0.25 * right) > 6 and worst_error(found, mean, right) > 6
    assert worst_error(found, 0 * mean, 0.5 * right) > 6


def test_anchors_and_targets_have_the_posterior_at_its_temperature(few):
    found = members(linear(0.5), few, randomised_targets=True)
    assert worst_error(found, *posterior(*few, temperature=0.5)) < 4.5
    assert worst_error(found, *posterior(*few, temperature=0.25)) > 6
    assert worst_error(found, *posterior(*few)) > 6


def test_a_minibatch_has_the_noise_of_its_own_rows(few):
    x, y = few
    model = with_anchors(linear(), frozenset({"net/Dense_0.bias"}), x, y, targets=True)
    own = model.draw_own(jax.random.key(0), x, y)
    assert own["y"].shape == (6,) and set(own) == {"net/Dense_0.bias", "y"}
    chosen = np.array([4, 1, 1])

    def log_density(model, **options):
        seeded = handlers.seed(model, jax.random.key(1))
        site = handlers.trace(seeded).get_trace(x, y, **options)["y"]
        return np.asarray(site["fn"].log_prob(site["value"]))

    mine = handlers.substitute(model.with_own(own), data={"data": jnp.asarray(chosen)})
    np.testing.assert_allclose(
        log_density(mine, batch_size=3), log_density(model.with_own(own))[chosen], rtol=1e-5
    )
    assert np.abs(log_density(model) - log_density(model.with_own(own))).min() > 1e-3


def laplace(name, shape):
    return dist.Laplace(0.0, 1.0).expand(shape).to_event()


def by_hand(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(slope * x[:, 0], 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (None, {"anchored": True}, "has no prior"),
        (None, {"randomised_targets": True}, "Set both"),
        (
            None,
            {"anchored": True, "randomised_targets": True, "objective": "posterior"},
            "Set validation_fraction=0",
        ),
        (
            bnn.bayesian_network(bnn.nn.MLP((), outputs=1), laplace, bnn.likelihoods.gaussian(1.0)),
            {"anchored": True, **PLAIN},
            "`net/Dense_0.bias` is not normal",
        ),
        (
            bnn.models.linear(likelihood=bnn.likelihoods.student_t()),
            {"anchored": True, "randomised_targets": True, **PLAIN},
            "The noise is not normal",
        ),
        (by_hand, {"anchored": True, **PLAIN}, "marks no site"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(model, options, words, regression):
    with pytest.raises(ValueError, match=words):
        model = bnn.models.linear() if model is None else model
        bnn.fit(bnn.approximations.Ensemble(model, **options), *regression, progress=False)
