"""Networks for images and text: parameter counts, outputs, refusals, and one short run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer import NUTS

import bayesnn_ppl as bnn

CIFAR, MNIST, DERMA = ((2, 32, 32, 3), (2, 28, 28, 1), (2, 28, 28, 3))
IMAGE, TOKENS = jnp.float32, jnp.int32


def sites(model, x):
    """The sampled sites of a model, by shape alone."""
    found = {}

    def run(x):
        trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(x)
        found.update((name, site["fn"]) for name, site in trace.items() if site["type"] == "sample")

    jax.eval_shape(run, x)
    return found


@pytest.mark.parametrize(
    ("model", "shape", "dtype", "count"),
    [
        (bnn.models.lenet(), CIFAR, IMAGE, 142_646),
        (bnn.models.lenet(), MNIST, IMAGE, 91_946),
        (bnn.models.resnet20_frn(), CIFAR, IMAGE, 274_042),
        (bnn.models.resnet20_frn(classes=100), CIFAR, IMAGE, 279_892),
        (bnn.models.cnn_lstm(), (2, 100), TOKENS, 2_700_098),
        (bnn.models.cnn_lstm(units=70), (2, 100), TOKENS, 2_638_966),
        (bnn.models.cifar_alexnet(), CIFAR, IMAGE, 1_488_202),
        (bnn.models.medmnist_lenet(), DERMA, IMAGE, 61_751),
        (bnn.models.uci_mlp(), (2, 8), IMAGE, 552),
        (bnn.models.mlp_regression_small(), (2, 6), IMAGE, 452),
        (bnn.models.mlp_regression(), (2, 8), IMAGE, 11_202),
        (bnn.models.mlp_classification(), (2, 784), IMAGE, 269_322),
        (bnn.models.logistic(classes=10), (2, 784), IMAGE, 7_850),
    ],
)
def test_published_numbers_of_parameters(model, shape, dtype, count):
    found = sites(model, jax.ShapeDtypeStruct(shape, dtype))
    sizes = [np.prod(fn.shape()) for name, fn in found.items() if name.startswith("net/")]
    assert sum(sizes) == count
    assert found["y"].batch_shape == (2,)


def test_depth_and_width_of_the_residual_network():
    """Counted by hand: biased convolutions, each with three numbers a channel for the norm."""

    def layer(inputs, outputs, size):
        return size * size * inputs * outputs + outputs + 3 * outputs

    expected = layer(3, 4, 3) + (8 * 4 * 10 // 8 * 4 + 10)
    for inputs, outputs in ((4, 4), (4, 8), (8, 16)):
        expected += layer(inputs, outputs, 3) + layer(outputs, outputs, 3)
        expected += layer(inputs, outputs, 1) if inputs != outputs else 0
    model = bnn.models.resnet20_frn(depth=8, width=4)
    found = sites(model, jax.ShapeDtypeStruct(CIFAR, IMAGE))
    assert sum(np.prod(f.shape()) for n, f in found.items() if n.startswith("net/")) == expected


@pytest.mark.parametrize(
    ("model", "variance"),
    [
        (bnn.models.resnet20_frn(), 1 / 5),
        (bnn.models.cnn_lstm(), 1 / 40),
        (bnn.models.cifar_alexnet(), 0.05),
        (bnn.models.medmnist_lenet(), 0.01),
        (bnn.models.uci_mlp(), 1 / 30),
    ],
)
def test_published_priors(model, variance):
    assert model.prior == bnn.priors.normal(variance=variance)


def test_models_are_values():
    assert bnn.models.resnet20_frn() == bnn.models.resnet20_frn()
    assert bnn.models.resnet20_frn() != bnn.models.resnet20_frn(activation="relu")


def test_the_prior_of_the_transformer():
    """Gains of the normalisation about 1, an embedding by fan-in 1, projections by their width."""
    model = bnn.models.transformer(features=16, heads=2, hidden=8, vocabulary=50)
    found = sites(model, jax.ShapeDtypeStruct((2, 12), TOKENS))
    moments = {}
    for name, fn in found.items():
        normal = fn
        while hasattr(normal, "base_dist"):
            normal = normal.base_dist
        if name.startswith("net/"):
            moments[name[4:]] = (float(normal.loc), float(normal.scale))
    assert moments["TransformerBlock_0.LayerNorm_1.scale"] == pytest.approx((1.0, 0.1))
    assert moments["Tokens.embedding"] == (0.0, 1.0)
    assert moments["TransformerBlock_1.SelfAttention_0.key.kernel"] == (0.0, 0.25)


def test_padding_does_not_count_in_the_transformer():
    model = bnn.models.transformer(features=8, heads=2, blocks=1, hidden=8, vocabulary=9)
    net = model.network
    x = np.array([[3, 4, 5, 0, 0, 0], [3, 4, 5, 6, 0, 0], [0] * 6], np.int32)
    shapes = jax.eval_shape(net.init, jax.random.key(0), x)
    generator = np.random.default_rng(0)
    parameters = jax.tree.map(lambda a: generator.normal(size=a.shape).astype(np.float32), shapes)
    apply = jax.jit(net.apply)
    long = apply(parameters, x)
    parameters["params"]["Tokens"]["embedding"][0] += generator.normal(size=8)
    parameters["params"]["Positions"]["embedding"][4:] += generator.normal(size=8)
    moved = apply(parameters, x)
    np.testing.assert_allclose(moved, long, rtol=1e-3, atol=1e-4)
    assert np.isfinite(moved).all() and np.abs(long[0] - long[1]).max() > 1e-2


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: bnn.models.resnet20_frn(normalisation="batch"), "no longer a product"),
        (lambda: bnn.models.resnet20_frn(normalisation="layer"), '"frn" or "none"'),
        (lambda: bnn.models.resnet20_frn(depth=18), r"6n \+ 2"),
        (lambda: bnn.models.resnet20_frn(width=0), "an integer of at least 1"),
        (lambda: bnn.models.resnet20_frn(activation="swich"), "Did you mean `swish`"),
        (lambda: bnn.models.transformer(features=10, heads=4), "10 features do not make 4 heads"),
    ],
)
def test_settings_that_make_no_network_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("model", "x", "sentence"),
    [
        (bnn.models.lenet(), np.zeros((4, 64), np.float32), "LeNet takes images.*`mlp`"),
        (bnn.models.resnet20_frn(), np.zeros((4, 28, 28), np.float32), "ResNet takes images"),
        (bnn.models.lenet(), np.zeros((4, 8, 8, 1), np.float32), "needs larger inputs"),
        (bnn.models.cnn_lstm(), np.zeros((4, 30), np.float32), "takes tokens.*astype"),
        (bnn.models.transformer(), np.zeros((4, 5, 3), np.int32), "takes tokens"),
    ],
)
def test_tables_are_refused_before_anything_is_compiled(model, x, sentence, compilations):
    kernel = NUTS(model)
    y = np.array([0, 1, 0, 1])
    before = compilations()
    with pytest.raises(ValueError, match=sentence):
        bnn.sample(kernel, x, y, warmup=1, draws=1, chains=1, progress=False)
    assert compilations() == before


def test_a_convolutional_network_is_sampled_and_predicts():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(6, 12, 12, 1)).astype(np.float32)
    y = np.array([0, 1, 0, 1, 0, 1])
    kernel = NUTS(
        bnn.models.medmnist_lenet(classes=2),
        max_tree_depth=2,
        step_size=0.01,
        adapt_step_size=False,
    )
    posterior = bnn.sample(kernel, x, y, warmup=1, draws=2, chains=1, seed=0, progress=False)
    assert posterior.draws["net.Conv_1.kernel"].shape == (1, 2, 5, 5, 6, 16)
    steps = posterior.draws["net.Conv_0.kernel"]
    assert np.isfinite(steps).all() and np.abs(steps[0, 1] - steps[0, 0]).max() > 0
    probabilities = np.asarray(posterior.predict(x).probabilities)
    assert probabilities.shape == (6, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
