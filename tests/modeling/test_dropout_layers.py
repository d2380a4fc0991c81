"""Dropout from outside: live with a key, off without one, in the layers that were asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.modeling.dropout_layers import live_dropout
from bayesnn_ppl.modeling.training_noise import KeyedModel, clean

X = np.random.default_rng(0).normal(size=(2000, 4)).astype(np.float32)


class OwnDropout(linen.Module):
    """Two layers with a dropout layer between, which has not been told whether it is live."""

    @linen.compact
    def __call__(self, x):
        hidden = linen.Dropout(0.25)(linen.Dense(3)(x))
        return linen.Dense(1)(hidden)


class Plain(linen.Module):
    """The same without it."""

    @linen.compact
    def __call__(self, x):
        hidden = linen.Dense(3)(x)
        return linen.Dense(1)(hidden)


def model_of(network, dropout):
    likelihood = bnn.likelihoods.dirty(bnn.likelihoods.gaussian(1.0), dropout=dropout)
    return bnn.bayesian_network(network, bnn.priors.normal(1.0), likelihood)


WEIGHTS = {
    "net/Dense_0.kernel": jnp.ones((4, 3)),
    "net/Dense_0.bias": jnp.zeros(3),
    "net/Dense_1.kernel": jnp.array([[1.0], [2.0], [4.0]]),
    "net/Dense_1.bias": jnp.zeros(1),
}


def outputs(model, *, y=True):
    """The means of y, (N,), with the weights above; of a prediction without y."""
    seeded = handlers.seed(handlers.substitute(model, data=WEIGHTS), jax.random.key(0))
    args = (X, np.zeros(len(X), np.float32)) if y else (X,)
    return np.asarray(handlers.trace(seeded).get_trace(*args)["y"]["fn"].mean)


def keyed(network, dropout, number=0):
    return outputs(KeyedModel(model_of(network, dropout), jax.random.key(number)))


def test_the_networks_own_layers_are_live_in_training_alone():
    hidden = X.sum(1)
    full = 7 * hidden
    np.testing.assert_allclose(outputs(model_of(OwnDropout(), "network"), y=False), full, rtol=1e-4)
    np.testing.assert_allclose(outputs(clean(model_of(OwnDropout(), "network"))), full, rtol=1e-4)
    kept = np.rint(keyed(OwnDropout(), "network") / hidden * 0.75)  # which of 1 + 2 + 4 are there
    assert set(kept) == set(range(8))
    # Each of the three is kept three times in four; five standard deviations of a share are 0.05.
    for bit in (1, 2, 4):
        assert abs(((kept.astype(int) & bit) > 0).mean() - 0.75) < 0.05
    assert (keyed(OwnDropout(), "network", 0) == keyed(OwnDropout(), "network", 0)).all()
    assert (keyed(OwnDropout(), "network", 0) != keyed(OwnDropout(), "network", 1)).any()


def test_rates_by_layer_and_for_all():
    hidden = X.sum(1)
    second = np.rint(keyed(Plain(), {"Dense_1": 0.5}) / hidden * 0.5)
    assert set(second) == set(range(8)) and abs(second.mean() - 3.5) < 0.3
    everywhere = keyed(Plain(), 0.5)
    assert abs(everywhere.mean() - 7 * hidden.mean()) < 1.5 and (everywhere == 0).mean() > 0.1
    np.testing.assert_allclose(keyed(Plain(), 0.0), 7 * hidden, rtol=1e-4)


def test_layers_of_one_network_have_masks_of_their_own():
    def run(x):
        return linen.Dense(1)(x) - linen.Dense(1)(x)

    class Twice(linen.Module):
        @linen.compact
        def __call__(self, x):
            return run(x)

    one = {"kernel": jnp.ones((4, 1)), "bias": jnp.zeros(1)}
    with live_dropout(0.5, jax.random.key(0)):
        difference = Twice().apply({"params": {"Dense_0": one, "Dense_1": one}}, X)
    assert (jnp.abs(difference) > 1e-3).mean() > 0.5  # one mask for both would leave nothing


def test_broadcast_axes_share_a_mask():
    with live_dropout("network", jax.random.key(0)):
        out = linen.Dropout(0.5, broadcast_dims=(1,)).apply({}, jnp.ones((500, 3, 2)))
    assert (out == out[:, :1]).all() and 0.4 < float((out == 0).mean()) < 0.6


@pytest.mark.parametrize(
    ("network", "dropout", "sentence"),
    [
        (Plain(), "network", "calls no `linen.Dropout`"),
        (Plain(), {"Dense_7": 0.5}, "names `Dense_7`.*Did you mean `Dense_1`|`Dense_0`"),
        (nnx.Linear(4, 1, rngs=nnx.Rngs(0)), 0.5, "modules of NNX or Equinox and plain functions"),
    ],
)
def test_dropout_that_would_drop_nothing_is_refused(network, dropout, sentence):
    model = KeyedModel(model_of(network, dropout), jax.random.key(0))
    with pytest.raises(ValueError, match=sentence):
        handlers.seed(model, jax.random.key(0))(X, np.zeros(len(X), np.float32))
