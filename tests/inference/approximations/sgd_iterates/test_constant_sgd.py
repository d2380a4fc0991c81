"""Constant-rate SGD against its stationary distribution, where that is known exactly."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from scipy.optimize import minimize_scalar

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations.sgd_iterates.constant_rate import best_rates
from bayesnn_ppl.inference.approximations.trained_networks.flat_loss import Layout
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.contract import inspect_model
from tests.inference.kernels.known_moments import (
    NOISE,
    closed_form,
    coefficients,
    worst_deviation,
)
from tests.inference.kernels.normal_means import NormalMeans
from tests.inference.kernels.stationary_distributions import (
    Method,
    minibatch_distribution,
    regression_rows,
)

ConstantSGD = bnn.approximations.ConstantSGD
MODE = bnn.approximations.MAP(
    optimiser=optax.sgd(0.3), schedule=None, batch_size=None, epochs=100, start="prior"
)
N = NormalMeans.rows
MODELS = {
    "as it is": NormalMeans.model,
    "cold": bnn.cold(NormalMeans.model, 0.5),
}


def problem(model, x, y, seed=0):
    return Problem(model, x, y, inspect_model(model, x, y), seed, False, None, False, None)


def draws(model=NormalMeans.model, data=None, **settings):
    common = dict(mode=MODE, members=4, batch_size=8, draws=400, every=50, burn_in=5)
    approximation = ConstantSGD(model, **(common | settings))
    return bnn.fit(approximation, *(NormalMeans.data() if data is None else data), progress=False)


def stationary_moments(rate, *, batch=8, temperature=1.0, prior=1.0):
    """Mean and covariance of θ' = θ - rate ∇J on `NormalMeans`: noise the same everywhere."""
    curvature = (N + prior) / N / temperature
    noise = NormalMeans.deviations**2 / temperature**2 / batch
    mean = N / (N + prior) * np.array([0.3, -1.0, 0.5])
    return mean, np.diag(rate**2 * noise / (1 - (1 - rate * curvature) ** 2))


def theory(batch=8, temperature=1.0):
    """ε = 2Bd / (N tr C)."""
    return 2 * batch * 3 / (N * (NormalMeans.deviations**2).sum()) * temperature**2


def test_the_iterates_have_the_moments_of_lyapunov():
    found = draws(learning_rate=0.3)
    theta = found.draws["theta"].astype(float)
    assert theta.shape == (4, 400, 3)
    assert worst_deviation(theta, *stationary_moments(0.3)) < 4.5
    # Negative controls: half the noise, small steps where they are not, a prior that counts once
    # a minibatch and not once in all.
    assert worst_deviation(theta, *stationary_moments(0.3, batch=16)) > 6
    mean, covariance = stationary_moments(0.3)
    small = 0.3 * NormalMeans.deviations**2 / 8 / 2
    assert worst_deviation(theta, mean, np.diag(0.5 * small)) > 6
    assert worst_deviation(theta, *stationary_moments(0.3, prior=N / 8)) > 6
    record = found.provenance["approximation"]
    np.testing.assert_allclose(record["stability"], 0.3 * (N + 1) / N, rtol=1e-4)
    assert found.diagnose().status == "fitted"


@pytest.mark.parametrize(("name", "temperature"), [("as it is", 1.0), ("cold", 0.5)])
def test_the_best_rate_counts_the_temperature_once(name, temperature):
    found = draws(MODELS[name], batch_size=4, every=100)
    rate = theory(4, temperature)
    np.testing.assert_allclose(found.provenance["approximation"]["learning_rates"], rate, rtol=1e-3)
    theta = found.draws["theta"].astype(float)
    assert worst_deviation(theta, *stationary_moments(rate, batch=4, temperature=temperature)) < 4.5
    wrong = 0.25 if temperature == 0.5 else 0.5
    again = theory(4, wrong)
    assert worst_deviation(theta, *stationary_moments(again, batch=4, temperature=wrong)) > 6
    # The trace of the posterior's covariance is that of the iterates, but for steps of finite size.
    assert theta.var(axis=(0, 1)).sum() == pytest.approx(3 * temperature / (N + 1), rel=0.25)


def test_the_best_rate_has_the_least_divergence():
    x, y = NormalMeans.data()
    given = problem(NormalMeans.model, x, y)
    mode = np.asarray([N / (N + 1) * np.array([0.3, -1.0, 0.5])], np.float32)
    curvature, noise = (N + 1) / N, NormalMeans.deviations**2

    def divergence(rate):
        variances = rate * noise / (2 * 2 * curvature)  # PAΣ + ΣAP = PCP/B at B = 2
        ratio = variances * N * curvature
        return 0.5 * np.sum(ratio - 1 - np.log(ratio))

    rates = best_rates(given, Layout.of(given), mode, 2, "none")
    least = minimize_scalar(
        divergence, bounds=(1e-3, 1.0), method="bounded", options={"xatol": 1e-8}
    )
    assert rates.rate[0, 0] == pytest.approx(least.x, rel=1e-4)
    for preconditioner in ("diagonal", "full"):
        own = best_rates(given, Layout.of(given), mode, 1, preconditioner)
        rate = own.rate[0] if preconditioner == "diagonal" else np.diag(own.rate[0])
        np.testing.assert_allclose(rate, 2 / (N * noise), rtol=1e-4)
        assert divergence(2 * rate) == pytest.approx(0, abs=1e-6)  # 2: B = 2 there, and 1 here
    assert not own.reduced.any()
    crowded = best_rates(given, Layout.of(given), mode, N, "full")
    assert crowded.reduced.all()
    assert crowded.stability == pytest.approx(0.5, rel=1e-4)


def preconditioned(state, noises, gradient_at, *, rate):
    del noises
    return state - (rate @ gradient_at(state[0]))[None]


def test_the_full_preconditioner_on_a_regression(regression):
    """The noise of minibatches grows with the distance here, and the exact covariance knows it."""
    x, y = regression
    model = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(NOISE))
    found = draws(model, regression, preconditioner="full", batch_size=2, every=100, draws=500)
    theta = coefficients(found)
    mean, covariance = closed_form(x, y)
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)
    residual = phi @ mean - y
    gradients = phi * residual[:, None] / NOISE**2
    noise = np.cov(gradients.T, ddof=0)
    rate = 2 * 2 / len(x) * np.linalg.inv(noise)
    largest = np.abs(np.linalg.eigvals(rate @ np.linalg.inv(covariance) / len(x))).max()
    rate *= min(1.0, 0.5 / largest)
    exact = minibatch_distribution(
        Method(preconditioned, parts=1), regression_rows(x, y), 2, {"rate": rate / len(x)}
    )
    assert worst_deviation(theta, exact.mean, exact.covariance) < 4.5
    assert worst_deviation(theta, exact.mean, 0.6 * exact.covariance) > 6
    # What the preconditioner is for: the posterior's shape, whatever the scale.
    scaled = exact.covariance * np.trace(covariance) / np.trace(exact.covariance)
    np.testing.assert_allclose(scaled, covariance, atol=0.25 * np.diag(covariance).max())


def test_what_did_not_go_well_is_told():
    wild = draws(learning_rate=3.0, members=2, draws=300, every=10).diagnose()
    assert wild.status == "not converged" and "Members [0, 1]" in wild.verdict
    assert np.isfinite(
        draws(learning_rate=3.0, members=2, draws=300, every=10).draws["theta"]
    ).all()
    far = bnn.approximations.MAP(epochs=1, learning_rate=1e-6, start="prior")
    early = draws(
        learning_rate=0.002, mode=far, members=2, every=1, draws=300, burn_in=0
    ).diagnose()
    assert "was still falling while ConstantSGD" in early.verdict
    ended = ConstantSGD(
        NormalMeans.model, mode=MODE, draws=2000, burn_in=0, every=1, learning_rate=0.1
    )
    stopped = bnn.fit(
        ended, *NormalMeans.data(), progress=False, callback=lambda seen: seen.total == 2000
    )
    assert stopped.provenance["interrupted"] and stopped.draws["theta"].shape == (1, 1, 3)
    assert "interrupted after 1 iterates" in stopped.diagnose().verdict


def centred(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(slope * (x[:, 0] - jnp.mean(x[:, 0])), 1.0), obs=y)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"members": 0}, ValueError, "`members` must be at least 1"),
        ({"learning_rate": -1.0}, ValueError, "`learning_rate` of ConstantSGD must be positive"),
        ({"preconditioner": "block"}, ValueError, "`preconditioner` must be one of"),
        ({"preconditioner": "full", "learning_rate": 0.1}, ValueError, "would be ignored"),
        ({"mode": 3}, TypeError, "is `MAP\\(...\\)` with settings"),
        ({"every": 0}, ValueError, "`every` must be at least 1"),
        ({"model": centred}, ValueError, "mixes the rows"),
        (
            {"model": bnn.models.mlp(hidden=(600,)), "preconditioner": "full"},
            ValueError,
            "for at most 2000 coordinates",
        ),
        ({"mode": bnn.approximations.MAP(centred)}, ValueError, "Leave its model out"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(options, error, words, regression):
    settings = {"model": bnn.models.linear()} | options
    with pytest.raises(error, match=words):
        bnn.fit(ConstantSGD(settings.pop("model"), **settings), *regression, progress=False)
