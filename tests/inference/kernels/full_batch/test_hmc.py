"""HMC: its target, what breaks it, its trajectories, and its warm-up."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.density import Density, log_ratio, potential_energy
from bayesnn_ppl.inference.kernels.full_batch.hmc import HMC, izmailov_trajectory
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, hmc_proposal
from tests.inference.kernels.known_moments import (
    ALIGNED,
    LINEAR,
    NO_DATA,
    SETTINGS,
    funnel_and_banana,
    funnel_and_banana_values,
    gaussian,
    worst_deviation,
)


def test_a_diagonal_mass_makes_an_aligned_gaussian_easy():
    kernel = HMC(gaussian(ALIGNED), trajectory_length=1.6, jitter=0.3, mass="diagonal")
    posterior = bnn.sample(kernel, *NO_DATA, warmup=500, draws=1000, **SETTINGS)
    theta = posterior.draws["theta"].astype(float)
    assert worst_deviation(theta, np.zeros(4), ALIGNED) < 4
    steps = posterior.statistics["n_steps"]
    assert steps.mean() < 10, "with unit mass it takes over a hundred"
    assert 0.7 < posterior.statistics["acceptance_rate"].mean() < 0.97


def test_a_fisher_mass_is_learned_and_leaves_the_target():
    covariance = np.array([[1.0, 9.5], [9.5, 100.0]])
    kernel = HMC(gaussian(covariance), trajectory_length=3.0, jitter=0.5, mass="fisher")
    mcmc = MCMC(kernel, num_warmup=500, num_samples=2000, num_chains=1, progress_bar=False)
    mcmc.run(jax.random.key(0), *NO_DATA)
    theta = mcmc.get_samples(group_by_chain=True)["theta"].astype(float)
    assert worst_deviation(theta, np.zeros(2), covariance) < 4
    expected = np.sqrt(np.diag(covariance) / np.diag(np.linalg.inv(covariance)))
    np.testing.assert_allclose(mcmc.last_state.inverse_mass, expected, rtol=0.3)


@pytest.mark.check
def test_a_funnel_and_a_banana():
    """A step that is short enough for the neck, as no adaptation to a mean acceptance knows it."""
    kernel = HMC(
        funnel_and_banana, step_size=0.1, trajectory_length=3.0, jitter=0.5, adapt_step_size=False
    )
    posterior = bnn.sample(kernel, *NO_DATA, warmup=100, draws=3000, **SETTINGS)
    values, mean, covariance = funnel_and_banana_values(posterior)
    assert worst_deviation(values, mean, covariance) < 4
    # The negative control: a banana that is not bent.
    straight = covariance.copy()
    straight[-1, -1] = 0.25
    assert worst_deviation(values, mean, straight) > 8


def linear_point(regression, dtype=None):
    """A density and a point of it."""
    data = tuple(jnp.asarray(a, dtype) for a in regression)
    z = {"net/Dense_0.bias": jnp.zeros(1, dtype), "net/Dense_0.kernel": jnp.ones((2, 1), dtype)}
    density = Density.at(LINEAR, data, {}, z)
    vector = jnp.array([0.1, 0.4, 0.6], dtype)
    return density, Point(vector, *density.gradient_and_terms(vector))


def test_the_energy_error_is_of_second_order(regression):
    with jax.enable_x64(True):
        density, start = linear_point(regression, jnp.float64)
        noise = jax.random.normal(jax.random.key(3), (3,))

        @jax.jit
        def error(count):
            settings = dict(step_size=0.2 / count, num_leapfrogs=count)
            return abs(hmc_proposal(start, noise, density, **settings)[1])

        errors = [float(error(count)) for count in (20, 40, 80)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, 2.0, atol=0.1)


def test_a_trajectory_can_be_reversed_whatever_the_mass(regression):
    with jax.enable_x64(True):
        density, start = linear_point(regression, jnp.float64)
        noise = jax.random.normal(jax.random.key(3), (3,))
        inverse_mass = jnp.array([0.5, 2.0, 1.0])

        @jax.jit
        def propose(start, noise, count):
            settings = dict(step_size=0.02, inverse_mass=inverse_mass, num_leapfrogs=count)
            return hmc_proposal(start, noise, density, **settings)

        end, ratio, kinetic = propose(start, noise, 7)
        potentials = [potential_energy(point.terms) for point in (start, end)]
        difference = potentials[0] - potentials[1] + 0.5 * jnp.sum(noise**2) - kinetic
        np.testing.assert_allclose(ratio, difference, atol=1e-10)
        # The end's momentum, from the last position but one: θ_L - θ_{L-1} = ε M⁻¹ p_{L-1/2}.
        before = propose(start, noise, 6)[0]
        half = (end.vector - before.vector) / (0.02 * inverse_mass)
        momentum = half - 0.01 * end.gradient
        back, back_ratio, _ = propose(end, -momentum * jnp.sqrt(inverse_mass), 7)
        np.testing.assert_allclose(back.vector, start.vector, atol=1e-9)
        np.testing.assert_allclose(back_ratio, -ratio, atol=1e-7)


def wide(x, y=None, *, batch_size=None):
    """A prior of 2¹⁸ coordinates in two arrays, as networks have them."""
    numpyro.sample("kernel", dist.Normal(0.0, 1.0).expand([2**9, 2**8]).to_event(2))
    numpyro.sample("bias", dist.Normal(0.0, 1.0).expand([2**17]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x[:, 0], 1.0), obs=y)


def test_energy_that_changes_sides_is_what_float32_can_resolve():
    """From ten standard deviations off, 1.3e7 of potential energy becomes kinetic: spacing 1."""
    generator = np.random.default_rng(0)
    x, y = jnp.ones((2, 1)), jnp.ones(2)
    start, noise = generator.normal(size=(2, 2**18)).astype(np.float32)
    start *= 10
    like = {"bias": jnp.zeros(2**17), "kernel": jnp.zeros((2**9, 2**8))}
    density = Density.at(wide, (x, y), {}, like)
    step_size, num_leapfrogs = 2e-3, 785  # a quarter of a period, as HMC's rule has it
    point = Point(jnp.asarray(start), *density.gradient_and_terms(jnp.asarray(start)))
    assert {name: term.shape for name, term in point.terms.items()} == {
        "bias": (2**17,),
        "kernel": (2**9, 2**8),
        "y": (2,),
    }
    end, ratio, kinetic = jax.jit(
        lambda noise: hmc_proposal(
            point, noise, density, step_size=step_size, num_leapfrogs=num_leapfrogs
        )
    )(noise)

    position, momentum = start.astype(float), noise.astype(float)
    energy = 0.5 * np.sum(position**2 + momentum**2)
    momentum -= 0.5 * step_size * position
    for _ in range(num_leapfrogs):
        position += step_size * momentum
        momentum -= step_size * position
    momentum += 0.5 * step_size * position
    exact = energy - 0.5 * np.sum(position**2 + momentum**2)
    assert abs(exact) > 1
    assert float(ratio) == pytest.approx(exact, abs=0.3)
    in_sums = potential_energy(point.terms) - potential_energy(end.terms)
    in_sums += 0.5 * jnp.sum(noise**2) - kinetic
    assert abs(float(in_sums) - exact) > 0.5


def test_log_ratios_of_any_terms():
    """A factor may be an integer, a scalar or infinite; 1e8 comes and goes."""
    zeros = {"a": jnp.zeros(2, int), "b": jnp.zeros(()), "c": jnp.zeros(3, jnp.bfloat16)}
    terms = {"a": jnp.array([3, 4]), "b": jnp.asarray(1e8), "c": jnp.ones(3, jnp.bfloat16)}
    assert log_ratio(terms, zeros, jnp.array([-1e8, 0.25])) == 10.25
    assert log_ratio(terms | {"b": jnp.asarray(-jnp.inf)}, zeros) == -jnp.inf
    assert jnp.isnan(log_ratio(terms | {"b": jnp.asarray(jnp.nan)}, zeros))


def test_nothing_that_is_not_finite_is_accepted(regression):
    kernel = HMC(LINEAR, step_size=1e12, num_leapfrogs=4, adapt_step_size=False)
    posterior = bnn.sample(kernel, *regression, warmup=0, draws=20, chains=2, progress=False)
    bias = posterior.draws["net.Dense_0.bias"]
    assert (bias == bias[:, :1]).all() and np.isfinite(bias).all()
    assert posterior.statistics["diverging"].all()
    assert (posterior.statistics["acceptance_rate"] == 0).all()
    assert np.isfinite(posterior.statistics["energy"]).all()


@pytest.mark.check
def test_shared_rows_change_nothing(regression):
    def draws(**mesh):
        kernel = HMC(LINEAR, trajectory_length=0.7, jitter=0.4, mass="diagonal")
        settings = dict(warmup=40, draws=100, chains=4, seed=3, progress=False, float64=True)
        return bnn.sample(kernel, *regression, **settings, **mesh).draws

    whole, rows_apart = draws(), draws(mesh=bnn.device_mesh(2, 2))
    for name, values in whole.items():
        assert np.isfinite(values).all() and len(np.unique(values[:, -1, 0])) == 4
        np.testing.assert_allclose(rows_apart[name], values, rtol=1e-5, atol=1e-5)


def test_the_length_of_a_trajectory():
    assert izmailov_trajectory(1 / 5) == pytest.approx(0.7025, abs=1e-4)
    assert izmailov_trajectory(0.2, 0.25) == pytest.approx(0.5 * izmailov_trajectory(0.2))
    fixed = HMC(LINEAR, step_size=0.1, trajectory_length=1.1, adapt_step_size=False)
    assert fixed._leapfrogs(0.1, True, None) == 11, "1.1 / 0.1 is 11.000000000000002"
    assert HMC(LINEAR, num_leapfrogs=7)._leapfrogs(0.1, True, None) == 7
    drawn = HMC(LINEAR, num_leapfrogs=100, jitter=0.2)
    steps = jax.vmap(lambda key: drawn._leapfrogs(jnp.float32(0.1), True, key))(
        jax.random.split(jax.random.key(0), 2000)
    )
    assert steps.min() == 81 and steps.max() == 120
    assert abs(steps.mean() - 100.5) < 1
    adapted = HMC(LINEAR, step_size=0.1, trajectory_length=1.0)
    warm, after = (adapted._leapfrogs(jnp.float32(1e-5), w, None) for w in (True, False))
    assert (warm, after) == (1000, 100_000)
