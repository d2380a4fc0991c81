"""Flax NNX networks: recurrent ones, dropout that is off, starts of their own, convolutions."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import linen, nnx
from jax import lax
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.nn import conv_general_dilated
from bayesnn_ppl.nn.nnx_modules import reads_random_keys, with_fast_layers
from tests.marks import checked

X = np.random.default_rng(0).normal(size=(12, 5, 3)).astype(np.float32)
Y = X[:, 0, 0].copy()
LIKELIHOOD = bnn.likelihoods.gaussian(1.0)


class Recurrent(nnx.Module):
    def __init__(self, rngs):
        self.rnn = nnx.RNN(nnx.SimpleCell(3, 4, rngs=rngs))
        self.out = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.rnn(x)[:, -1])


class Dropout(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(3, 4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.out = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dropout(self.hidden(x[:, 0])))


class Noise(nnx.Module):
    """Random by no layer of Flax."""

    def __init__(self, rngs):
        self.out, self.rngs = nnx.Linear(3, 1, rngs=rngs), rngs

    def __call__(self, x):
        return self.out(x[:, 0] + jax.random.normal(self.rngs.noise(), x[:, 0].shape))


class Convolutions(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Conv(3, 2, (3,), rngs=rngs)
        self.out = nnx.Linear(2, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.first(x).mean(1))[:, :1]


class BatchNorm(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.BatchNorm(3, rngs=rngs)

    def __call__(self, x):
        return self.norm(x[:, 0])


def switched_off():
    network = Dropout(nnx.Rngs(0))
    network.eval()
    return network


def model(network, prior=None):
    return bnn.bayesian_network(network, prior or bnn.priors.normal(1.0), LIKELIHOOD)


@bnn.priors.NetworkPrior
def one_scale(shapes, x):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    return {
        name: numpyro.sample(name, dist.Normal(0.0, scale).expand(shape).to_event())
        for name, shape in shapes.items()
    }


def sampled(model, **settings):
    kernel = bnn.kernels.HMC(model, num_leapfrogs=2)
    known = dict(warmup=2, draws=3, chains=2, seed=0, progress=False)
    return bnn.sample(kernel, X, Y, **known | settings)


def outputs(network, weights):
    """What a model says of its network at these weights."""
    given = {f"net/{name}": value for name, value in weights.items()}
    seeded = handlers.seed(handlers.substitute(model(network), data=given), jax.random.key(0))
    return handlers.trace(seeded).get_trace(X)["y"]["fn"].mean


@pytest.mark.parametrize(
    "network", checked([Recurrent(nnx.Rngs(0)), switched_off()]), ids=["rnn", "off"]
)
def test_keys_that_nothing_depends_on_are_no_obstacle(network):
    _, state, _ = nnx.split(network, nnx.Param, ...)
    flat = {".".join(map(str, path)): v[...] for path, v in nnx.to_flat_state(state)}
    np.testing.assert_allclose(outputs(network, flat), network(X)[:, 0], rtol=1e-5, atol=1e-6)
    posterior = sampled(model(network))
    assert set(posterior.draws) == {f"net.{name}" for name in flat}
    assert posterior.predict(X[:5]).mean.shape == (5,)
    assert sampled(model(network, one_scale)).draws["net.scale"].shape == (2, 3)


def test_live_dropout_is_refused_and_frozen_keys_are_found():
    with pytest.raises(ValueError, match=r"Dropout draws random numbers.*network.eval\(\)"):
        sampled(model(Dropout(nnx.Rngs(0))))
    assert not reads_random_keys(Recurrent(nnx.Rngs(0)), X)
    assert reads_random_keys(Noise(nnx.Rngs(0)), X)
    with pytest.raises(ValueError, match=r"keeps state.*norm\.mean.*Batch statistics"):
        sampled(model(BatchNorm(nnx.Rngs(0))))


def test_chains_start_at_weights_of_their_own_where_the_network_is_built_by_a_function():
    build = lambda rngs: Recurrent(rngs)  # noqa: E731 - as a user writes it
    posterior = sampled(model(build), init="network")
    starts = posterior.tree["starts"]
    kernel = starts["net.out.kernel"].values
    assert len(np.unique(kernel.reshape(2, -1).round(6), axis=0)) == 2
    assert (starts["net.out.bias"].values == 0).all()  # Flax's initialiser, and no prior draw
    with pytest.raises(ValueError, match=r"would start alike.*lambda rngs: Net\(rngs=rngs\)"):
        sampled(model(Recurrent(nnx.Rngs(0))), init="network")


def build(rngs, width):
    return nnx.Linear(3, width, rngs=rngs)


def test_a_networks_convolutions_and_narrow_layers_are_ours():
    plain = Convolutions(nnx.Rngs(0))
    fast = with_fast_layers(plain)

    assert plain.first.conv_general_dilated is lax.conv_general_dilated  # the user's is as it was
    np.testing.assert_allclose(fast(X), plain(X), rtol=1e-5, atol=1e-6)
    ours, theirs = (str(jax.make_jaxpr(network)(X)) for network in (fast, plain))
    assert "custom_vjp" in ours and "custom_vjp" not in theirs
    assert (ours.count("dot_general["), theirs.count("dot_general[")) == (2, 1)
    own = Convolutions(nnx.Rngs(0))
    own.first.conv_general_dilated = lambda *args, **options: (
        2 * conv_general_dilated(*args, **options)
    )
    np.testing.assert_allclose(with_fast_layers(own)(X), own(X), rtol=1e-5, atol=1e-6)
    seeded = handlers.seed(model(plain), jax.random.key(0))

    def mean(x):
        return handlers.trace(seeded).get_trace(x)["y"]["fn"].mean

    assert "custom_vjp" in str(jax.make_jaxpr(mean)(X))


SETTINGS = {
    "one axis": ((2, 9, 3), (4,), {}),
    "strides": ((2, 9, 8, 3), (3, 2), {"strides": 2, "padding": "VALID"}),
    "pairs": ((2, 9, 3), (4,), {"padding": ((1, 2),)}),
    "causal": ((2, 9, 3), (4,), {"padding": "CAUSAL"}),
    "circular": ((2, 9, 8, 3), (3, 3), {"padding": "CIRCULAR"}),
}
LEFT = {
    "groups": ((2, 9, 4), (3,), {"feature_group_count": 2}),
    "dilation": ((2, 9, 3), (3,), {"kernel_dilation": 2}),
    "three axes": ((2, 5, 5, 5, 3), (2, 2, 2), {}),
    "precision": ((2, 9, 3), (3,), {"precision": "highest"}),
}


@pytest.mark.parametrize("case", checked(SETTINGS | LEFT))
def test_flax_layers_give_the_same_values_and_gradients(case):
    shape, size, settings = (SETTINGS | LEFT)[case]
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    found = []
    for function in (lax.conv_general_dilated, conv_general_dilated):
        kwargs = settings | {"conv_general_dilated": function}
        layer = nnx.Conv(shape[-1], 2, size, rngs=nnx.Rngs(0), **kwargs)
        definition, state = nnx.split(layer)

        def loss(state, x, definition=definition):
            return jnp.sum(jnp.sin(nnx.merge(definition, state)(x)))

        found.append(jax.grad(loss, (0, 1))(state, x))
    assert ("custom_vjp" in str(jax.make_jaxpr(layer)(x))) == (case in SETTINGS)
    for ours, theirs in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_linen_layer_takes_it_and_an_accelerator_has_jaxs_own(monkeypatch):
    layer = linen.Conv(2, (3,), conv_general_dilated=conv_general_dilated)
    variables = layer.init(jax.random.key(0), X)
    plain = linen.Conv(2, (3,)).apply(variables, X)
    np.testing.assert_allclose(layer.apply(variables, X), plain, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "custom_vjp" not in str(jax.make_jaxpr(lambda x: layer.apply(variables, x))(X))
