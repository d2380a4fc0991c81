"""Unadjusted microcanonical Langevin: what its warm-up sets, its bias, and what it survives."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.adaptation import (
    StepSizeRule,
    batch_time,
    step_size_rule,
)
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.mclmc import MCLMC
from tests.inference.kernels.known_moments import (
    NO_DATA,
    SETTINGS,
    half_space,
    unrelated_data,
)
from tests.marks import checked

DIMENSION = 50
PRECISE = dict(energy_variance_start=5e-3, energy_variance_end=5e-4)


def independent(x, y=None, *, batch_size=None):
    """Fifty independent Gaussians of standard deviations from 1 to 1/30."""
    scales = jnp.geomspace(1.0, 1 / 30, DIMENSION)
    numpyro.sample("theta", dist.Normal(0.0, scales).to_event(1))
    unrelated_data(x, y, batch_size)


def isotropic(x, y=None, *, batch_size=None):
    """Fifty independent standard Gaussians."""
    numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([DIMENSION]).to_event(1))
    unrelated_data(x, y, batch_size)


def run(kernel, draws, *, warmup=0, chains=4):
    """Positions (chain, draw, d), energy errors (chain, draw), and the last states."""
    starts = jax.random.normal(jax.random.key(1), (chains, DIMENSION)) / 30

    def chain(key, theta):
        state = kernel.init(key, warmup, {"theta": theta}, NO_DATA, {})

        def draw(state, _):
            state = kernel.sample(state, NO_DATA, {})
            return state, (state.z["theta"], state.energy_error)

        return jax.lax.scan(draw, state, None, length=warmup + draws)

    keys = jax.random.split(jax.random.key(2), chains)
    state, (theta, error) = jax.jit(jax.vmap(chain))(keys, starts)
    return np.asarray(theta)[:, warmup:], np.asarray(error)[:, warmup:], state


def test_the_step_size_rule_is_that_of_the_paper():
    """Sums of sixth powers, as the equations have them, in float64."""
    generator = np.random.default_rng(0)
    rule = StepSizeRule(jnp.float32(1e-3), jnp.float32(0.0))
    step_size, total, weights = 1e-3, 0.0, 0.0
    errors, targets = generator.normal(size=60) ** 3, np.geomspace(0.5, 0.1, 60)
    for error, target in zip(errors, targets, strict=True):
        xi = error**2 / target + 1e-8
        w = np.exp(-0.5 * (np.log(xi) / 9) ** 2)
        total = 99 / 101 * total + w * xi / step_size**6
        weights = 99 / 101 * weights + w
        step_size = (total / weights) ** (-1 / 6)
        rule = step_size_rule(rule, jnp.float32(error), target)
        np.testing.assert_allclose(rule.step_size, step_size, rtol=1e-4)
    for broken in (np.nan, np.inf):
        shorter = step_size_rule(rule, jnp.float32(broken), 0.1)
        np.testing.assert_allclose(shorter.step_size, 0.8 * rule.step_size, rtol=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.8, 0.98])
def test_batch_means_know_the_autocorrelation_time(correlation):
    """Of autoregressive chains, (1 + ρ)/(1 - ρ)."""
    generator = np.random.default_rng(0)
    chain = np.empty((8192, 400))
    chain[0] = generator.normal(size=400)
    for index in range(1, len(chain)):
        noise = generator.normal(size=400)
        chain[index] = correlation * chain[index - 1] + np.sqrt(1 - correlation**2) * noise
    length = len(chain) // 16
    means = (chain.reshape(-1, n, 400).mean(axis=1).var(axis=0, ddof=1) for n in (length, 1024))
    time = batch_time(jnp.asarray(chain.var(axis=0)), *map(jnp.asarray, means), length)
    assert abs(time / ((1 + correlation) / (1 - correlation)) - 1) < 0.12


@pytest.mark.check
def test_the_bias_is_of_second_order_and_bounded_by_the_energy_error():
    """Of the variances of a Gaussian; Var(ΔE) of a step is of order ε⁶."""
    settings = dict(steps_per_draw=1, length=7.0, preconditioning="identity", adapt_step_size=False)
    bias, energy = {}, {}
    for step_size in (10.0, 5.0):
        theta, error, _ = run(MCLMC(isotropic, step_size=step_size, **settings), 20_000)
        bias[step_size] = abs(np.mean(theta[:, 1000:].astype(float) ** 2) - 1)
        energy[step_size] = error[:, 1000:].astype(float).var() / DIMENSION
        assert bias[step_size] < 0.35 * energy[step_size] ** (1 / 3)
    assert 1.5 < np.log2(bias[10.0] / bias[5.0]) < 2.8
    assert 5 < np.log2(energy[10.0] / energy[5.0]) < 8
    # The negative control: were the bound of first order in v, it would not hold.
    assert bias[5.0] > 20 * energy[5.0]


@pytest.mark.parametrize("preconditioning", ["diagonal", "identity"])
def test_the_warm_up_sets_what_it_says(preconditioning):
    kernel = MCLMC(independent, preconditioning=preconditioning, steps_per_draw=1, **PRECISE)
    theta, error, state = run(kernel, 3000, warmup=4000)
    scales = np.geomspace(1.0, 1 / 30, DIMENSION)
    energy = error.astype(float).var(axis=1) / DIMENSION
    assert ((energy > 5e-4 / 4) & (energy < 5e-4 * 4)).all()
    assert len(np.unique(state.step_size)) == 4, "every chain has its own"
    if preconditioning == "diagonal":
        ratio = np.abs(np.log(np.asarray(state.scale) / scales))
        assert np.median(ratio) < 0.25 and ratio.max() < 1
        variances = theta.astype(float).var(axis=(0, 1)) / scales**2
        assert np.abs(variances.mean() - 1) < 0.05
    else:
        np.testing.assert_array_equal(state.scale, 1.0)
    # L of phase 3 is 0.4 ε n/ESS: that of the draws, which are one step each.
    time = np.asarray(state.length / state.step_size) / 0.4
    ess = np.stack([ess_bulk(theta[chain : chain + 1].astype(float)) for chain in range(4)])
    measured = np.mean(3000 / ess)
    assert 1 / 3 < time.mean() / max(measured, 1.0) < 3


def test_a_length_and_a_step_size_that_are_given_stay():
    kernel = MCLMC(independent, length=3.0, step_size=0.01, adapt_step_size=False)
    _, _, state = run(kernel, 5, warmup=50)
    np.testing.assert_allclose(state.length, 3.0)
    np.testing.assert_allclose(state.step_size, 0.01, rtol=1e-6)


def cliff(x, y=None, *, batch_size=None):
    """The same, but with a finite gradient where the density is zero."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([3]))
    numpyro.factor("cliff", jnp.where(theta[0] > 1.0, -jnp.inf, 0.0))
    unrelated_data(x, y, batch_size)


@pytest.mark.parametrize("model", checked([half_space, cliff], half_space))
def test_a_chain_is_not_lost_where_the_density_ends(model):
    kernel = MCLMC(model, preconditioning="identity", steps_per_draw=4, **PRECISE)
    posterior = bnn.sample(kernel, *NO_DATA, warmup=300, draws=1000, **SETTINGS)
    theta = posterior.draws["theta"]
    assert np.isfinite(theta).all() and theta[..., 0].max() <= 1
    assert 0 < posterior.statistics["diverging"].mean() < 0.6
    # Every chain keeps moving, to the wall and away from it.
    assert (theta[:, -300:, 0].max(axis=1) > 0.5).all()
    assert (theta[:, -300:, 0].min(axis=1) < -0.5).all()
    assert (posterior.statistics["n_steps"] == 8).all()
