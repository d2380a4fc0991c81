"""Products of small matrices in a batch, computed as sums over rows."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.small_products import products_as_sums

RNG = np.random.default_rng(0)


def descent(weights, x, y):
    """Some steps down a two-layer network's loss, in a loop within a conditional loop."""

    def loss(weights):
        first, second = weights
        return jnp.mean(jnp.square(jax.nn.relu(x @ first) @ second - y))

    def step(weights, _):
        rates = jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))
        return rates, loss(weights)

    def body(carry):
        number, weights, _ = carry
        return number + 1, *jax.lax.scan(step, weights, None, length=3)

    return jax.lax.while_loop(lambda c: c[0] < 2, body, (0, weights, jnp.zeros(3, x.dtype)))


def arguments(inputs):
    shapes = ((4, inputs, 6), (4, 6, 2))
    weights = tuple(RNG.normal(size=s).astype(np.float32) * 0.3 for s in shapes)
    x, y = (RNG.normal(size=(10, k)).astype(np.float32) for k in (inputs, 2))
    return weights, x[None] * RNG.normal(size=(4, 1, 1)).astype(np.float32), y


def gradient_products(function, *given):
    """How many products over the rows of each member the traced function has."""
    return str(jax.make_jaxpr(function)(*given)).count("dimension_numbers=(([1], [1]), ([0], [0]))")


def test_gradients_of_members_are_sums_and_the_same_numbers():
    members = jax.vmap(descent, in_axes=(0, 0, None))
    given = arguments(3)
    rewritten = products_as_sums(members)
    assert gradient_products(members, *given) == 2
    assert gradient_products(rewritten, *given) == 0
    for one, other in zip(
        jax.tree.leaves(jax.jit(members)(*given)),
        jax.tree.leaves(jax.jit(rewritten)(*given)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_large_products_stay_products():
    members = jax.vmap(descent, in_axes=(0, 0, None))
    given = arguments(1000)
    assert gradient_products(products_as_sums(members), *given) == 1
