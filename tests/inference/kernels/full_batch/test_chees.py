"""ChEES-HMC: the target, what the chains learn together, and every way of running it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from scipy import stats

import bayesnn_ppl as bnn
import bayesnn_ppl.inference.kernels.full_batch.leapfrog as module
from bayesnn_ppl.inference.kernels.full_batch.chees import ChEES
from bayesnn_ppl.inference.kernels.full_batch.chees_adaptation import (
    RunningVariance,
    chees_gradient,
    van_der_corput,
    with_draws,
)
from tests.inference.kernels.known_moments import NO_DATA, gaussian, worst_deviation

ILL_CONDITIONED = np.geomspace(0.01, 1.0, 8)  # standard deviations: κ = 10⁴


def of_scales(scales):
    return gaussian(np.diag(np.asarray(scales, np.float32) ** 2))


def with_a_hole(x, y=None, *, batch_size=None):
    """A standard normal whose density is NaN above 1."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    numpyro.factor("hole", jnp.where(theta[0] > 1, jnp.nan, 0.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def draw(kernel, data=NO_DATA, **settings):
    alone = {} if "mesh" in settings else {"chain_method": "vectorized"}
    settings = dict(warmup=300, draws=600, chains=8, seed=1, progress=False) | alone | settings
    return bnn.sample(kernel, *data, **settings)


def run_mcmc(kernel, data=NO_DATA, *, warmup=300, draws=100, chains=8):
    """By NumPyro's own loop, which leaves the state at hand."""
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    fields = ("accept_prob", "num_steps", "step_size", "potential_energy", "energy", "diverging")
    mcmc.run(jax.random.key(0), *data, extra_fields=(*fields, "trajectory_length"))
    return mcmc


@pytest.mark.check
def test_an_ill_conditioned_gaussian():
    theta = draw(ChEES(of_scales(ILL_CONDITIONED), mass="diagonal")).draws["theta"]
    assert worst_deviation(theta, np.zeros(8), np.diag(ILL_CONDITIONED**2)) < 4


def test_a_wrong_kinetic_energy_is_caught(monkeypatch):
    """The negative control of the accept step, at a step size where it matters."""

    def deviation(trajectory_length):
        kernel = ChEES(of_scales(np.ones(8)), step_size=1.1, trajectory_length=trajectory_length)
        theta = draw(kernel, warmup=0, draws=1000).draws["theta"]  # it starts in the posterior
        return worst_deviation(theta, np.zeros(8), np.eye(8))

    assert deviation(3.0) < 4
    trajectory = module.unit_mass_trajectory

    def old_momentum(start, momentum, *rest):
        return trajectory(start, momentum, *rest)[0], momentum

    monkeypatch.setattr(module, "unit_mass_trajectory", old_momentum)
    assert deviation(3.01) > 6  # another length, or the compiled program would be used again


def test_the_gradient_of_the_criterion():
    """On N(0, I) the exact flow has ChEES(t) = d sin²t, with derivative t d sin 2t in log t."""
    rng = np.random.default_rng(0)
    theta, momentum = rng.normal(size=(2, 200_000, 4))
    for t in (0.4, 1.2, 2.0):
        after = np.cos(t) * theta + np.sin(t) * momentum
        velocity = -np.sin(t) * theta + np.cos(t) * momentum
        found = chees_gradient(theta, after, velocity, t, jnp.ones(len(theta)))
        assert found == pytest.approx(t * 4 * np.sin(2 * t), abs=0.15)


def test_chains_that_are_not_finite_do_not_touch_the_gradient():
    rng = np.random.default_rng(1)
    before, after, velocity = rng.normal(size=(3, 6, 4)).astype(np.float32)
    accept_prob = np.array([0.9, 0.0, 0.5, 0.0, 1.0, 0.0], np.float32)
    spoiled = after.copy(), velocity.copy()
    spoiled[0][1], spoiled[0][3], spoiled[1][5] = np.nan, 3e30, np.inf
    clean = chees_gradient(before, after, velocity, 1.3, accept_prob)
    found = chees_gradient(before, *spoiled, 1.3, accept_prob)
    assert np.isfinite(clean) and clean != 0 and found == clean
    assert chees_gradient(before, *spoiled, 1.3, np.zeros(6, np.float32)) == 0


def test_the_halton_sequence():
    found = jax.vmap(van_der_corput)(np.arange(1, 8))
    np.testing.assert_allclose(found, [0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875], rtol=1e-6)


@pytest.mark.parametrize(("jitter", "optimum"), [(0.0, np.pi / 2), (1.0, 2.2467)])
def test_the_trajectory_length_is_found(jitter, optimum):
    """The mean over jitter of sin²: greatest at π/2 without, at tan 2T = 2T with all of it."""
    mcmc = run_mcmc(
        ChEES(of_scales(np.full(50, 3.0)), jitter=jitter, target_accept=0.9, mass="identity")
    )
    learned = mcmc.last_state.adaptation
    assert np.exp(learned.averaged_log_length) / 3 == pytest.approx(optimum, rel=0.17)
    found = mcmc.get_extra_fields(group_by_chain=True)
    assert 0.85 < found["accept_prob"].mean() < 0.98
    # All are in lockstep, the step size is frozen, and a trajectory is whole leapfrog steps.
    assert found["num_steps"].shape == (8, 100)
    assert (found["num_steps"] == found["num_steps"][:1]).all()
    assert (found["step_size"] == learned.step.averaged).all()
    assert found["num_steps"].std() > 0 or jitter == 0
    np.testing.assert_allclose(
        found["num_steps"] * found["step_size"], found["trajectory_length"], rtol=1e-6
    )
    theta = mcmc.get_samples(group_by_chain=True)["theta"]
    shift = found["potential_energy"] - 0.5 * (theta**2).sum(-1) / 9
    np.testing.assert_allclose(shift, shift[0, 0], rtol=1e-4)
    kinetic = found["energy"] - found["potential_energy"]
    assert kinetic.min() > 0 and not found["diverging"].any()


def test_diagonal_masses_are_the_variances():
    state = run_mcmc(ChEES(of_scales(ILL_CONDITIONED), mass="diagonal")).last_state
    np.testing.assert_allclose(state.adaptation.scale / ILL_CONDITIONED, 1.0, atol=0.2)
    assert state.num_steps[0] < 12
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(5, 8, 3)) + 4.0
    moments = RunningVariance.start(draws[0, 0])
    for points in draws:
        moments = with_draws(moments, points)
    flat = draws.reshape(40, 3)
    np.testing.assert_allclose(moments.mean, flat.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments.squares, 40 * flat.var(0), rtol=1e-4)


def test_fisher_masses_are_learned_and_leave_the_target():
    covariance = np.array([[1.0, 9.5], [9.5, 100.0]])
    mcmc = run_mcmc(ChEES(gaussian(covariance), mass="fisher"), draws=500)
    expected = np.sqrt(np.diag(covariance) / np.diag(np.linalg.inv(covariance)))
    np.testing.assert_allclose(mcmc.last_state.adaptation.scale**2, expected, rtol=0.3)
    theta = np.asarray(mcmc.get_samples(group_by_chain=True)["theta"], float)
    assert worst_deviation(theta, np.zeros(2), covariance) < 4


def test_a_region_without_density_does_not_spoil_what_is_learned():
    mcmc = run_mcmc(ChEES(with_a_hole), draws=600)
    learned = mcmc.last_state.adaptation
    assert 0.2 < learned.step.averaged < 3 and 0.8 < np.exp(learned.averaged_log_length) < 6
    found = mcmc.get_extra_fields(group_by_chain=True)
    assert 0.02 < found["diverging"].mean() < 0.5
    assert (found["accept_prob"][found["diverging"]] == 0).all()
    first = np.asarray(mcmc.get_samples(group_by_chain=True)["theta"])[..., :1]
    truncated = stats.truncnorm(-np.inf, 1.0)
    mean, variance = truncated.mean(), truncated.var()
    assert worst_deviation(first, np.array([mean]), np.array([[variance]])) < 4
    assert worst_deviation(first, np.zeros(1), np.eye(1)) > 6


@pytest.mark.check
def test_the_first_draws_agree_on_every_mesh(regression):
    runs = {
        shape: draw(
            ChEES(bnn.models.linear(), max_leapfrogs=3),
            regression,
            warmup=30,
            draws=3,
            chains=4,
            float64=True,
            mesh=bnn.device_mesh(*shape),
        )
        for shape in ((1, 1), (2, 1), (2, 2))
    }
    for posterior in runs.values():
        for name, values in posterior.draws.items():
            assert len(np.unique(values[:, -1].reshape(4, -1)[:, 0])) == 4
            np.testing.assert_allclose(values, runs[1, 1].draws[name], rtol=1e-6)


def test_bad_arguments(regression):
    model = bnn.models.linear()
    with pytest.raises(TypeError, match="ChEES takes a NumPyro model"):
        ChEES(None)
    with pytest.raises(ValueError, match="refuses this run of 1 chains.*at least 2 of them"):
        draw(ChEES(model), regression, chains=1)
    with pytest.raises(ValueError, match="learns the trajectory length in the warm-up"):
        draw(ChEES(model), regression, warmup=0)
    with pytest.raises(ValueError, match='also say chain_method="vectorized"'):
        MCMC(
            ChEES(model),
            num_warmup=5,
            num_samples=5,
            num_chains=2,
            chain_method="sequential",
            progress_bar=False,
        ).run(jax.random.key(0), *regression)
    with pytest.raises(RuntimeError, match="ChEES.init must be called before sample"):
        ChEES(model).sample(None, regression, {})
