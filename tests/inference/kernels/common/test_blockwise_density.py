"""`rows_at_once`: the same density and the same draws, in the memory of a block."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.blockwise_density import BlockwiseDensity
from bayesnn_ppl.inference.kernels.common.density import Density, log_ratio

ROWS = 23


def rows_of(count=ROWS, features=3):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(count, features)).astype(np.float32)
    return x, np.sin(x.sum(1)).astype(np.float32)


def density_of(model, x, y):
    info = numpyro.infer.util.initialize_model(jax.random.key(0), model, model_args=(x, y))
    return ravel_pytree(info.param_info.z)[0], Density.at(model, (x, y), {}, info.param_info.z)


def test_gradients_and_differences_are_those_of_the_whole():
    """Of a tempered model with sites outside the network; the last block is smaller."""
    model = bnn.cold(bnn.models.mlp(hidden=(4,), prior=bnn.priors.learned_normal()), 0.3)
    x, y = rows_of()
    vector, whole = density_of(model, x, y)

    def seen(density, vector):
        gradient, terms = density.gradient_and_terms(vector)
        return gradient, density.gradient(vector), log_ratio(density.terms(vector + 0.1), terms)

    known, _, difference = jax.jit(partial(seen, whole))(vector)
    both = jax.jit(partial(seen, BlockwiseDensity.of(whole, 5)))(vector)
    np.testing.assert_allclose(both[0], known, rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(both[1], both[0], rtol=1e-6)
    np.testing.assert_allclose(both[2], difference, rtol=1e-4)


@pytest.mark.check
def test_a_block_is_all_that_is_in_memory():
    x, y = rows_of(20_000)
    vector, whole = density_of(bnn.models.mlp(hidden=(64, 64)), x, y)

    def megabytes(density):
        compiled = jax.jit(density.gradient).lower(vector).compile()
        return compiled.memory_analysis().temp_size_in_bytes / 1e6

    assert megabytes(whole) > 10  # two layers of 20 000 x 64 numbers
    assert megabytes(BlockwiseDensity.of(whole, 500)) < 2


@pytest.mark.parametrize(
    ("kernel", "shards"),
    [
        (partial(bnn.kernels.HMC, num_leapfrogs=5, step_size=0.01), 2),
        pytest.param(partial(bnn.kernels.ChEES, trajectory_length=0.1), 1, marks=pytest.mark.check),
    ],
    ids=["HMC", "ChEES"],
)
def test_chains_are_the_same(kernel, shards):
    """Also where rows are shared between two devices, and a block has rows of both."""
    model = bnn.models.mlp(hidden=(4,), likelihood=bnn.likelihoods.gaussian(scale=0.1))
    x, y = rows_of(24)
    settings = {"warmup": 0, "draws": 5, "chains": 2, "float64": True, "progress": False}
    whole = bnn.sample(kernel(model), x, y, **settings).draws["net.Dense_0.kernel"]
    mesh = bnn.device_mesh(1, shards)
    blocks = bnn.sample(kernel(model, rows_at_once=5), x, y, mesh=mesh, **settings)
    np.testing.assert_allclose(blocks.draws["net.Dense_0.kernel"], whole, rtol=1e-8, atol=1e-10)
    assert np.ptp(whole) > 0.1
    assert blocks.provenance["kernel_settings"]["rows_at_once"] == 5


def test_what_cannot_be_cut_is_refused():
    def centred(x, y=None, *, batch_size=None):
        slope = numpyro.sample("slope", dist.Normal())
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(slope * (x[:, 0] - x[:, 0].mean()), 1.0), obs=y)

    kernel = bnn.kernels.HMC(centred, num_leapfrogs=2, rows_at_once=5)
    with pytest.raises(ValueError, match="mixes the rows"):
        bnn.sample(kernel, *rows_of(), warmup=0, draws=1, chains=1, progress=False)
    with pytest.raises(ValueError, match="`rows_at_once` of MALA"):
        bnn.kernels.MALA(centred, rows_at_once=0)
    one_argument = Density.at(lambda x: None, (jnp.ones(3),), {}, {"z": jnp.ones(())})
    with pytest.raises(ValueError, match=r"arguments `\(x, y\)`, both given"):
        BlockwiseDensity.of(one_argument, 2)
