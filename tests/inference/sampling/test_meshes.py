"""The same kernel on every mesh of four devices: same numbers at first, same distribution after."""

import jax
import numpy as np
import pytest
from numpyro.infer import NUTS
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk

MODEL = bnn.models.linear(likelihood=bnn.likelihoods.gaussian())
MESHES = [(1, 1), (4, 1), (2, 2), (1, 4)]


WARMUP, DRAWS = 300, 800


class FirstEnergies:
    """A callback that keeps the log densities of the first transitions of the warm-up."""

    def __init__(self):
        self.blocks = []

    def __call__(self, progress):
        self.blocks.append(progress.statistics["lp"])

    def __getitem__(self, count):
        return np.concatenate(self.blocks, axis=1)[:, :count]


def draw(regression, shape=None, method="parallel", seed=0, draws=DRAWS):
    energies = FirstEnergies()
    posterior = bnn.sample(
        NUTS(MODEL, max_tree_depth=4),
        *regression,
        warmup=WARMUP,
        draws=draws,
        chains=4,
        seed=seed,
        mesh=bnn.device_mesh(*shape) if shape else None,
        chain_method=method,
        float64=True,
        progress=False,
        callback=energies,
    )
    return posterior, energies[5]


@pytest.fixture(scope="module")
def runs(regression):
    return {shape: draw(regression, shape) for shape in MESHES}


@pytest.mark.parametrize("shape", MESHES[1:])
def test_the_first_draws_agree_across_meshes(runs, shape):
    posterior, energies = runs[shape]
    assert posterior.provenance["devices"]["mesh"] == {"chain": shape[0], "data": shape[1]}
    assert posterior.draws["noise_scale"].dtype == np.float64
    np.testing.assert_allclose(energies, runs[1, 1][1], rtol=1e-6)


@pytest.mark.parametrize("method", ["vectorized", "sequential"])
def test_the_first_draws_agree_across_chain_methods(regression, runs, method):
    _, energies = draw(regression, method=method, draws=1)
    np.testing.assert_allclose(energies, runs[1, 1][1], rtol=1e-6)


def test_chains_differ(runs):
    noise = runs[4, 1][0].draws["noise_scale"]
    assert len(np.unique(noise[:, -1])) == 4


def p_value_of_difference(a, b):
    """Smallest p-value of KS tests between two runs, on draws thinned to independence."""
    smallest = 1.0
    for name in a:
        first, second = (r[name].reshape(4, DRAWS, -1).astype(float) for r in (a, b))
        ess = min(np.min(ess_bulk(first)), np.min(ess_bulk(second)))
        assert ess > 400, "check ESS before bias"
        step = int(np.ceil(4 * DRAWS / ess))
        for k in range(first.shape[-1]):
            sample = [r[..., k].T.reshape(-1)[::step] for r in (first, second)]
            smallest = min(smallest, stats.ks_2samp(*sample).pvalue)
    return smallest


@pytest.fixture(scope="module")
def another_seed(regression):
    """Independent of `runs`: two runs of one seed begin with the same draws."""
    return draw(regression, (1, 1), seed=1)[0].draws


@pytest.mark.check
@pytest.mark.parametrize("shape", MESHES[1:])
def test_the_distribution_is_the_same_on_every_mesh(runs, another_seed, shape):
    draws = runs[shape][0].draws
    assert p_value_of_difference(another_seed, draws) > 1e-5
    # The negative control: a likelihood summed over two devices twice samples at T = 1/2.
    shrunk = {n: a.mean((0, 1)) + (a - a.mean((0, 1))) / np.sqrt(2) for n, a in draws.items()}
    assert p_value_of_difference(another_seed, shrunk) < 1e-6


@pytest.mark.check
@pytest.mark.parametrize("shape", [(4, 1), (1, 4)])
def test_a_run_repeats_bit_by_bit_on_one_mesh(regression, runs, shape):
    again, _ = draw(regression, shape)
    for name, values in runs[shape][0].draws.items():
        np.testing.assert_array_equal(again.draws[name], values)


def test_a_mesh_that_does_not_fit_is_refused(regression):
    x, y = regression
    kernel = NUTS(MODEL)
    settings = dict(warmup=1, draws=1, progress=False)
    with pytest.raises(ValueError, match="6 chains cannot be spread evenly over the 4 devices"):
        bnn.sample(kernel, x, y, chains=6, mesh=bnn.device_mesh(4), **settings)
    with pytest.raises(ValueError, match="39 rows cannot be spread .* Leave out 3 rows"):
        bnn.sample(kernel, x[:39], y[:39], chains=1, mesh=bnn.device_mesh(1, 4), **settings)
    with pytest.raises(ValueError, match="needs 8 devices, but there are 4"):
        bnn.device_mesh(4, 2)
    with pytest.raises(ValueError, match="must have the axes"):
        bnn.sample(kernel, x, y, mesh=jax.make_mesh((2,), ("rows",)), **settings)
    with pytest.raises(ValueError, match="uses one device"):
        bnn.sample(kernel, x, y, mesh=bnn.device_mesh(1), chain_method="vectorized", **settings)
