"""Parallel tempering: the target with and without modes, the rungs, and every way of running it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC

import bayesnn_ppl as bnn
import bayesnn_ppl.inference.kernels.full_batch.parallel_tempering as module
from bayesnn_ppl.diagnostics import ess_bulk
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.full_batch.parallel_tempering import (
    ParallelTempering,
    Rung,
    exchange,
)
from tests.inference.kernels.known_moments import (
    NO_DATA,
    scale_model,
    unrelated_data,
)

LADDER = (1.0, 3.0, 9.0, 27.0)


def two_modes(x, y=None, *, batch_size=None):
    """30 % near -4 and 70 % near 4, with a barrier of 32 nats between."""
    weights = dist.Categorical(jnp.array([0.3, 0.7]))
    modes = dist.Normal(jnp.array([-4.0, 4.0]), 0.5)
    numpyro.sample("theta", dist.MixtureSameFamily(weights, modes))
    unrelated_data(x, y, batch_size)


def draw_modes(temperatures, draws=3000, **settings):
    kernel = ParallelTempering(two_modes, temperatures=temperatures, num_leapfrogs=4)
    posterior = bnn.sample(
        kernel,
        *NO_DATA,
        **(dict(warmup=200, draws=draws, chains=4, seed=0, progress=False) | settings),
    )
    return posterior.draws["theta"].astype(float)


def deviation(theta):
    """Of the share above 0 and of |θ| from their true values, in MCSE."""
    worst = 0.0
    for values, expected in (((theta > 0).astype(float), 0.7), (np.abs(theta), 4.0)):
        ess = ess_bulk(values)
        assert ess > 300, "check ESS before bias"
        worst = max(worst, abs(values.mean() - expected) / values.std() * np.sqrt(ess))
    return worst


def test_modes_have_their_weights(monkeypatch):
    assert deviation(draw_modes(LADDER)) < 4
    # Without heat a chain stays where it starts.
    stuck = draw_modes((1.0, 1.01), draws=300)
    assert (np.ptp(np.sign(stuck), axis=1) == 0).all()
    # The negative control: neighbours that always exchange, in another ladder so that no
    # compiled program is used again.
    monkeypatch.setattr(
        module, "exchange", lambda p, uniform, i: exchange(jnp.ones_like(p), uniform, i)
    )
    assert deviation(draw_modes((1.0, 3.0, 9.0, 26.0))) > 6


def test_a_rung_is_the_cold_posterior_and_leaves_jacobians_alone():
    data = np.zeros((3, 1)), np.array([0.3, -0.8, 1.1])
    z = {"scale": jnp.array(0.4)}
    plain = Density.at(scale_model, data, {}, z)
    vector = jnp.array([-0.7])
    for temperature in (1.0, 5.0):
        rung = Rung(**vars(plain), inverse_temperature=1 / temperature)
        cold = Density.at(bnn.cold(scale_model, temperature), data, {}, z)
        np.testing.assert_allclose(rung.potential(vector), cold.potential(vector), rtol=1e-6)
        np.testing.assert_allclose(rung.gradient(vector), cold.gradient(vector), rtol=1e-6)
    # The negative control: the Jacobian, log scale = -0.7 here, at weight 1/5.
    assert abs(rung.potential(vector) - plain.potential(vector) / 5) > 0.5


def test_exchanges_are_of_even_and_then_of_odd_pairs():
    sure, never = jnp.ones(4), jnp.zeros(4)
    uniform = jnp.full(4, 0.5)
    assert exchange(sure, uniform, 0).tolist() == [1, 0, 3, 2, 4]
    assert exchange(sure, uniform, 7).tolist() == [0, 2, 1, 4, 3]
    assert exchange(never, uniform, 0).tolist() == [0, 1, 2, 3, 4]
    assert exchange(jnp.array([0.4, 1.0, 0.6, 1.0]), uniform, 2).tolist() == [0, 1, 3, 2, 4]


@pytest.mark.check
def test_what_numpyro_can_ask_of_it():
    mcmc = MCMC(
        ParallelTempering(two_modes, temperatures=LADDER, num_leapfrogs=4),
        num_warmup=150,
        num_samples=200,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    fields = ("accept_prob", "swap_prob", "potential_energy", "num_steps", "step_size")
    mcmc.run(jax.random.key(0), *NO_DATA, extra_fields=fields)
    found = mcmc.get_extra_fields(group_by_chain=True)
    assert found["swap_prob"].shape == (2, 200, 3) and 0.2 < found["swap_prob"].mean() < 0.95
    assert 0.6 < found["accept_prob"].mean() < 0.99
    assert (found["num_steps"] % 4 == 0).all() and found["num_steps"].max() == 4 * 5
    # The potential is that of the draw that is returned, after the exchange.
    theta = mcmc.get_samples(group_by_chain=True)["theta"]
    mixture = dist.MixtureSameFamily(
        dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([-4.0, 4.0]), 0.5)
    )
    shift = found["potential_energy"] + mixture.log_prob(theta)
    np.testing.assert_allclose(shift, shift[0, 0], atol=1e-4)
    steps = np.asarray(mcmc.last_state.averaging.averaged)
    assert (steps[:, -1] > steps[:, 0]).all()
