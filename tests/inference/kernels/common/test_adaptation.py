"""Step sizes and variances of a warm-up, without a sampler."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.hmc_util import build_adaptation_schedule

from bayesnn_ppl.inference.kernels.common.acceptance import metropolis
from bayesnn_ppl.inference.kernels.common.adaptation import (
    DualAveraging,
    RunningVariance,
    collected,
    inverse_mass_of,
    search_step_size,
    variance_windows,
)


@pytest.mark.parametrize("first", [1e-3, 0.3, 50.0])
def test_dual_averaging_finds_the_step_of_a_given_acceptance(first):
    """Acceptance e^{-ε} is 0.8 at ε = -log 0.8; NaN and 0 far above."""

    def draw(state, noise):
        step = state.step_size
        accept_prob = jnp.where(step > 20, jnp.nan, jnp.clip(jnp.exp(-step) + noise, 0, 1))
        return state.update(accept_prob, 0.8), None

    noise = 0.1 * jax.random.normal(jax.random.key(0), (2000,))
    state = jax.lax.scan(draw, DualAveraging.start(first), noise)[0]
    assert float(state.averaged) == pytest.approx(-np.log(0.8), rel=0.1)
    assert state.averaged.dtype == jnp.float32


def test_the_first_updates_are_those_of_the_paper():
    """μ = log 10, H_1 = (0.8 - 0.5)/11, log ε_2 = μ - H_1/0.05, and ε̄_2 = ε_2."""
    state = DualAveraging.start(1.0).update(0.5, 0.8)
    assert float(state.step_size) == pytest.approx(10 * np.exp(-0.3 / 11 / 0.05), rel=1e-5)
    assert float(state.averaged) == pytest.approx(float(state.step_size), rel=1e-5)
    after = state.update(jnp.nan, 0.8)
    shortfall = (1 - 1 / 12) * 0.3 / 11 + 0.8 / 12
    step = 10 * np.exp(-np.sqrt(2) / 0.05 * shortfall)
    assert float(after.step_size) == pytest.approx(step, rel=1e-4)
    weight = 2**-0.75
    averaged = weight * np.log(step) + (1 - weight) * np.log(float(state.averaged))
    assert float(jnp.log(after.averaged)) == pytest.approx(averaged, rel=1e-4)


def test_a_long_row_of_rejections_can_be_recovered_from():
    def draw(state, accept_prob):
        return state.update(accept_prob, 0.8), None

    accept_probs = jnp.concatenate([jnp.zeros(500), jnp.ones(3000)])
    lost = jax.lax.scan(draw, DualAveraging.start(0.1), accept_probs[:500])[0]
    assert 0 < lost.step_size < 1e-30 and 0 < lost.averaged < 1e-30
    assert jax.lax.scan(draw, lost, accept_probs[500:])[0].step_size > 1e-3


@pytest.mark.parametrize("first", [1e-6, 0.4, 1e5])
def test_the_search_ends_where_the_acceptance_crosses(first):
    def log_ratio(step):
        return jnp.where(step > 1e3, jnp.nan, -(step**2))

    found = float(search_step_size(log_ratio, first))
    crossing = np.sqrt(-np.log(0.8))
    assert crossing / 2 <= found <= 2 * crossing
    assert np.log2(found / first) == pytest.approx(round(np.log2(found / first)), abs=1e-4)
    assert float(search_step_size(log_ratio, first, wanted=False)) == pytest.approx(first)


def test_the_search_ends_even_where_nothing_crosses():
    assert np.isfinite(float(search_step_size(lambda step: 0.0 * step, 1.0)))
    assert float(search_step_size(lambda step: jnp.nan * step, 1.0)) > 0


def test_running_variances_are_those_of_numpy():
    vectors = 100 + np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    running = RunningVariance.start(vectors[0])
    for vector in vectors:
        running = running.update(vector)
    np.testing.assert_allclose(running.mean, vectors.mean(axis=0), rtol=1e-6)
    expected = 50 / 55 * vectors.var(axis=0, ddof=1) + 1e-3 * 5 / 55
    np.testing.assert_allclose(running.variance(), expected, rtol=1e-4)
    np.testing.assert_allclose(RunningVariance.start(vectors[0]).variance(), 1e-3, rtol=1e-6)


def test_masses_are_those_of_a_normal_target():
    covariance = np.array([[4.0, 1.9], [1.9, 1.0]])
    precision = np.linalg.inv(covariance)
    points = np.random.default_rng(0).multivariate_normal([50, -3], covariance, size=4000)
    gradients = (points - [50, -3]) @ precision
    expected = {
        "diagonal": np.diag(covariance),
        "fisher": np.sqrt(np.diag(covariance) / np.diag(precision)),
    }
    for mass, masses in expected.items():
        seen = jnp.asarray(collected(mass, points, gradients))
        moments, _ = jax.lax.scan(
            lambda m, v: (m.update(v), None), RunningVariance.start(seen[0]), seen
        )
        np.testing.assert_allclose(inverse_mass_of(mass, moments), masses, rtol=0.1)
    assert not np.allclose(expected["diagonal"], expected["fisher"], rtol=0.5)


def test_a_chain_that_has_not_moved_gets_a_finite_mass():
    seen = collected("fisher", jnp.ones(3), jnp.full(3, 1e4))
    moments = RunningVariance.start(seen).update(seen).update(seen)
    assert jnp.isfinite(inverse_mass_of("fisher", moments)).all()


@pytest.mark.parametrize("num_warmup", [20, 50, 100, 150, 400, 1000, 3210])
def test_windows_are_those_of_stan(num_warmup):
    first, ends = variance_windows(num_warmup)
    _, *windows, _ = build_adaptation_schedule(num_warmup)
    assert first == windows[0].start
    assert list(ends) == [window.end + 1 for window in windows]


@pytest.mark.parametrize("num_warmup", [0, 1, 19])
def test_a_short_warm_up_has_no_windows(num_warmup):
    assert variance_windows(num_warmup)[1] == ()


def test_the_decision():
    accepted = [bool(metropolis(jnp.log(0.5), u).accepted) for u in (0.4999, 0.5001)]
    assert accepted == [True, False]
    assert float(metropolis(jnp.float32(3.0), 0.999).accept_prob) == 1
    for ratio in (jnp.nan, jnp.inf, -jnp.inf):
        decision = metropolis(jnp.float32(ratio), 0.0)
        assert not decision.accepted and decision.diverging and decision.accept_prob == 0
    assert metropolis(jnp.float32(-1001.0), 0.5).diverging
    assert not metropolis(jnp.float32(-999.0), 0.5).diverging
    chosen = metropolis(jnp.float32(-999.0), 0.5).choose({"a": 1.0}, {"a": 2.0})
    assert float(chosen["a"]) == 2
