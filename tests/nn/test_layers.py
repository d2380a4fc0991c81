"""Filter response norm, pooling, LSTM and attention against NumPy, written out."""

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesnn_ppl as bnn

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("shape", [(3, 4, 5, 2), (3, 6, 2)])
def test_filter_response_norm(shape):
    x, gamma, beta = 3 * normal(*shape), normal(2), normal(2)
    tau = beta + np.array([0.1, -0.2], np.float32)
    y = np.empty(shape)
    for row in range(shape[0]):
        for channel in range(2):
            values = x[row, ..., channel].astype(np.float64)
            nu2 = (values**2).sum() / values.size
            y[row, ..., channel] = gamma[channel] * values / np.sqrt(nu2 + 1e-6) + beta[channel]
    parameters = {"gamma": gamma, "beta": beta}
    plain = bnn.nn.FilterResponseNorm(threshold=False).apply({"params": parameters}, x)
    cut = bnn.nn.FilterResponseNorm().apply({"params": {**parameters, "tau": tau}}, x)
    np.testing.assert_allclose(plain, y, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(cut, np.maximum(y, tau), rtol=1e-4, atol=1e-6)
    assert (np.asarray(cut) == np.broadcast_to(tau, shape)).any()


def test_filter_response_norm_leaves_rows_independent_and_starts_at_the_identity():
    x = normal(4, 3, 3, 2)
    layer = bnn.nn.FilterResponseNorm()
    parameters = layer.init(jax.random.key(0), x)
    start = {name: float(a[0]) for name, a in parameters["params"].items()}
    assert start == {"gamma": 1.0, "beta": 0.0, "tau": 0.0}
    changed = x.copy()
    changed[1:] *= 7
    np.testing.assert_array_equal(
        layer.apply(parameters, x)[0], layer.apply(parameters, changed)[0]
    )


def numpy_pool(x, window, strides, combine):
    out = [(x.shape[1 + a] - window[a]) // strides[a] + 1 for a in range(len(window))]
    y = np.empty((len(x), *out, x.shape[-1]), x.dtype)
    for place in np.ndindex(*out):
        part = x[
            (
                slice(None),
                *(slice(o * s, o * s + w) for o, s, w in zip(place, strides, window, strict=True)),
            )
        ]
        y[(slice(None), *place)] = combine(part, axis=tuple(range(1, len(window) + 1)))
    return y


@pytest.mark.parametrize(
    ("space", "window", "strides"),
    [((8, 7), (3, 3), (2, 2)), ((9, 6), (2, 3), (3, 1)), ((11,), (4,), (4,))],
)
def test_pooling(space, window, strides):
    x = normal(2, *space, 3)
    np.testing.assert_array_equal(
        bnn.nn.max_pool(x, window, strides=strides), numpy_pool(x, window, strides, np.max)
    )
    np.testing.assert_allclose(
        bnn.nn.average_pool(x, window, strides=strides),
        numpy_pool(x, window, strides, np.mean),
        rtol=1e-5,
        atol=1e-6,
    )
    weights = normal(*bnn.nn.max_pool(x, window, strides=strides).shape)

    @jax.jit
    def gradients(x):
        return [
            jax.grad(lambda x, pool=pool: jnp.sum(weights * pool(x, window, strides=strides)))(x)
            for pool in (
                *(bnn.nn.max_pool, flax.linen.max_pool),
                *(bnn.nn.average_pool, flax.linen.avg_pool),
            )
        ]

    greatest, greatest_of_flax, mean, mean_of_flax = gradients(x)
    np.testing.assert_allclose(greatest, greatest_of_flax, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mean, mean_of_flax, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("forget_bias", [1.0, 0.0])
def test_lstm(forget_bias):
    x, units = normal(3, 5, 2), 4
    kernel, bias = normal(2 + units, 4 * units), normal(4 * units)
    c, h, states = np.zeros((3, units)), np.zeros((3, units)), []
    for t in range(5):
        gates = np.concatenate([x[:, t], h], axis=1) @ kernel + bias
        i, g, f, o = (gates[:, k * units : (k + 1) * units] for k in range(4))
        c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    layer = bnn.nn.LSTM(units, forget_bias=forget_bias)
    result = layer.apply({"params": {"kernel": kernel, "bias": bias}}, x)
    np.testing.assert_allclose(result, np.stack(states, axis=1), rtol=1e-4, atol=1e-5)


def test_the_lstm_of_haiku_differs_from_that_of_flax_by_the_forget_bias():
    x = normal(2, 4, 3)
    kernel, bias = normal(3 + 2, 8), normal(8)
    cell = {}
    for k, gate in enumerate("igfo"):
        part = slice(2 * k, 2 * k + 2)
        cell[f"i{gate}"] = {"kernel": kernel[:3, part]}
        cell[f"h{gate}"] = {"kernel": kernel[3:, part], "bias": bias[part]}
    theirs = flax.linen.RNN(flax.linen.LSTMCell(2)).apply({"params": {"cell": cell}}, x)
    ours = {
        constant: bnn.nn.LSTM(2, forget_bias=constant).apply(
            {"params": {"kernel": kernel, "bias": bias}}, x
        )
        for constant in (0.0, 1.0)
    }
    np.testing.assert_allclose(ours[0.0], theirs, rtol=1e-4, atol=1e-5)
    assert np.abs(ours[1.0] - theirs).max() > 0.01


def test_attention():
    x = normal(2, 4, 6)
    mask = np.array([[True, True, True, False], [True] * 4])
    layer = bnn.nn.SelfAttention(2)
    parameters = jax.tree.map(
        lambda leaf: normal(*leaf.shape), layer.init(jax.random.key(0), x)["params"]
    )
    projected = {name: x @ p["kernel"] + p["bias"] for name, p in parameters.items()}
    y = np.zeros((2, 4, 6))
    for row in range(2):
        for head in (slice(0, 3), slice(3, 6)):
            scores = projected["query"][row][:, head] @ projected["key"][row][:, head].T / 3**0.5
            weights = np.exp(scores) * mask[row]
            weights /= weights.sum(axis=1, keepdims=True)
            y[row][:, head] = weights @ projected["value"][row][:, head]
    expected = y @ parameters["output"]["kernel"] + parameters["output"]["bias"]
    result = layer.apply({"params": parameters}, x, mask)
    np.testing.assert_allclose(result, expected, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (lambda: bnn.nn.FilterResponseNorm().init(jax.random.key(0), normal(2, 3)), "space axes"),
        (
            lambda: bnn.nn.FilterResponseNorm(epsilon=0.0).init(jax.random.key(0), normal(2, 3, 1)),
            "must be positive",
        ),
        (lambda: bnn.nn.max_pool(normal(2, 3), 2), "space"),
        (lambda: bnn.nn.max_pool(normal(1, 3, 5, 1), (4, 4)), "larger than the input's space axes"),
        (lambda: bnn.nn.max_pool(normal(1, 8, 8, 1), (2,)), "each of the 2 space axes"),
        (lambda: bnn.nn.average_pool(normal(1, 8, 1), 2, strides=0), "integer from 1"),
        (lambda: bnn.nn.LSTM(2).init(jax.random.key(0), normal(2, 3)), "rows, steps, features"),
        (
            lambda: bnn.nn.SelfAttention(4).init(jax.random.key(0), normal(1, 2, 6)),
            "6 features do not make 4 heads",
        ),
        (lambda: bnn.nn.activation_function("swich"), "Did you mean `swish`"),
    ],
)
def test_what_does_not_fit_is_refused(run, sentence):
    with pytest.raises(ValueError, match=sentence):
        run()
