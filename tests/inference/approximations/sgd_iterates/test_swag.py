"""SWAG: its moments, its draws, and the distribution of the iterates it is fitted to."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations.sgd_iterates.swag import swag_draws
from tests.inference.approximations.linear_truth import worst_error
from tests.inference.approximations.sgd_iterates.test_constant_sgd import MODE
from tests.inference.kernels.normal_means import NormalMeans

SWAG = bnn.approximations.SWAG
N = NormalMeans.rows


def test_draws_are_half_diagonal_and_half_low_rank():
    generator = np.random.default_rng(1)
    mean, variance = generator.normal(size=5), generator.uniform(0.5, 2.0, size=5)
    deviations = generator.normal(size=(3, 5))
    keys = jax.random.split(jax.random.key(0), 40_000)
    args = (np.asarray(a, np.float32) for a in (mean, variance, deviations))
    draws = np.asarray(swag_draws(*args, keys), float)
    low_rank = deviations.T @ deviations
    assert worst_error(draws, mean, np.diag(variance) / 2 + low_rank / 2 / (3 - 1)) < 4.5
    assert worst_error(draws, mean, np.diag(variance) / 2 + low_rank / 2 / 3) > 6
    assert worst_error(draws, mean, np.diag(variance) + low_rank / 2) > 6


def stationary(rate, momentum, batch):
    """Var θ on `NormalMeans` of v' = μv + aθ + noise, θ' = θ - rate v': Lyapunov, (3,)."""
    curvature, found = (N + 1) / N, []
    for deviation in NormalMeans.deviations:
        step = np.array([[1 - rate * curvature, -rate * momentum], [curvature, momentum]])
        spread = np.array([-rate, 1.0]) * deviation / np.sqrt(batch)
        found.append(solve_discrete_lyapunov(step, np.outer(spread, spread))[0, 0])
    return np.array(found)


@pytest.fixture(scope="module")
def fitted():
    """With as many columns as iterates, the low-rank part is their full covariance."""
    settings = dict(mode=MODE, members=16, every=60, burn_in=3, batch_size=8, draws=300)
    swag = SWAG(
        NormalMeans.model, learning_rate=0.06, momentum=0.7, iterates=200, rank=200, **settings
    )
    return bnn.fit(swag, *NormalMeans.data(), progress=False)


def test_multiswag_has_the_moments_of_the_iterates(fitted):
    theta = fitted.draws["theta"].astype(float)
    assert theta.shape == (16, 300, 3)

    def error(values, expected):
        """In standard errors, from how members differ."""
        return np.abs((values.mean(0) - expected) / (values.std(0, ddof=1) / 4)).max()

    variances = theta.var(axis=1, ddof=1)
    right = stationary(0.06, 0.7, 8)
    # A running mean over i iterates takes 1/i of a deviation with it.
    lost = np.mean(1 / np.arange(1, 201))
    expected = right * (1 - 1 / 200) / 2 + right / 2 * (1 - lost) * 200 / 199
    assert error(variances, expected) < 4.5
    mean = N / (N + 1) * np.array([0.3, -1.0, 0.5])
    assert error(theta.mean(1), mean) < 4.5
    # Negative controls: momentum that does not widen it, the noise of other minibatches, a
    # prior divided by the minibatch and not by the data.
    assert error(variances, expected * stationary(0.06, 0.0, 8) / right) > 6
    assert error(variances, 2 * expected) > 6
    assert error(theta.mean(1), 8 / 9 * np.array([0.3, -1.0, 0.5])) > 6


def test_a_network_and_a_schedule(regression):
    network = bnn.models.mlp(hidden=(5,))
    mode = bnn.fit(
        bnn.approximations.Ensemble(network, members=2, epochs=100, learning_rate=0.02),
        *regression,
        progress=False,
    )
    swag = SWAG(
        network,
        mode=mode,
        members=2,
        learning_rate=lambda step: 1e-2 * (step < 12),
        momentum=0.0,
        iterates=6,
        burn_in=3,
        rank=3,
        draws=4,
        batch_size=10,
    )
    found = bnn.fit(swag, *regression, progress=False)
    kernel = found.draws["net.Dense_0.kernel"]
    assert kernel.shape == (2, 4, 2, 5) and found.draws["noise_scale"].min() > 0
    assert found.provenance["approximation"]["every"] == 4
    assert found.predict(regression[0][:6]).mean.shape == (6,)
    # The rate falls to 0 as the burn-in ends: there is nothing left to scatter.
    np.testing.assert_allclose(kernel, np.repeat(kernel[:, :1], 4, axis=1), atol=1e-6)
    assert np.abs(kernel[:, 0] - mode.draws["net.Dense_0.kernel"][:, 0]).max() > 1e-4


def test_what_did_not_go_well_is_told():
    def verdict(**settings):
        swag = SWAG(NormalMeans.model, mode=MODE, momentum=0.0, iterates=20, **settings)
        found = bnn.fit(swag, *NormalMeans.data(), progress=False).diagnose()
        return found.status, found.verdict

    status, words = verdict(learning_rate=3.0, batch_size=8)
    assert status == "not converged" and "Members [0] of SWAG" in words
    status, words = verdict(learning_rate=3.0, batch_size=64, burn_in=0)
    assert status == "doubtful"
    assert "was still rising" in words and "largest curvature at a mode is 3.05" in words
    crowded = SWAG(NormalMeans.model, mode=MODE, batch_size=64, iterates=20)
    assert "too narrow" in bnn.fit(crowded, *NormalMeans.data(), progress=False).diagnose().verdict


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rank": 1}, ValueError, "`rank` must be at least 2"),
        ({"rank": 30, "iterates": 20}, ValueError, "only 20 iterates are taken in"),
        ({"momentum": 1.0}, ValueError, "`momentum` must be at least 0 and below 1"),
        ({"momentum": "none"}, TypeError, "`momentum` must be a number"),
        ({"learning_rate": 0.0}, ValueError, "`learning_rate` of SWAG must be positive"),
        ({"draws": 0}, ValueError, "`draws` must be at least 1"),
        ({"mode": "map"}, TypeError, "is `MAP\\(...\\)` with settings"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(options, error, words):
    with pytest.raises(error, match=words):
        SWAG(bnn.models.linear(), **options)


def test_a_mode_of_another_model_or_of_too_few_members():
    data = NormalMeans.data()
    mode = bnn.fit(replace(MODE, model=NormalMeans.model), *data, progress=False)
    with pytest.raises(ValueError, match="has 1 chains, and 3 members"):
        bnn.fit(SWAG(NormalMeans.model, mode=mode, members=3), *data, progress=False)
    with pytest.raises(ValueError, match="of another model"):
        bnn.fit(SWAG(bnn.cold(NormalMeans.model, 0.5), mode=mode), *data, progress=False)
