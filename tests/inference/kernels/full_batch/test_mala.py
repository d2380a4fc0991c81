"""MALA is HMC with one leapfrog, and has the posterior as its target."""

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, hmc_proposal
from bayesnn_ppl.inference.kernels.full_batch.mala import MALA, mala_proposal
from tests.inference.kernels.known_moments import (
    LINEAR,
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
