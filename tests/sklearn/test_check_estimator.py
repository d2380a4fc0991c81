"""Scikit-learn's own checks of estimators, without exceptions."""

from functools import partial

import numpyro
import numpyro.distributions as dist
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import bayesnn_ppl as bnn

# The checks fit data of 14 shapes, each of which is compiled: MAP compiles in a third of the time.
TRAINED = {"method": bnn.approximations.MAP(epochs=500, learning_rate=0.05)}
SAMPLED = {"hidden": 4, "warmup": 60, "draws": 40, "chains": 2}

# The verdict on so few draws of so few rows.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def linear(x, y=None, *, batch_size=None):
    """Written by hand: a check hashes parameters, and a copy of a Flax module has another hash."""
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ weights, noise), obs=y)


def checks(*estimators):
    """Each estimator with each check; scikit-learn's own names of tests hold addresses."""
    return pytest.mark.parametrize(
        ("estimator", "check"),
        [
            pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name(check)}-{number}")
            for estimator in estimators
            for number, (_, check) in enumerate(estimator_checks_generator(estimator))
        ],
    )


def name(check):
    return name(check.func) if isinstance(check, partial) else check.__name__


@checks(
    bnn.sklearn.BayesianRegressor(linear, **TRAINED),
    bnn.sklearn.BayesianClassifier(bnn.models.logistic, **TRAINED),
)
def test_any_model(estimator, check):
    check(estimator)


@pytest.mark.check
@checks(bnn.sklearn.BayesianMLPRegressor(**SAMPLED), bnn.sklearn.BayesianMLPClassifier(**SAMPLED))
def test_perceptrons_by_the_default_method(estimator, check):
    check(estimator)
