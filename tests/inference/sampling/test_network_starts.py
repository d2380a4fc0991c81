"""`init="network"`: chains start where the initialisers of the model's networks put them."""

from functools import partial

import flax.nnx
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import linen

import bayesnn_ppl as bnn

SETTINGS = dict(warmup=5, draws=5, chains=3, seed=0, init="network", progress=False)


class TwoUnits(linen.Module):
    """A network whose initialisers give away where a chain started."""

    @linen.compact
    def __call__(self, x):
        near_seven = linen.initializers.truncated_normal(0.1, lower=-2, upper=2)
        hidden = linen.Dense(2, bias_init=lambda *args: 7 + near_seven(*args))(x)
        return linen.Dense(1, use_bias=False)(linen.tanh(hidden))


def noisy(x, y, likelihood, batch_size):
    scale = numpyro.sample("scale", dist.LogNormal(-2.0, 0.01))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(likelihood(x)[..., 0], scale), obs=y)


def two_units(x, y=None, *, batch_size=None):
    network = numpyro.contrib.module.random_flax_module(
        "network", TwoUnits(), prior=dist.Normal(0.0, 0.5), input_shape=(1, x.shape[1])
    )
    noisy(x, y, network, batch_size)


module = flax.nnx.Linear(2, 1, rngs=flax.nnx.Rngs(0))


def built_before(x, y=None, *, batch_size=None):
    network = numpyro.contrib.module.random_nnx_module("network", module, dist.Normal())
    noisy(x, y, network, batch_size)


def written_out(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal().expand([2, 1]).to_event(2))
    noisy(x, y, lambda x: x @ slope, batch_size)


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2)).astype(np.float32)
    return x, x[:, 0].copy()


two_leapfrogs = partial(bnn.kernels.HMC, num_leapfrogs=2)


@pytest.fixture(scope="module")
def hmc():
    return two_leapfrogs(two_units)


@pytest.fixture(scope="module")
def posterior(data, hmc):
    return bnn.sample(hmc, *data, **SETTINGS)


def test_chains_start_at_the_initialisers_each_by_a_draw_of_its_own(posterior):
    starts = {name: array.values for name, array in posterior.tree["starts"].items()}
    biases = starts["network.Dense_0.bias"]
    assert np.abs(biases - 7).max() < 0.5  # the prior has its mass within 2 of 0
    kernels = starts["network.Dense_0.kernel"].reshape(3, -1)
    assert len(np.unique(kernels.round(6), axis=0)) == 3
    # Other sites have draws from the prior, whose sd is a hundredth.
    assert len(np.unique(starts["scale"])) == 3
    np.testing.assert_allclose(np.log(starts["scale"]), -2, atol=0.06)
    assert posterior.provenance["start"] == "network"


def test_a_run_resumes_and_one_killed_before_its_first_commit_begins_again(
    data, hmc, posterior, tmp_path, monkeypatch
):
    bnn.sample(hmc, *data, **SETTINGS | {"draws": 2}, out=tmp_path / "run")
    more = bnn.extend(tmp_path / "run", hmc, *data, draws=3, progress=False)
    with monkeypatch.context() as killed:
        killed.setattr("bayesnn_ppl.inference.sampling.execution.compile_program", killed_at_once)
        with pytest.raises(KeyboardInterrupt):
            bnn.sample(hmc, *data, **SETTINGS, out=tmp_path / "killed")
    again = bnn.resume(tmp_path / "killed", hmc, *data, progress=False)
    for name, array in posterior.draws.items():
        np.testing.assert_array_equal(array, more.draws[name])
        np.testing.assert_array_equal(array, again.draws[name])


def killed_at_once(*_):
    raise KeyboardInterrupt


@pytest.mark.check
@pytest.mark.parametrize(
    "kernel",
    [partial(bnn.kernels.SGLD, step_size=1e-5, batch_size=8), numpyro.infer.AIES],
    ids=["minibatches", "one state for all chains"],
)
def test_other_kinds_of_kernels_start_there_too(data, kernel):
    run = bnn.sample(kernel(two_units), *data, **SETTINGS | {"chains": 18})
    assert np.abs(run.tree["starts"]["network.Dense_0.bias"].values - 7).max() < 0.5


@pytest.mark.check
def test_streamed_rows_give_the_same_starts(data):
    kernel = bnn.kernels.SGLD(two_units, step_size=1e-5, batch_size=8, minibatches="epoch")
    streamed = bnn.sample(kernel, *bnn.data.stream(*data), **SETTINGS)
    held = bnn.sample(kernel, *data, **SETTINGS)
    for name, array in held.tree["starts"].items():
        np.testing.assert_allclose(streamed.tree["starts"][name], array, rtol=1e-6)


@pytest.mark.parametrize(
    "model, problem",
    [
        (written_out, "declares no Flax network"),
        (built_before, "all chains would start alike"),
    ],
)
def test_models_without_initialisers_that_draw_are_refused(data, model, problem, monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.inference.sampling.execution.compile_program", pytest.fail)
    with pytest.raises(ValueError, match=problem) as caught:
        bnn.sample(two_leapfrogs(model), *data, **SETTINGS)
    assert 'init="network"' in str(caught.value) and "Leave `init` out" in str(caught.value)


def test_a_start_that_is_not_finite_is_explained(data):
    def infinite(x, y=None, *, batch_size=None):
        two_units(x, y, batch_size=batch_size)
        numpyro.factor("never", -np.inf)

    with pytest.raises(RuntimeError, match="where the network's initialisers put them"):
        bnn.sample(two_leapfrogs(infinite), *data, **SETTINGS)
