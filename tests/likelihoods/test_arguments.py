"""Every bad argument and every target that does not fit is refused in a sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.modeling.contract import inspect_model

L = bnn.likelihoods
CATEGORICAL = L.categorical(3)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: L.gaussian(dist.Normal(0, 1)), ValueError, "prior Normal has the support Real"),
        (lambda: L.gaussian(dist.Uniform(-1, 1)), ValueError, "over the positive reals"),
        (lambda: L.gaussian(per_output=True), ValueError, "must know how many: `outputs=3`"),
        (lambda: L.gaussian(outputs=None, per_output=True), ValueError, "not `outputs=None`"),
        (lambda: L.gaussian(0.1, outputs=2, per_output=True), ValueError, "says two things"),
        (lambda: L.gaussian([0.1, 0.2, 0.3], outputs=2), ValueError, "There are 3 noise scales"),
        (lambda: L.gaussian([0.1, -1.0], outputs=2), ValueError, "noise scale of output 1 must be"),
        (
            lambda: L.gaussian(dist.HalfNormal(jnp.ones(3)), outputs=2),
            ValueError,
            r"draws of shape \(3,\)",
        ),
        (lambda: L.gaussian(outputs=0), ValueError, "`outputs` must be at least 1"),
        (lambda: L.categorical(), TypeError, r"number of classes: `categorical\(3\)`"),
        (lambda: L.laplace(-1.0), ValueError, "positive and finite"),
        (lambda: L.student_t(0.0), ValueError, "degrees of freedom must be positive"),
        (lambda: L.student_t("4"), TypeError, "degrees of freedom must be a number"),
        (lambda: L.student_t(dist.Normal(4, 1)), ValueError, "degrees of freedom must be positive"),
        (lambda: L.student_t(dist.Gamma(2.0 * jnp.ones(2), 0.1)), ValueError, "degrees of freedom"),
        (lambda: L.poisson(outputs=1.5), TypeError, "`outputs` must be an integer"),
        (lambda: L.negative_binomial(-2.0), ValueError, "concentration must be positive"),
        (lambda: L.negative_binomial(outputs=0), ValueError, "at least 1"),
        (lambda: L.ordinal(1), ValueError, "number of classes must be at least 2"),
        (lambda: L.ordinal(3, cutpoints=[1.0, 0.0]), ValueError, "greater than the one before"),
        (lambda: L.ordinal(3, cutpoints=[1.0]), ValueError, "have 2 finite cutpoints"),
        (lambda: L.ordinal(3, cutpoints=1.0), TypeError, "must be 2 numbers or a distribution"),
        (
            lambda: L.ordinal(3, cutpoints=dist.Normal(0, 1).expand([2]).to_event(1)),
            ValueError,
            "increasing vector of 2",
        ),
        (lambda: L.ordinal(3).distribution(jnp.zeros((4, 3))), ValueError, "Ordinal likelihood"),
        (lambda: L.mixture_density(0), ValueError, "number of components must be at least 1"),
        (lambda: L.mixture_density(2, floor=0.0), ValueError, "floor of the noise scales"),
        (lambda: L.mixture_density(2, targets=0), ValueError, "number of targets"),
        (
            lambda: L.mixture_density(2).distribution(jnp.zeros((4, 5))),
            ValueError,
            "needs 6 network outputs",
        ),
        (lambda: L.quantile([0.9, 0.1]), ValueError, "each greater than the one before"),
        (lambda: L.quantile([]), ValueError, "inside \\(0, 1\\)"),
        (lambda: L.quantile(95), ValueError, "write 0.95 for 95 %"),
        (lambda: L.quantile("median"), TypeError, "levels must be numbers"),
        (lambda: L.quantile(0.5, scale=0.0), ValueError, "positive and finite"),
        (
            lambda: L.quantile(0.5).distribution(jnp.zeros((4, 5, 1)), scale=jnp.ones(1)),
            ValueError,
            "one target per row",
        ),
        (lambda: L.dirty(L.categorical, label_smoothing=0.1), TypeError, "wraps a likelihood"),
        (lambda: L.dirty(CATEGORICAL), ValueError, "Nothing is dirty here"),
        (lambda: L.dirty(L.gaussian(), class_weights=[1]), ValueError, "but Gaussian has numbers"),
        (lambda: L.dirty(CATEGORICAL, label_smoothing=1.0), ValueError, r"must lie in \[0, 1\)"),
        (lambda: L.dirty(CATEGORICAL, label_smoothing="a"), TypeError, "smoothing must be a"),
        (lambda: L.dirty(CATEGORICAL, class_weights=[1, 0, 1]), ValueError, "weight of class 1"),
        (
            lambda: L.dirty(CATEGORICAL, class_weights=[1, 2]).distribution(jnp.zeros((4, 3))),
            ValueError,
            "has 2 class weights, but its CategoricalLikelihood has 3 classes",
        ),
        (
            lambda: L.dirty(L.dirty(CATEGORICAL, label_smoothing=0.1), label_smoothing=0.1),
            ValueError,
            "dirty already",
        ),
        (lambda: L.dirty(CATEGORICAL, augmentation="flop"), ValueError, "Did you mean `flip`"),
        (lambda: L.dirty(CATEGORICAL, augmentation=3), TypeError, "function `.key, x. -> x`"),
        (lambda: L.dirty(CATEGORICAL, dropout=1.0), ValueError, "at least 0 and below 1"),
        (lambda: L.dirty(CATEGORICAL, dropout="some"), TypeError, '{layer: rate} or "network"'),
        (lambda: L.dirty(CATEGORICAL, dropout={"Dense_0": True}), TypeError, "of `Dense_0` must"),
        (lambda: L.dirty(CATEGORICAL, dropout={}), ValueError, "names no layer"),
    ],
)
def test_bad_arguments(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


X = np.zeros((4, 2), np.float32)


@pytest.mark.parametrize(
    ("likelihood", "y", "sentence"),
    [
        (L.poisson(), [1.0, -0.5, 0.0, 2.0], r"y\[1\] = -0.5 cannot .* Poisson .* 0, 1, 2, …"),
        (L.poisson(), [0.3, 1.0, 0.0, 2.0], 'standardise="inputs"'),
        (L.negative_binomial(), [1, 2, -3, 0], r"y\[2\] = -3 .*undo_y"),
        (L.ordinal(3), [0, 1, 2, 3], "labels must be 0 … 2"),
        (L.ordinal(3), [0, 1, 1, 0], r"the labels \[2\] never occur"),
        (L.dirty(CATEGORICAL, label_smoothing=0.1), [0, 1, 2, 5], "labels must be 0 … 2"),
        (L.dirty(CATEGORICAL, label_smoothing=0.1), [0, 1, 1, 0], r"labels \[2\] never occur"),
        (L.quantile(), [[1.0], [2.0], [3.0], [4.0]], r"Flatten the targets"),
        (L.gaussian(outputs=2, per_output=True), [1.0, 2.0, 3.0, 4.0], r"shape \(4, 2\)"),
    ],
)
def test_targets_that_cannot_be(likelihood, y, sentence):
    network = bnn.nn.MLP((), outputs=likelihood.outputs)
    model = bnn.bayesian_network(network, bnn.priors.normal(), likelihood)
    with pytest.raises(ValueError, match=sentence):
        inspect_model(model, X, np.asarray(y))


def test_standardised_counts_are_refused_and_can_be_taken_back():
    generator = np.random.default_rng(0)
    x, counts = generator.normal(size=(40, 2)), generator.poisson(3.0, size=40)
    y = bnn.data.from_arrays(x, counts.astype(float), task="regression").train.y
    model = bnn.bayesian_network(bnn.nn.MLP((), outputs=1), bnn.priors.normal(), L.poisson())
    rows = np.zeros((len(y), 2), np.float32)
    with pytest.raises(ValueError, match=r"--standardise inputs.*np\.rint"):
        inspect_model(model, rows, np.asarray(y))
    back = np.rint(y.standardisation.undo_y(y))
    assert inspect_model(model, rows, back).discrete


@pytest.mark.parametrize(
    ("likelihood", "outputs", "batch_and_event"),
    [
        (L.student_t(outputs=None), (2, 5, 6), ((2,), (5, 6))),
        (L.laplace(outputs=3, per_output=True), (2, 3), ((2,), (3,))),
        (L.poisson(outputs=None), (2, 5, 6), ((2,), (5, 6))),
        (L.negative_binomial(outputs=4), (2, 4), ((2,), (4,))),
        (L.ordinal(3), (2, 5, 6, 1), ((2,), (5, 6))),
        (L.mixture_density(2), (2, 5, 6, 6), ((2,), (5, 6))),
        (L.mixture_density(2, targets=3), (2, 18), ((2,), (3,))),
        (L.dirty(CATEGORICAL, label_smoothing=0.1), (2, 5, 6, 3), ((2,), (5, 6))),
    ],
)
def test_vectors_and_images_are_one_observation_a_row(likelihood, outputs, batch_and_event):
    def run(key, f):
        parameters = handlers.seed(likelihood.sample_parameters, key)()
        return likelihood.distribution(f, **parameters)

    fn = jax.eval_shape(run, jax.random.key(0), jnp.zeros(outputs))
    assert (fn.batch_shape, fn.event_shape) == batch_and_event


def test_pseudo_likelihoods_say_so():
    assert describe(L.quantile(0.5)).startswith("QuantilePseudoLikelihood(")
    dirty = L.dirty(L.categorical(3), label_smoothing=0.1)
    assert describe(dirty) == (
        "DirtyLikelihood(likelihood=CategoricalLikelihood(outputs=3), label_smoothing=0.1, "
        "outputs=3)"
    )
    # What was said of a Gaussian before it could have several scales, by runs on disk too.
    assert describe(L.gaussian(0.3)) == "Gaussian(scale=0.3, outputs=1)"
