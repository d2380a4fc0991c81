"""MALA is HMC with one leapfrog, and has the law of the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.full_batch import mala
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, hmc_proposal
from bayesnn_ppl.inference.kernels.full_batch.mala import MALA, mala_proposal
from tests.inference.kernels.known_moments import (
    LINEAR,
    NO_DATA,
    linear_deviation,
    standard_normals,
)


def test_one_leapfrog_is_a_langevin_step():
    """Same noise: same proposal and same acceptance probability, to the digits of float64."""
    generator = np.random.default_rng(0)
    with jax.enable_x64(True):
        x, y = generator.normal(size=(30, 2)), generator.normal(size=30)
        model = bnn.cold(bnn.models.mlp(hidden=(4,)), 0.7)
        start = jax.jit(lambda key: initialize_model(key, model, model_args=(x, y)).param_info.z)
        z = start(jax.random.key(0))
        density = Density.at(model, (x, y), {}, z)

        @jax.jit
        def both(vector, noise, step_size):
            point = Point(vector, *density.gradient_and_terms(vector))
            settings = dict(step_size=jnp.sqrt(2 * step_size), num_leapfrogs=1)
            end, hmc_ratio, _ = hmc_proposal(point, noise, density, **settings)
            langevin = mala_proposal(*point, noise, density, step_size=step_size)
            return langevin, (*end, hmc_ratio)

        for step_size in (1e-4, 3e-3, 0.1):
            vector, noise = generator.normal(size=(2, density.dimension))
            langevin, leapfrog = both(vector, noise, step_size)
            assert np.abs(langevin[0] - vector).min() > 1e-6
            for a, b in zip(jax.tree.leaves(langevin), jax.tree.leaves(leapfrog), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def without_correction(*args, **settings):
    """The proposal's asymmetry left out of the ratio."""
    vector, gradient, terms, noise, density = args
    proposed, new_gradient, new_terms, _ = mala_proposal(*args, **settings)
    return proposed, new_gradient, new_terms, mala.log_ratio(new_terms, terms)


class Uncorrected(MALA):
    """A class of its own, so that no compiled program of the right kernel is used."""


@pytest.mark.parametrize(
    ("kernel", "proposal"),
    [(MALA, mala_proposal), (Uncorrected, without_correction)],
    ids=["right", "no correction"],
)
def test_the_law_and_what_breaks_it(regression, monkeypatch, kernel, proposal):
    monkeypatch.setattr(mala, "mala_proposal", proposal)
    settings = dict(step_size=3e-3, adapt_step_size=False)
    deviation = linear_deviation(kernel(LINEAR, **settings), *regression, warmup=200, draws=3000)
    assert deviation < 4 if kernel is MALA else deviation > 8


def test_adaptation_aims_at_the_target(regression):
    posterior = bnn.sample(
        MALA(LINEAR, step_size=1e-7, target_accept=0.7),
        *regression,
        warmup=500,
        draws=500,
        progress=False,
    )
    statistics = posterior.statistics
    assert abs(statistics["acceptance_rate"].mean() - 0.7) < 0.1
    assert (statistics["n_steps"] == 1).all()


def test_numpyro_runs_it():
    mcmc = MCMC(
        MALA(standard_normals),
        num_warmup=20,
        num_samples=20,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *NO_DATA)
    theta = mcmc.get_samples(group_by_chain=True)["theta"]
    assert np.isfinite(theta).all() and len(np.unique(theta[..., 0])) > 20


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_size": -1.0}, "`step_size` of MALA must be positive"),
        ({"target_accept": 1.0}, "`target_accept` of MALA must be below 1"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(ValueError, match=words):
        MALA(LINEAR, **settings)
    with pytest.raises(TypeError, match="`adapt_step_size` of MALA must be True or False"):
        MALA(LINEAR, adapt_step_size=None)
