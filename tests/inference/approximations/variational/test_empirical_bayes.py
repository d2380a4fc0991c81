"""Empirical Bayes: the scale of a prior that makes the data most likely."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations import EmpiricalBayes, Variational
from tests.inference.approximations import linear_truth as truth

model = truth.linear(prior=bnn.priors.learned_normal(3.0, over="network"))


@pytest.fixture(scope="module")
def linear():
    return truth.data()


def test_the_scale_maximises_the_evidence(linear):
    x, y = linear
    q = EmpiricalBayes(
        model,
        guide="multivariate_normal",
        batch_size=None,
        steps=8000,
        learning_rate=0.02,
        sigma_init=0.1,
        particles=4,
        draws=2000,
    )
    found = bnn.fit(q, x, y, float64=True, progress=False)
    record = found.provenance["approximation"]
    best = minimize_scalar(
        lambda log: -truth.exact(x, y, prior=np.exp(log)).log_evidence,
        bounds=(-4, 4),
        method="bounded",
    )
    scale = record["learned"]["net/learned_scale"]
    assert abs(np.log(scale) - best.x) < 0.01
    assert abs(record["elbo"]["mean"] + best.fun) < 1e-3
    assert truth.exact(x, y, prior=3.0).log_evidence < -best.fun - 1  # where it began
    mean, precision = truth.posterior(x, y, prior=scale)
    assert truth.worst_error(truth.draws_of(found), mean, np.linalg.inv(precision)) < 4
    assert found.diagnose().status == "fitted"


def test_predictions_are_of_the_model_that_was_found(linear):
    x, y = linear
    q = EmpiricalBayes(model, steps=200, learning_rate=0.03, draws=50)
    found = bnn.fit(q, x, y, progress=False)
    learned = found.provenance["approximation"]["learned"]["net/learned_scale"]
    assert abs(float(found.model.values["net/learned_scale"]) - learned) < 1e-6
    assert found.predict(x).mean.shape == y.shape


def test_a_model_with_and_one_without_parameters_are_told_apart(linear):
    with pytest.raises(ValueError, match="`approximations.EmpiricalBayes`"):
        bnn.fit(Variational(model), *linear, progress=False)
    with pytest.raises(ValueError, match="no parameter to fit"):
        bnn.fit(EmpiricalBayes(truth.linear()), *linear, progress=False)
    with pytest.raises(ValueError, match="a point has no evidence"):
        EmpiricalBayes(model, guide="laplace")


@pytest.mark.parametrize(
    ("options", "error"),
    [({"scale": -1.0}, ValueError), ({"over": "unit"}, ValueError), ({"fan_in": 1}, TypeError)],
)
def test_bad_learned_priors_are_refused(options, error):
    with pytest.raises(error):
        bnn.priors.learned_normal(**options)


def test_every_layer_has_its_scale(regression):
    layered = bnn.models.mlp(hidden=(3,), prior=bnn.priors.learned_normal(0.5, fan_in=True))
    found = bnn.fit(EmpiricalBayes(layered, steps=100, draws=20), *regression, progress=False)
    assert sorted(found.provenance["approximation"]["learned"]) == [
        "net/Dense_0.learned_scale",
        "net/Dense_1.learned_scale",
    ]
