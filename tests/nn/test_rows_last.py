"""Gradients with the rows in the last axis: the same numbers, from turned products."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from jax.flatten_util import ravel_pytree
from numpyro.infer import NUTS
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.minibatch_density import (
    MinibatchDensity,
    MinibatchGradient,
)
from bayesnn_ppl.inference.runtime.program_cache import ProgramCache
from bayesnn_ppl.inference.sampling import compiled_program, traced_functions
from bayesnn_ppl.nn.rows_last import with_rows_last

N, D = 70, 3


def by_hand(w, x):
    """Two layers in plain JAX, the first inside `jax.jit`, with a softmax and a maximum of rows."""
    hidden = jax.jit(lambda x: jax.nn.relu(x @ w["a"] + w["b"]))(x)
    out = jnp.tanh(hidden @ w["c"])
    return jnp.sum(jax.nn.log_softmax(out) * jnp.arange(4.0)) + jnp.sum(out.max(1) * hidden[:, 0])


def row_by_row(w, x):
    """As Equinox is used: a matrix times one row, for each row."""
    return jnp.sum(jax.vmap(lambda row: jnp.sin(w["a"].T @ row + w["b"]) @ w["c"])(x) ** 2)


def gram(w, x):
    """Rows by rows, which has no shorter side."""
    z = x @ w["a"] + w["b"]
    return jnp.sum(jnp.exp(-(z @ z.T))) + jnp.sum(w["c"])


def through_layers(w, x):
    """Operations that are not done on turned arrays: slices, sorting, sums along rows, a scan."""
    z = x @ w["a"] + w["b"]
    left, right = jnp.split(z, [2], axis=1)
    mixed = jnp.concatenate([jnp.sort(left, axis=1), right[:, ::-1]], axis=1)
    total, _ = jax.lax.scan(lambda sums, row: (sums + row @ w["c"], None), jnp.zeros(4), mixed)
    return jnp.sum(total**2) + jnp.sum(jnp.cumsum(z, axis=0)[-1])


def weights(key=0):
    keys = jax.random.split(jax.random.key(key), 4)
    shapes = {"a": (D, 5), "b": (5,), "c": (5, 4)}
    w = {n: jax.random.normal(k, s) for k, (n, s) in zip(keys[:3], shapes.items(), strict=True)}
    return w, jax.random.normal(keys[3], (N, D))


def assert_same(found, expected, tolerance=2e-5):
    def compare(a, b):
        scale = float(jnp.abs(b).max()) + 1e-6
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)

    jax.tree.map(compare, found, expected)


def shapes_of_products(function, *args):
    """Of the results of products in the jaxpr, those inside calls too."""
    found = []

    def look(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                found.append(equation.outvars[0].aval.shape)
            for value in equation.params.values():
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    look(inner)

    look(jax.make_jaxpr(function)(*args).jaxpr)
    return found


@pytest.mark.parametrize("function", [by_hand, row_by_row, gram, through_layers])
def test_gradients_are_the_same(function):
    w, x = weights()
    plain = jax.value_and_grad(function)
    assert_same(with_rows_last(plain, N)(w, x), plain(w, x))
    # In a batch, under jit, and differentiated again.
    several = jax.tree.map(lambda *leaves: jnp.stack(leaves), w, weights(1)[0])
    turned = jax.jit(jax.vmap(with_rows_last(plain, N), (0, None)))
    assert_same(turned(several, x), jax.vmap(plain, (0, None))(several, x))
    slope, straight = (
        jax.jvp(lambda w, of=of: of(w, x), (w,), (w,))[1][1]
        for of in (with_rows_last(plain, N), plain)
    )
    assert_same(slope, straight, 1e-4)


def test_all_products_of_rows_are_turned_and_no_others():
    w, x = weights()
    gradient = jax.grad(by_hand)
    turned = shapes_of_products(with_rows_last(gradient, N), w, x)
    assert not any(shape[0] == N for shape in turned)
    assert (5, N) in turned and (4, N) in turned
    few = shapes_of_products(with_rows_last(jax.grad(by_hand), 50), w, x[:50])
    assert few == shapes_of_products(gradient, w, x[:50]) and (50, 5) in few


def test_loops_are_looked_into():
    """Where NumPyro's kernels take their gradients."""

    def descend(w, x):
        def step(carry):
            number, w = carry
            slope = jax.grad(by_hand)(w, x)
            return number + 1, jax.tree.map(lambda a, b: a - 1e-3 * b, w, slope)

        return jax.lax.while_loop(lambda carry: carry[0] < 3, step, (0, w))[1]

    w, x = weights()
    turned = with_rows_last(descend, N)
    assert_same(turned(w, x), descend(w, x))
    assert not any(shape[0] == N for shape in shapes_of_products(turned, w, x))
    assert any(shape[0] == N for shape in shapes_of_products(descend, w, x))


def test_on_other_devices_nothing_is_changed(monkeypatch):
    w, x = weights()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    gradient = jax.grad(by_hand)
    assert shapes_of_products(with_rows_last(gradient, N), w, x) == shapes_of_products(
        gradient, w, x
    )


class Normalised(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(linen.softplus(linen.LayerNorm()(linen.Dense(6)(x))))


class OfNNX(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(D, 6, rngs=rngs), nnx.Linear(6, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(jnp.tanh(self.first(x)))


def hierarchical():
    return bnn.models.mlp(hidden=(7,), prior=bnn.priors.hierarchical())


def horseshoe():
    return bnn.models.linear(prior=bnn.priors.horseshoe(), likelihood=bnn.likelihoods.gaussian())


def of_linen():
    likelihood = bnn.likelihoods.heteroscedastic()
    return bnn.bayesian_network(Normalised(), bnn.priors.normal(1.0), likelihood)


def of_nnx():
    likelihood = bnn.likelihoods.heteroscedastic()
    return bnn.bayesian_network(OfNNX(nnx.Rngs(0)), bnn.priors.normal(1.0), likelihood)


def classes():
    return bnn.models.mlp(hidden=(7, 7), likelihood=bnn.likelihoods.categorical(3))


@pytest.mark.parametrize("make", [hierarchical, horseshoe, of_linen, of_nnx, classes])
def test_a_models_gradient_and_terms_are_those_of_plain_autodiff(make):
    """In float64, where rounding is no excuse; and no product is left with the rows first."""
    with jax.enable_x64(True):
        model, x = make(), np.random.default_rng(0).normal(size=(N, D))
        y = np.arange(N) % 3 if make is classes else x.sum(1)
        z = initialize_model(jax.random.key(1), model, model_args=(x, y)).param_info.z
        density = Density.at(model, (x, y), {}, z)
        vector = ravel_pytree(z)[0]
        gradient, terms = jax.jit(density.gradient_and_terms)(vector)
        assert_same(gradient, jax.grad(density.potential)(vector), 1e-10)
        assert_same(jax.jit(density.gradient)(vector), gradient, 1e-10)
        assert_same(terms, density.terms(vector), 1e-10)
        products = shapes_of_products(density.gradient, vector)
        assert products and all(len(shape) < 2 or shape[0] != N for shape in products)


def test_numpyros_nuts_has_turned_products_under_sample(monkeypatch):
    """The same chain as without them, for a few draws."""
    x = np.random.default_rng(0).normal(size=(N, D))
    y = x.sum(1)

    def run():
        kernel = NUTS(hierarchical())
        posterior = bnn.sample(
            kernel, x, y, warmup=3, draws=2, chains=2, seed=0, progress=False, float64=True
        )
        return posterior.draws, posterior.statistics["energy"]

    turned, found = [], run()
    monkeypatch.setattr(compiled_program, "programs", ProgramCache(kept=1))
    monkeypatch.setattr(
        traced_functions, "with_rows_last", lambda function, rows: turned.append(rows) or function
    )
    plain = run()
    assert turned and set(turned) == {N}
    assert_same(found, plain, 1e-8)


def test_chains_on_two_devices_have_turned_products():
    """Inside `shard_map`, where a gradient asks for products that are not spread over devices."""
    w, x = weights()
    several = jax.tree.map(lambda leaf: jnp.stack([leaf, -leaf]), w)
    spec = jax.sharding.PartitionSpec("chain")

    def each(w, x):
        return jax.lax.map(lambda w: with_rows_last(jax.grad(by_hand), N)(w, x), w)

    spread = jax.jit(
        jax.shard_map(
            each,
            mesh=bnn.device_mesh(2),
            in_specs=(spec, jax.sharding.PartitionSpec()),
            out_specs=spec,
            axis_names={"chain"},
            check_vma=False,
        )
    )
    assert_same(spread(several, x), jax.vmap(jax.grad(by_hand), (0, None))(several, x))
    assert not any(shape[0] == N for shape in shapes_of_products(spread, several, x))


def test_settings_of_a_minibatch_are_not_traced():
    """A traced temperature of 1 would be refused as a second one of a `cold` model."""
    model = bnn.cold(hierarchical(), 0.5)
    x = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    data = x, x.sum(1)
    z = initialize_model(jax.random.key(1), model, model_args=data).param_info.z
    density = MinibatchDensity.of(Density.at(model, data, {}, z), 2 * N)
    gradient = MinibatchGradient(density, lambda _: data, 1, 1.0, 1.0)
    vector = ravel_pytree(z)[0]
    assert_same(gradient(vector), jax.grad(density.potential)(vector, *data), 1e-4)
    assert all(s[0] != N for s in shapes_of_products(gradient, vector) if len(s) == 2)
