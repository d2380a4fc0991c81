"""On the conjugate linear model the approximations that can be exact are."""

import numpy as np
import pytest
from scipy import optimize

import bayesnn_ppl as bnn
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.approximations import DuringTraining, Laplace, LastLayer
from tests.inference.approximations.linear_truth import MODE, data, exact, linear, problem_of
from tests.marks import checked

X, Y = data()


def around(approximation, model, **options):
    with arithmetic(float64=True):
        return approximation.around(problem_of(model, X, Y), **options)


@pytest.mark.parametrize("structure", ["full", "kfac", *checked(["block", "low_rank"], None)])
@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_structures_that_contain_the_truth_are_exact(structure, temperature):
    model = linear(temperature)
    gaussian = around(Laplace(model, structure=structure, mode=MODE), model).gaussian
    truth = exact(X, Y, temperature=temperature)
    with arithmetic(float64=True):
        np.testing.assert_allclose(gaussian.mean, truth.mean, atol=1e-6)
        np.testing.assert_allclose(gaussian.covariance, np.linalg.inv(truth.precision), rtol=1e-6)
        assert gaussian.log_evidence == pytest.approx(truth.log_evidence, abs=1e-6)
        draws = gaussian.sample(problem_of(model, X, Y).key(5), 4000)
    root = np.linalg.cholesky(truth.precision)
    spread = root.T @ np.cov(draws.T) @ root  # a Wishart matrix over 4 000, mean 1
    assert np.abs(spread - np.eye(3)).max() < 5 * np.sqrt(2 / 4000)
    if temperature != 1.0:  # the wrong form: a temperature that counts twice
        twice = exact(X, Y, temperature=temperature**2)
        wrong = np.linalg.inv(twice.precision)
        with arithmetic(float64=True):
            assert np.abs(gaussian.covariance / wrong - 1).max() > 0.3
            assert abs(gaussian.log_evidence - twice.log_evidence) > 1


def test_the_diagonal_has_the_variances_of_its_theory_which_are_too_small():
    model = linear()
    gaussian = around(Laplace(model, structure="diagonal", mode=MODE), model).gaussian
    truth = exact(X, Y)
    with arithmetic(float64=True):
        found = np.diag(gaussian.covariance)
    np.testing.assert_allclose(found, 1 / np.diag(truth.precision), rtol=1e-6)
    assert (found < np.diag(np.linalg.inv(truth.precision)) * (1 - 1e-4)).all()


def test_a_cold_posterior_has_the_prior_tempered_too():
    model = bnn.cold(linear(), 0.4)
    gaussian = around(Laplace(model, mode=MODE), model).gaussian
    truth = exact(X, Y, temperature=0.4, prior=0.7 * np.sqrt(0.4))
    np.testing.assert_allclose(gaussian.mean, truth.mean, atol=1e-6)
    with arithmetic(float64=True):
        np.testing.assert_allclose(gaussian.covariance, np.linalg.inv(truth.precision), rtol=1e-6)
    with pytest.raises(ValueError, match="evidence of a `cold`"):
        around(Laplace(model, mode=MODE, prior_precision="scalar"), model)


def best(temperature=1.0):
    """Prior standard deviation and noise at which the closed-form evidence is greatest."""

    def loss(logs):
        prior, noise = np.exp(logs)
        return -exact(X, Y, temperature=temperature, prior=prior, noise=noise).log_evidence

    return np.exp(optimize.minimize(loss, np.zeros(2), tol=1e-10).x), loss


LEARNED = bnn.bayesian_network(
    bnn.nn.MLP(hidden=(), outputs=1), bnn.priors.normal(0.7), bnn.likelihoods.gaussian()
)


def test_the_last_layer_finds_the_prior_and_noise_of_the_greatest_evidence():
    untrained = bnn.approximations.MAP(epochs=1)  # the mode does not matter where all is linear
    approximation = LastLayer(LEARNED, mode=untrained, prior_precision="scalar", tune_noise=True)
    found, is_exact = around(approximation, LEARNED)
    (prior, noise), loss = best()
    assert is_exact
    assert 0.7 / np.sqrt(found.record["prior_factors"]["all"]) == pytest.approx(prior, rel=2e-3)
    assert found.record["noise"] == pytest.approx(noise, rel=2e-3)
    truth = exact(X, Y, prior=prior, noise=noise)
    assert found.record["log_evidence"] == pytest.approx(truth.log_evidence, abs=1e-3)
    assert -loss(np.log([0.7, noise])) < truth.log_evidence - 0.1  # there was something to tune
    with arithmetic(float64=True):
        np.testing.assert_allclose(found.gaussian.mean, truth.mean, atol=1e-3)


def test_the_last_layer_is_exact_wherever_training_ended():
    model = linear(0.4)
    found, is_exact = around(LastLayer(model, mode=bnn.approximations.MAP(epochs=1)), model)
    truth = exact(X, Y, temperature=0.4)
    assert is_exact
    with arithmetic(float64=True):
        np.testing.assert_allclose(found.gaussian.mean, truth.mean, atol=1e-6)
    assert found.record["log_evidence"] == pytest.approx(truth.log_evidence, abs=1e-6)


@pytest.mark.check
def test_tuning_during_training_reaches_the_greatest_evidence():
    """With the mode following, the evidence of the linear model is its own at every step."""
    settings = DuringTraining(rounds=30, epochs=40, learning_rate=0.03, batch_size=None)
    approximation = Laplace(
        LEARNED, mode=MODE, prior_precision="scalar", tune_noise=True, when=settings
    )
    found = around(approximation, LEARNED)
    (prior, noise), loss = best()
    assert -loss(np.log([prior, noise])) - found.record["log_evidence"] < 1e-3
    assert 0.7 / np.sqrt(found.record["prior_factors"]["all"]) == pytest.approx(prior, rel=0.03)
    assert found.record["noise"] == pytest.approx(noise, rel=0.01)
    assert found.record["log_evidences"][-1] > found.record["log_evidences"][0]


@pytest.mark.parametrize("tuned", checked(["scalar", "layer", "element"], "layer"))
def test_post_hoc_tuning_is_a_maximum_at_the_mode_that_was_found(tuned):
    """Of log p(y|θ*) - ½[log|H + Λ| - log|Λ| + θ*ᵀΛθ*], Λ = diag(λ)/0.7²; here by scipy."""
    model = linear()
    found = around(Laplace(model, mode=MODE, prior_precision=tuned), model)
    truth = exact(X, Y)
    data = truth.precision - np.eye(3) / 0.49
    residual = Y - np.column_stack([X, np.ones(40)]) @ truth.mean
    likelihood = -20 * np.log(2 * np.pi * 0.25) - residual @ residual / 0.5

    def loss(logs):
        factors = np.exp(np.broadcast_to(logs, 3)) / 0.49
        ratio = np.linalg.slogdet(data + np.diag(factors))[1] - np.log(factors).sum()
        return -likelihood + 0.5 * (ratio + factors @ truth.mean**2)

    count = 3 if tuned == "element" else 1
    if tuned == "element":  # the bias is nearly 0: its precision rises, and the maximum is flat
        bounds = [(-20, 20)] * 3
        greatest = optimize.minimize(loss, np.zeros(3), bounds=bounds, tol=1e-12).fun
    else:
        greatest = optimize.minimize(loss, np.zeros(count), tol=1e-10).fun
    assert found.record["log_evidence"] == pytest.approx(-greatest, abs=1e-3)
    assert found.record["log_evidence"] > -loss(np.zeros(count)) + 1e-3


def test_linearised_predictions_of_a_linear_model_are_the_exact_predictive():
    model = linear()
    draws = 4000
    posterior = bnn.fit(Laplace(model, mode=MODE, draws=draws), X, Y, float64=True, progress=False)
    assert posterior.provenance["approximation"]["predictive"] == "linearised"
    new = np.random.default_rng(1).normal(size=(20, 2))
    design = np.column_stack([new, np.ones(20)])
    truth = exact(X, Y)
    variance = np.einsum("ni,ij,nj->n", design, np.linalg.inv(truth.precision), design)
    found = posterior.predict(new)
    assert np.abs((found.mean - design @ truth.mean) / np.sqrt(variance / draws)).max() < 5
    assert np.abs(found.epistemic / variance - 1).max() < 5 * np.sqrt(2 / draws)
    np.testing.assert_allclose(found.aleatoric, 0.25)
    assert posterior.diagnose().status == "fitted"
    assert "log evidence" in str(posterior.diagnose())
