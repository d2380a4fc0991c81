"""`mile` is its parts put together, on a network with a noise of its own."""

import numpy as np
import pytest

import bayesnn_ppl as bnn

TINY = dict(chains=2, warmup_steps=600, draws=50, seed=1, progress=False)
QUICK = bnn.approximations.Ensemble(epochs=30, learning_rate=0.02)


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(150, 2)).astype(np.float32)
    return x, (np.sin(x[:, 0]) + 0.1 * generator.normal(size=150)).astype(np.float32)


@pytest.fixture(scope="module")
def network():
    return bnn.models.mlp(hidden=(8,))


def test_it_is_sample_with_mclmc_and_an_ensemble(data, network):
    ours = bnn.mile(network, *data, ensemble=QUICK, **TINY)
    parts = bnn.sample(
        bnn.kernels.MCLMC(network, energy_variance_end=0.01),
        *data,
        warmup=60,
        draws=50,
        chains=2,
        seed=1,
        init=QUICK,
        progress=False,
    )
    for name, array in ours.draws.items():
        np.testing.assert_array_equal(array, parts.draws[name])
    assert ours.provenance["kernel"] == "MCLMC"
    assert ours.provenance["start"]["method"] == "Ensemble"
    assert ours.statistics["n_steps"][0, 0] == 20  # two gradients a step
    assert not ours.statistics["diverging"].any()
    scores = bnn.metrics.evaluate(ours, *data)
    assert scores["rmse"] < 0.3  # the sine alone has 0.7


@pytest.mark.check
def test_settings_of_the_kernel_and_limits_are_passed_on(data, network):
    posterior = bnn.mile(
        network,
        *data,
        ensemble=QUICK,
        kernel=dict(preconditioning="identity", energy_variance_end=0.1),
        until=dict(max_time="1h"),
        keep=bnn.Keep(weights="none", probe=data),
        **TINY,
    )
    settings = posterior.provenance["kernel_settings"]
    assert (settings["preconditioning"], settings["energy_variance_end"]) == ("identity", 0.1)
    assert not posterior.has_weights
    with pytest.raises(ValueError, match="`warmup_steps` must be at least 0"):
        bnn.mile(network, *data, **TINY | {"warmup_steps": -1})
