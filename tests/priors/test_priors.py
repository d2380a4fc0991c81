"""The three forms of a prior, and every way in which one may not fit."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

import bayesnn_ppl as bnn

X = np.zeros((5, 3), dtype=np.float32)
NETWORK = bnn.nn.MLP((4,), outputs=1)  # kernels (3, 4), (4, 1); biases (4,), (1,)


def sites(prior):
    def model(x):
        bnn.random_network("net", NETWORK, prior, x)

    return handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(X)


def test_a_distribution_is_the_prior_of_every_parameter():
    trace = sites(dist.Laplace(0.0, 2.0))
    for name, shape in {
        "net/Dense_0.kernel": (3, 4),
        "net/Dense_0.bias": (4,),
        "net/Dense_1.kernel": (4, 1),
        "net/Dense_1.bias": (1,),
    }.items():
        assert trace[name]["value"].shape == shape
        np.testing.assert_allclose(trace[name]["fn"].variance, np.full(shape, 8.0), rtol=1e-6)


def test_fan_in_normal_divides_the_variance_by_the_fan_in():
    prior = bnn.priors.fan_in_normal(2.0, bias_scale=3.0)
    assert prior("Dense_0.kernel", (25, 7)).variance == pytest.approx(4 / 25)
    assert prior("Conv_0.kernel", (3, 3, 16, 32)).variance == pytest.approx(4 / 144)
    assert prior("Dense_0.bias", (7,)).variance == pytest.approx(9.0)
    assert prior("Embed_0.embedding", (20_000, 128)).variance == pytest.approx(4.0)


def test_normal_takes_a_scale_or_a_variance():
    assert bnn.priors.normal(variance=1 / 30)("w", (2,)).variance == pytest.approx(1 / 30)
    assert bnn.priors.normal(0.5)("w", (2,)).variance == pytest.approx(0.25)
    with pytest.raises(ValueError, match="not both"):
        bnn.priors.normal(1.0, variance=1.0)


@pytest.mark.parametrize("factory", [bnn.priors.normal, bnn.priors.fan_in_normal])
@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_scales_are_positive(factory, scale):
    with pytest.raises(ValueError, match="positive and finite"):
        factory(scale)


def test_a_function_may_sample_its_own_hyperparameters():
    def per_layer(name, shape):
        return dist.Normal(0.0, numpyro.sample(f"{name}.scale", dist.HalfNormal(1.0)))

    trace = sites(per_layer)
    assert trace["net/Dense_0.kernel.scale"]["value"].shape == ()
    scale = trace["net/Dense_0.kernel.scale"]["value"]
    np.testing.assert_allclose(trace["net/Dense_0.kernel"]["fn"].variance, scale**2, rtol=1e-5)


def test_a_multivariate_prior_fits_the_trailing_axes():
    def joint(name, shape):
        return dist.MultivariateNormal(np.zeros(shape[-1]), np.eye(shape[-1]))

    assert sites(joint)["net/Dense_0.kernel"]["value"].shape == (3, 4)


def test_the_first_pattern_that_matches_counts():
    trace = sites({"Dense_0.*": dist.Normal(0, 3.0), "*": dist.Normal(0, 1.0)})
    assert trace["net/Dense_0.bias"]["fn"].variance[0] == pytest.approx(9.0)
    assert trace["net/Dense_1.bias"]["fn"].variance[0] == pytest.approx(1.0)


def test_a_network_prior_samples_the_whole_tree():
    @bnn.priors.NetworkPrior
    def one_scale(shapes, x):
        assert x.shape == X.shape
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        return {
            name: numpyro.sample(name, dist.Normal(0, scale).expand(shape).to_event())
            for name, shape in shapes.items()
        }

    def model(x):
        net = bnn.random_network("net", NETWORK, one_scale, x)
        numpyro.deterministic("f", net(x))

    trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(X)
    assert trace["net/scale"]["value"].shape == ()
    # Inputs are zero, so that only the weights that the prior returned can make this output.
    hidden = np.tanh(trace["net/Dense_0.bias"]["value"])
    expected = hidden @ trace["net/Dense_1.kernel"]["value"] + trace["net/Dense_1.bias"]["value"]
    np.testing.assert_allclose(trace["f"]["value"][0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("prior", "sentence"),
    [
        (3.0, "must be a NumPyro distribution, a function"),
        (lambda name, shape: None, "must return a distribution"),
        ({}, "non-empty mapping"),
        ({"*": 1.0}, "must be a distribution or a function"),
        ({1: dist.Normal()}, "must be strings"),
        (bnn.priors.NetworkPrior(lambda shapes, x: 3), "must return a mapping"),
    ],
)
def test_what_is_no_prior_is_refused(prior, sentence):
    with pytest.raises(TypeError, match=sentence):
        sites(prior)
