"""SGHMC: two ways to say one thing, SGLD as its limit, and its target on a conjugate model."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.schedules.simple import Cyclical
from tests.inference.kernels.known_moments import LINEAR

BATCH = dict(batch_size=20, steps_per_draw=5)


def positions(kernel, x, y, draws=4):
    """The first draws, as NumPyro would make them."""

    @jax.jit
    def run(key, x, y):
        fresh = kernel.wrap_model(lambda model: model)
        z = {"net/Dense_0.bias": np.zeros(1, "f"), "net/Dense_0.kernel": np.ones((2, 1), "f")}
        state = fresh.init(key, 2, z, (x, y), {})

        def step(state, _):
            state = fresh.sample(state, (x, y), {})
            return state, (state.z, state.step_size)

        return jax.lax.scan(step, state, None, length=draws)[1]

    z, step_size = run(jax.random.key(0), x, y)
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(z)]), np.asarray(step_size)


def test_learning_rate_and_step_size_say_the_same(regression):
    """lr = ε·N: the same draws, whether a number or a schedule."""
    for rate, step in ((4e-3, 1e-4), (Cyclical(4e-3, 10), Cyclical(1e-4, 10))):
        by_rate = positions(SGHMC(LINEAR, learning_rate=rate, **BATCH), *regression)
        by_step = positions(SGHMC(LINEAR, step_size=step, **BATCH), *regression)
        np.testing.assert_allclose(by_rate[0], by_step[0], rtol=1e-5)
        np.testing.assert_allclose(by_rate[1], by_step[1], rtol=1e-5)
    assert not np.allclose(
        by_rate[0], positions(SGHMC(LINEAR, step_size=1e-4, **BATCH), *regression)[0]
    )


@pytest.mark.check
def test_without_momentum_it_is_sgld(regression):
    settings = dict(step_size=1e-4, temperature=0.7, **BATCH)
    momentum, _ = positions(SGHMC(LINEAR, momentum_decay=0.0, **settings), *regression)
    langevin, _ = positions(SGLD(LINEAR, **settings), *regression)
    np.testing.assert_allclose(momentum, langevin, rtol=1e-5)
    some, _ = positions(SGHMC(LINEAR, momentum_decay=0.1, **settings), *regression)
    assert np.abs(some - langevin).max() > 1e-3


def test_friction_is_constant_in_a_cycle():
    kernel = SGHMC(LINEAR, step_size=Cyclical(1e-4, 100), momentum_decay=0.9, **BATCH)
    for index, c in ((0, 1.0), (50, 0.5)):
        settings = kernel._settings(index, 40, 1.0, np.float32)
        assert abs(float(settings.step_size) - 1e-4 * c**2) < 1e-9
        assert abs(float(kernel._decay(settings)) - (1 - 0.1 * c)) < 1e-6


def test_momentum_survives_a_warm_up_of_the_step_size():
    """β holds at the peak: stated at step 0, where ε is 1e-4 of it, it would be 0 from then on."""
    warming = optax.warmup_cosine_decay_schedule(1e-8, 1e-4, 50, 10**6)
    kernel = SGHMC(LINEAR, step_size=warming, momentum_decay=0.9, **BATCH)

    def decay(step):
        return float(kernel._decay(kernel._settings(jnp.asarray(step), 40, 1.0, jnp.float32)))

    assert decay(50) == pytest.approx(0.9, abs=1e-4)
    assert decay(0) == pytest.approx(1 - 0.1 * 1e-2, abs=1e-4)
    assert kernel.recorded_settings["reference_step_size"] == pytest.approx(1e-4)


@pytest.fixture(scope="module")
def run(regression):
    kernel = SGHMC(
        LINEAR,
        step_size=1e-4,
        batch_size=40,
        steps_per_draw=100,
        minibatches="epoch",
        momentum_decay=0.9,
        temperature=0.5,
    )
    return bnn.sample(
        kernel,
        *regression,
        warmup=10,
        draws=1000,
        chains=4,
        seed=1,
        progress=False,
        chain_method="sequential",
    )


def test_kinetic_temperature_of_each_site(run, regression):
    """mᵀm/d has the mean of symplectic Euler, 2T/(1 + β), up to its known factor of ελ."""
    x, _ = regression
    kinetic = run.statistics["kinetic_temperature"]
    assert kinetic.shape == (4, 1000, 2)  # bias, kernel
    phi = np.column_stack([x, np.ones(len(x))])
    curvature = np.linalg.eigvalsh(np.eye(3) + phi.T @ phi / 0.25)
    factor = 1 / (1 - 1e-4 * curvature / (2 * 1.9))
    lowest, highest = factor.min() / 1.9, factor.max() / 1.9  # 2T = 1
    for site, freedom in ((0, 1), (1, 2)):
        error = np.sqrt(2 / freedom / kinetic[..., site].size) / 1.9
        mean = kinetic[..., site].mean()
        assert lowest - 5 * error < mean < highest + 5 * error
        assert abs(mean - 0.5) > 3 * error or freedom == 1
        # And its distribution, a chi-square over its degrees of freedom.
        scaled = (kinetic[..., site] * freedom / mean).ravel()[::4]
        assert stats.kstest(scaled, stats.chi2(freedom).cdf).pvalue > 1e-5
