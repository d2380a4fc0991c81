"""Equinox networks: the same function, Flax's layout for priors, starts of their own, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax.traverse_util import flatten_dict
from numpyro import handlers
from numpyro.contrib.module import random_eqx_module
from numpyro.infer.util import log_density

import bayesnn_ppl as bnn
from bayesnn_ppl.nn.equinox_modules import as_flax, builds_equinox
from tests.marks import checked
from tests.nn.test_nnx_modules import one_scale

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = X[:, 0].copy()
LIKELIHOOD = bnn.likelihoods.gaussian(1.0)


class Net(eqx.Module):
    """Two layers in a list and a dictionary, a gain of its own and a table of integers."""

    layers: list
    parts: dict
    gain: jax.Array
    order: jax.Array

    def __init__(self, key, width=4):
        first, second = jax.random.split(key)
        self.layers = [eqx.nn.Linear(3, width, key=first), eqx.nn.LayerNorm(width)]
        self.parts = {"out": eqx.nn.Linear(width, 1, key=second)}
        self.gain, self.order = jnp.array(2.0), jnp.array([2, 0, 1])

    def __call__(self, x):
        for layer in self.layers:
            x = jnp.tanh(layer(x[self.order] if x.shape == (3,) else x))
        return self.gain * self.parts["out"](x)


def images(key):
    keys = jax.random.split(key, 3)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(2, 4, (3, 2), key=keys[0]),
            eqx.nn.GroupNorm(2, 4),
            eqx.nn.ConvTranspose2d(4, 3, 2, key=keys[1]),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(3 * 4 * 5, 1, key=keys[2]),
        ]
    )


class Words(eqx.Module):
    """An embedding and a recurrent cell, whose arrays have names of their own."""

    table: eqx.nn.Embedding
    cell: eqx.nn.GRUCell

    def __init__(self, key):
        self.table, self.cell = eqx.nn.Embedding(5, 2, key=key), eqx.nn.GRUCell(2, 3, key=key)

    def __call__(self, x):
        state = jnp.zeros(3)
        for word in x.astype(int):
            state = self.cell(self.table(jnp.asarray(word)), state)
        return state[:1]


NETWORKS = {
    "own": (Net, X),
    "images": (images, np.random.default_rng(1).normal(size=(5, 2, 5, 5)).astype(np.float32)),
    "words": (Words, np.random.default_rng(2).integers(0, 5, size=(4, 6)).astype(np.float32)),
}
SHAPES = {
    "own": {
        "layers.0.kernel": (3, 4),
        "layers.0.bias": (4,),
        "layers.1.scale": (4,),
        "layers.1.bias": (4,),
        "parts.out.kernel": (4, 1),
        "parts.out.bias": (1,),
        "gain": (),
    },
    "images": {
        "layers.0.kernel": (3, 2, 2, 4),
        "layers.0.bias": (4,),
        "layers.1.scale": (4,),
        "layers.1.bias": (4,),
        "layers.2.kernel": (2, 2, 4, 3),
        "layers.2.bias": (3,),
        "layers.4.kernel": (60, 1),
        "layers.4.bias": (1,),
    },
    "words": {
        "table.embedding": (5, 2),
        "cell.kernel_ih": (2, 9),
        "cell.kernel_hh": (3, 9),
        "cell.bias": (9,),
        "cell.bias_n": (3,),
    },
}


def model(network, prior=None):
    return bnn.bayesian_network(network, prior or bnn.priors.normal(1.0), LIKELIHOOD)


def sampled(model, **settings):
    kernel = bnn.kernels.HMC(model, num_leapfrogs=2)
    known = dict(warmup=2, draws=3, chains=2, seed=0, progress=False)
    return bnn.sample(kernel, X, Y, **known | settings)


@pytest.mark.parametrize("case", checked(NETWORKS))
def test_the_function_is_equinoxs_and_the_layout_flaxs(case):
    build, x = NETWORKS[case]
    key = jax.random.key(7)
    network = as_flax(build)
    variables = network.init(key, x)
    found = flatten_dict(variables["params"])
    assert {".".join(map(str, name)): v.shape for name, v in found.items()} == SHAPES[case]
    module = build(key=jax.random.key(1))
    theirs = jax.vmap(module)(x)
    given = as_flax(module).init(key, x)
    np.testing.assert_allclose(network.apply(given, x), theirs, rtol=1e-6, atol=1e-6)
    assert not np.allclose(network.apply(variables, x), theirs)


def test_the_density_is_that_of_the_same_model_by_numpyro():
    """With a prior by fan-in, which NumPyro does not know: written out per Equinox's arrays."""
    module = eqx.nn.MLP(3, 1, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    ours = model(module, bnn.priors.fan_in_normal())

    def prior(name, shape):
        fan_in = {"layers[0].weight": 3, "layers[1].weight": 4}.get(name, 1)
        return dist.Normal(0.0, fan_in**-0.5)

    def theirs(x, y):
        net = random_eqx_module("net", module, prior)
        numpyro.sample("y", dist.Normal(jax.vmap(net)(x)[:, 0], 1.0).to_event(1), obs=y)

    trace = handlers.trace(handlers.seed(theirs, 1)).get_trace(X, Y)
    weights = {name: site["value"] for name, site in trace.items() if name.startswith("net/")}
    renamed = {
        name.replace("[", ".").replace("]", "").replace("weight", "kernel"): value.T
        for name, value in weights.items()
    }
    assert len(renamed) == 4
    expected = log_density(theirs, (X, Y), {}, weights)[0]
    np.testing.assert_allclose(log_density(ours, (X, Y), {}, renamed)[0], expected, rtol=1e-5)


MODULE = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))


def declared(prior, build=lambda: MODULE):
    """A model by NumPyro's own primitive, which leaves the module's weights in its site."""

    def model(x, y=None, *, batch_size=None):
        net = random_eqx_module("net", build(), prior)
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(jax.vmap(net)(x)[:, 0], 1.0), obs=y)

    return model


@pytest.mark.parametrize(
    "build", [lambda: MODULE, lambda: eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))]
)
def test_a_model_of_numpyros_own_primitive_is_sampled(build):
    posterior = sampled(declared(dist.Normal(0, 1), build))
    assert posterior.draws["net.layers[0].weight"].shape[2:] == (4, 3)
    assert len(posterior.provenance["parameters"]) == 4
    with pytest.raises(ValueError, match=r"`layers\[0\].bias` of shape \(4,\) .*has no prior"):
        sampled(declared({"layers[0].weight": dist.Normal(0, 1)}))


def test_a_module_built_inside_a_model_is_refused():
    def build(x, y=None, *, batch_size=None):
        module = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))
        net = bnn.random_network("net", module, dist.Normal(0, 1), x[:1])
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(net(x)[:, 0], 1.0), obs=y)

    with pytest.raises(ValueError, match="MLP is built inside the model.*outside of the model"):
        sampled(build)


def test_chains_start_at_weights_of_their_own_where_the_network_is_built_by_a_function():
    posterior = sampled(model(lambda key: Net(key, width=3)), init="network")
    starts = posterior.tree["starts"]
    kernel = starts["net.layers.0.kernel"].values.reshape(2, -1)
    assert len(np.unique(kernel.round(6), axis=0)) == 2
    assert np.abs(kernel).max() <= 3**-0.5  # Equinox draws within 1/√fan-in
    assert (starts["net.gain"].values == 2).all()
    assert posterior.predict(X[:5]).mean.shape == (5,)
    with pytest.raises(ValueError, match=r"would start alike.*what builds it"):
        sampled(model(Net(jax.random.key(0))), init="network")


def test_a_prior_for_the_whole_network_and_a_model_by_hand_take_it():
    def by_hand(x, y=None, *, batch_size=None):
        net = bnn.random_network("net", lambda key: Net(key), one_scale, x[:1])
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(net(x)[:, 0], 1.0), obs=y)

    first, second = sampled(model(Net, one_scale)), sampled(by_hand)
    assert first.draws["net.scale"].shape == (2, 3)
    assert set(first.draws) == set(second.draws)


def test_it_can_be_fitted_and_what_reads_layers_says_that_it_finds_none():
    network = model(Net)
    laplace = bnn.approximations.Laplace(network, draws=2)
    fitted = bnn.fit(laplace, X, Y, progress=False)
    assert fitted.predict(X[:5]).mean.shape == (5,)
    not_found = "symmetries of the network EquinoxNetwork are not understood"
    with pytest.raises(ValueError, match=not_found):
        bnn.diagnostics.find_hidden_layers(network.network, (3,))
    likelihood = bnn.likelihoods.dirty(LIKELIHOOD, dropout="network")
    noisy = bnn.bayesian_network(Net, bnn.priors.normal(1.0), likelihood)
    sgld = bnn.kernels.SGLD(noisy, step_size=5e-4, batch_size=8, steps_per_draw=1)
    with pytest.raises(ValueError, match=r"calls no `linen.Dropout`"):
        bnn.sample(sgld, X, Y, warmup=1, draws=1, progress=False)


def test_what_cannot_be_sampled_is_refused_by_name():
    with pytest.raises(ValueError, match=r"inference_mode\(network\)"):
        sampled(model(eqx.nn.Sequential([eqx.nn.Dropout(0.5), Net(jax.random.key(0))])))
    with pytest.raises(ValueError, match=r"BatchNorm keeps state.*Batch statistics"):
        model(eqx.nn.BatchNorm(3, "rows", mode="batch"))
    with pytest.raises(TypeError, match="built dict.*takes `rngs`"):
        model(lambda key: {})
    with pytest.raises(ValueError, match="has no parameters"):
        sampled(model(eqx.nn.Identity()))
    with pytest.raises(TypeError, match=r"must be an instance: `MLP\(\.\.\.\)`"):
        model(eqx.nn.MLP)
    with pytest.raises(ValueError, match="fails at inputs of shape"):
        sampled(model(eqx.nn.Linear(4, 1, key=jax.random.key(0))))


def test_only_a_function_of_the_key_alone_builds():
    assert builds_equinox(Net) and builds_equinox(lambda key: None)
    assert not builds_equinox(lambda key, width: None)
    assert not builds_equinox(eqx.nn.MLP) and not builds_equinox(Net(jax.random.key(0)))
    assert not builds_equinox(lambda rngs: None) and not builds_equinox("key")
