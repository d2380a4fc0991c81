"""Narrow layers: the same numbers column by column, where it is faster, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.nn.narrow import narrow_dot_general

PLAIN = (((1,), (0,)), ((), ()))


def products(function, *arrays):
    """Shapes of the right factors of all products of a program."""
    jaxpr = jax.make_jaxpr(function)(*arrays).jaxpr
    return [e.invars[1].aval.shape for e in jaxpr.eqns if e.primitive.name == "dot_general"]


@pytest.mark.parametrize(("columns", "apart"), [(1, 1), (2, 2), (4, 4), (5, 1), (8, 1)])
def test_values_and_gradients_are_those_of_one_product(columns, apart):
    rng = np.random.default_rng(columns)
    left, right = rng.normal(size=(30, 7)), rng.normal(size=(7, columns))
    found = narrow_dot_general(left, right, PLAIN)
    np.testing.assert_allclose(found, left @ right, rtol=1e-5, atol=1e-6)
    assert len(products(lambda a, b: narrow_dot_general(a, b, PLAIN), left, right)) == apart
    for argument in (0, 1):
        ours, theirs = (
            jax.grad(lambda a, b, dot=dot: jnp.sum(jnp.sin(dot(a, b, PLAIN))), argument)(
                left, right
            )
            for dot in (narrow_dot_general, jax.lax.dot_general)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_other_contractions_are_left_as_they_are():
    left, right = np.ones((4, 3)), np.ones((4, 2))
    other = (((0,), (0,)), ((), ()))
    np.testing.assert_array_equal(narrow_dot_general(left, right, other), left.T @ right)
    batched = (((2,), (1,)), ((0,), (0,)))
    left, right = np.ones((5, 4, 3)), np.ones((5, 3, 2))
    assert narrow_dot_general(left, right, batched).shape == (5, 4, 2)


def test_an_accelerator_has_one_product(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    arrays = np.ones((4, 3)), np.ones((3, 2))
    assert len(products(lambda a, b: narrow_dot_general(a, b, PLAIN), *arrays)) == 1


@pytest.mark.parametrize("prior", [bnn.priors.normal(1.0), bnn.priors.horseshoe()])
def test_every_network_of_a_model_has_narrow_layers(prior):
    model = bnn.models.mlp(hidden=(5,), likelihood=bnn.likelihoods.heteroscedastic(), prior=prior)
    x, y = np.ones((9, 4), np.float32), np.ones(9, np.float32)

    def outputs(x):
        with numpyro.handlers.seed(rng_seed=0), numpyro.handlers.trace() as trace:
            model(x, y)
        return trace["y"]["fn"].loc

    # NumPyro runs the network's `init` before, whose outputs nothing uses.
    assert products(outputs, x)[-3:] == [(4, 5), (5,), (5,)]
