"""The convolution against NumPy, and its gradients against those that JAX derives."""

import itertools

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.nn.convolution import convolve

# Every kernel, stride and padding, with odd and even sizes: a covering choice of the product.
CASES = [
    (kernel, stride, size, padding)
    for number, (kernel, stride, padding) in enumerate(
        itertools.product((1, 3, 5), (1, 2, 3), ("SAME", "VALID", ((2, 1), (0, 2))))
    )
    for size in [((7, 6), (6, 7), (7, 7), (8, 6))[number % 4]]
]


def numpy_convolution(x, kernel, strides, padding):
    """The sum of the docstring, written out for one or two space axes."""
    size, space = kernel.shape[:-2], x.shape[1:-1]
    pairs = []
    for length, k, s, axis in zip(space, size, strides, range(9), strict=False):
        if padding == "SAME":
            total = max((-(-length // s) - 1) * s + k - length, 0)
            pairs.append((total // 2, total - total // 2))
        else:
            pairs.append((0, 0) if padding == "VALID" else padding[axis])
    x = np.pad(x, [(0, 0), *pairs, (0, 0)])
    out = [(x.shape[1 + a] - size[a]) // strides[a] + 1 for a in range(len(size))]
    y = np.zeros((len(x), *out, kernel.shape[-1]))
    for place in itertools.product(*map(range, out)):
        window = tuple(
            slice(o * s, o * s + k) for o, s, k in zip(place, strides, size, strict=True)
        )
        y[(slice(None), *place)] = np.tensordot(x[(slice(None), *window)], kernel, len(size) + 1)
    return y


@pytest.mark.parametrize(("size", "space"), [((3, 3), (7, 8)), ((5, 2), (6, 5)), ((4,), (9,))])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_outputs_equal_numpy(size, space, stride):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2, *space, 3)).astype(np.float32)
    kernel = generator.normal(size=(*size, 3, 4)).astype(np.float32)
    bias = generator.normal(size=4).astype(np.float32)
    for padding in ("SAME", "VALID", ((2, 1), (0, 2))[: len(size)]):
        layer = bnn.nn.Conv(4, size, strides=stride, padding=padding)
        result = layer.apply({"params": {"kernel": kernel, "bias": bias}}, x)
        expected = numpy_convolution(x, kernel, (stride,) * len(size), padding) + bias
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_gradients_equal_those_of_jax():
    """All kernels, strides and paddings in one compiled function, in float64."""
    generator = np.random.default_rng(1)
    inputs = [
        (generator.normal(size=(2, *size, 3)), generator.normal(size=(kernel, kernel, 3, 2)))
        for kernel, _, size, _ in CASES
    ]

    def loss(inputs, ours):
        total = 0.0
        for (x, w), (kernel, stride, _, padding) in zip(inputs, CASES, strict=True):
            layer = (bnn.nn.Conv if ours else flax.linen.Conv)(
                2, (kernel, kernel), strides=stride, padding=padding, use_bias=False
            )
            total = total + jnp.sum(jnp.sin(layer.apply({"params": {"kernel": w}}, x)))
        return total

    with jax.enable_x64(True):
        ours, theirs = jax.jit(
            lambda inputs: tuple(
                jax.value_and_grad(loss)(inputs, which) for which in (True, False)
            ),
            compiler_options={"xla_backend_optimization_level": 0},
        )(inputs)
    for case, (a, b) in zip(
        ["loss", *CASES],
        zip([ours[0], *ours[1]], [theirs[0], *theirs[1]], strict=True),
        strict=True,
    ):
        for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            assert p.dtype == np.float64
            np.testing.assert_allclose(p, q, rtol=1e-9, atol=1e-10, err_msg=str(case))


def test_one_space_axis_in_loops_and_batches_of_chains():
    """`scan` over points and `vmap` over chains give what single gradients give."""
    generator = np.random.default_rng(2)
    x = generator.normal(size=(3, 9, 2)).astype(np.float32)
    kernels = generator.normal(size=(2, 5, 2, 4)).astype(np.float32)

    def gradient(kernel, convolution):
        return jax.grad(lambda w: jnp.sum(jnp.sin(convolution(x, w))))(kernel)

    def ours(x, w):
        return convolve(x, w, (2,), ((2, 2),))

    def theirs(x, w):
        numbers = ("NHC", "HIO", "NHC")
        return jax.lax.conv_general_dilated(x, w, (2,), ((2, 2),), dimension_numbers=numbers)

    @jax.jit
    def all_ways(kernels):
        expected = jax.lax.map(lambda w: gradient(w, theirs), kernels)
        batched = jax.vmap(lambda w: gradient(w, ours))(kernels)
        looped = jax.lax.scan(lambda _, w: (None, gradient(w, ours)), None, kernels)[1]
        return expected, batched, looped

    expected, batched, looped = all_ways(kernels)
    np.testing.assert_allclose(batched, expected, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(looped, expected, rtol=2e-5, atol=1e-5)


def test_second_derivatives():
    x = np.random.default_rng(3).normal(size=(2, 5, 1)).astype(np.float32)
    w = np.array([0.3, -0.2], np.float32).reshape(2, 1, 1)

    def loss(w, convolution):
        return jnp.sum(convolution(x, w) ** 3)

    def theirs(x, w):
        numbers = ("NHC", "HIO", "NHC")
        return jax.lax.conv_general_dilated(x, w, (1,), ((0, 0),), dimension_numbers=numbers)

    ours = jax.jacrev(jax.grad(lambda w: loss(w, lambda x, w: convolve(x, w, (1,), ((0, 0),)))))
    expected = jax.hessian(lambda w: loss(w, theirs))
    a, b = jax.jit(lambda w: (ours(w), expected(w)))(w)
    np.testing.assert_allclose(a, b, rtol=1e-4)


def test_parameters_are_those_of_flax():
    x = np.zeros((1, 6, 6, 3), np.float32)
    ours, theirs = (
        jax.eval_shape(module(4, (3, 3), strides=(2, 2)).init, jax.random.key(0), x)
        for module in (bnn.nn.Conv, flax.linen.Conv)
    )
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    assert jax.tree.leaves(ours) == jax.tree.leaves(theirs)


def test_a_scaled_prior_counts_the_inputs_of_a_convolution():
    """Fan-in: height × width × input channels."""
    model = bnn.bayesian_network(
        bnn.nn.Conv(4, (3, 2), padding="VALID"),
        bnn.priors.fan_in_normal(3.0, bias_scale=0.5),
        bnn.likelihoods.categorical(4),
    )
    seen = {}

    def run(x):
        trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(x)
        seen.update((name, site["fn"]) for name, site in trace.items() if site["type"] == "sample")

    jax.eval_shape(run, jnp.zeros((2, 3, 2, 5)))
    scales = {}
    for name in ("kernel", "bias"):
        fn = seen[f"net/{name}"]
        while hasattr(fn, "base_dist"):
            fn = fn.base_dist
        scales[name] = float(fn.scale)
    assert seen["net/kernel"].shape() == (3, 2, 5, 4)
    assert scales == pytest.approx({"kernel": 3.0 / np.sqrt(3 * 2 * 5), "bias": 0.5})


@pytest.mark.parametrize(
    ("layer", "shape", "sentence"),
    [
        (bnn.nn.Conv(2, (3, 3)), (5, 8, 3), r"ordered NHWC.*shape is \(5, 8, 3\)"),
        (bnn.nn.Conv(2, (1, 1, 1)), (1, 2, 2, 2, 2), "one or two space axes"),
        (bnn.nn.Conv(2, (3, 3), padding="CIRCULAR"), (1, 8, 8, 3), '"SAME", "VALID" or pairs'),
        (bnn.nn.Conv(2, (3, 3), padding=((1, 1),)), (1, 8, 8, 3), "one pair .* for each of the 2"),
        (bnn.nn.Conv(2, (3, 3), padding=(1, 1)), (1, 8, 8, 3), "one pair"),
        (bnn.nn.Conv(2, (3, 3), strides=(2,)), (1, 8, 8, 3), "one for each space axis"),
        (bnn.nn.Conv(2, 3, strides=0), (1, 8, 3), "integers from 1"),
        (bnn.nn.Conv(2, (5, 5), padding="VALID"), (1, 4, 8, 3), "smaller than the kernel"),
    ],
)
def test_what_does_not_fit_is_refused(layer, shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros(shape))
