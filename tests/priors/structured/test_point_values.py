"""Parameters that are not sampled: known values, values of a fit, and ones fitted on the way."""

import jax
import numpy as np
import pytest
from flax import nnx
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl import priors
from tests.inference.approximations import linear_truth as truth
from tests.priors.prior_checks import ROWS, shapes_of

NET = bnn.nn.MLP((3,), outputs=1)
KNOWN = {
    "Dense_0": {"kernel": np.array([[1.0, -0.5, 0.3], [0.2, 0.7, -1.0]]), "bias": np.ones(3)},
}
PRIOR, NOISE = 0.8, 0.3


def partly(values):
    return bnn.bayesian_network(
        NET,
        {"Dense_0.*": priors.fixed(values), "*": priors.normal(PRIOR)},
        bnn.likelihoods.gaussian(scale=NOISE),
    )


def last_layer(x, y, values):
    """Exact mean and covariance of the last layer's kernel and bias, features known."""
    first = values["Dense_0"]
    features = np.column_stack([np.tanh(x @ first["kernel"] + first["bias"]), np.ones(len(x))])
    precision = features.T @ features / NOISE**2 + np.eye(4) / PRIOR**2
    return np.linalg.solve(precision, features.T @ y / NOISE**2), np.linalg.inv(precision)


def test_the_others_are_sampled_given_the_known_ones(regression):
    x, y = regression
    found = bnn.sample(
        NUTS(partly(KNOWN)), x, y, warmup=300, draws=2000, chains=4, float64=True, progress=False
    )
    assert set(found.draws) == {"net.Dense_1.kernel", "net.Dense_1.bias"}
    draws = np.concatenate(
        [found.draws["net.Dense_1.kernel"][..., 0], found.draws["net.Dense_1.bias"]], 2
    )
    ess = bnn.diagnostics.ess_bulk(draws)
    assert ess.min() > 1500
    mean, covariance = last_layer(x, y, KNOWN)
    sd = np.sqrt(np.diag(covariance))

    def worst(mean):
        return np.max(np.abs(draws.mean((0, 1)) - mean) / sd * np.sqrt(ess))

    assert worst(mean) < 4
    assert np.allclose(
        np.cov(draws.reshape(-1, 4).T) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.1
    )
    other = {"Dense_0": KNOWN["Dense_0"] | {"bias": np.zeros(3)}}
    assert worst(last_layer(x, y, other)[0]) > 20  # the known values are what is conditioned on
    assert np.isfinite(found.predict(x).mean).all()


def test_values_are_taken_in_every_form_that_networks_have():
    flat = {"Dense_0.kernel": np.ones((3, 2)), "Dense_0.bias": np.zeros(2)}
    flat |= {"Dense_1.kernel": np.ones((2, 1)), "Dense_1.bias": np.zeros(1)}
    nested = {"params": {"Dense_0": {"kernel": np.ones((3, 2)), "bias": np.zeros(2)}}}
    for values in (flat, nested):
        prior = {"Dense_0.*": priors.fixed(values), "*": priors.normal()}
        assert set(shapes_of(prior, bnn.nn.MLP((2,), outputs=1), ROWS)) == {
            "Dense_1.kernel",
            "Dense_1.bias",
        }

    class Two(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List([nnx.Linear(3, 2, rngs=rngs), nnx.Linear(2, 1, rngs=rngs)])

        def __call__(self, x):
            return self.layers[1](nnx.tanh(self.layers[0](x)))

    network = Two(nnx.Rngs(0))
    state = nnx.to_pure_dict(nnx.state(network, nnx.Param))
    prior = {"layers.0.*": priors.fixed(state), "*": priors.normal()}
    assert set(shapes_of(prior, network, ROWS)) == {"layers.1.kernel", "layers.1.bias"}


def test_a_trained_network_keeps_its_first_layer(regression):
    model = bnn.bayesian_network(NET, priors.normal(), bnn.likelihoods.gaussian(scale=NOISE))
    trained = bnn.fit(bnn.approximations.MAP(model, epochs=50), *regression, progress=False)
    kept = priors.fixed(trained).function.values
    assert set(kept) == {"Dense_0.kernel", "Dense_0.bias", "Dense_1.kernel", "Dense_1.bias"}
    assert np.array_equal(kept["Dense_0.kernel"], trained.draws["net.Dense_0.kernel"][0, 0])
    with pytest.raises(ValueError, match="no network `other`: it found net/"):
        priors.fixed(trained, network="other")
    several = bnn.fit(
        bnn.approximations.Ensemble(model, members=2, epochs=2), *regression, progress=False
    )
    with pytest.raises(ValueError, match="one value for each parameter"):
        priors.fixed(several)


def test_learned_parameters_maximise_the_evidence_of_the_others():
    """Of y = Xw + c + noise with w normal, the best c weights rows by the marginal covariance."""
    x, y = truth.data()
    model = truth.linear(prior={"*.bias": priors.learned(), "*": priors.normal(truth.PRIOR)})
    q = bnn.approximations.EmpiricalBayes(
        model, guide="multivariate_normal", batch_size=None, steps=4000, learning_rate=0.02,
        particles=4, draws=200,
    )  # fmt: skip
    found = bnn.fit(q, x, y, float64=True, progress=False)
    covariance = truth.NOISE**2 * np.eye(len(y)) + truth.PRIOR**2 * x @ x.T
    ones = np.ones(len(y))
    weights = np.linalg.solve(covariance, ones)
    best, plain = weights @ y / (weights @ ones), y.mean()
    learned = found.provenance["approximation"]["learned"]["net/Dense_0.bias"]
    assert abs(learned[0] - best) < 0.03 and abs(plain - best) > 0.1
    assert set(found.draws) == {"net.Dense_0.kernel"}
    assert np.array_equal(priors.fixed(found).function.values["Dense_0.bias"], learned)


def test_methods_that_fit_no_parameters_refuse_a_model_with_some(regression):
    model = bnn.bayesian_network(
        NET, {"Dense_0.*": priors.learned(), "*": priors.normal()}, bnn.likelihoods.gaussian()
    )
    with pytest.raises(ValueError, match=r"parameters \['net/Dense_0.bias', .* which NUTS would"):
        bnn.sample(NUTS(model), *regression, warmup=9, draws=9, progress=False)
    with pytest.raises(ValueError, match="which MAP would leave at their first values"):
        bnn.fit(bnn.approximations.MAP(model), *regression, progress=False)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "was given no values"),
        ({"Dense_0.kernel": np.full((2, 3), np.nan)}, "`Dense_0.kernel` is not finite"),
        ({"Dense_0.kernel": np.ones((2, 3))}, "no value for `Dense_0.bias`"),
        ({"Dense_0.kernel": np.ones((4, 3)), "Dense_0.bias": np.ones(3)}, r"shape \(4, 3\)"),
    ],
)
def test_values_that_do_not_fit(values, says, regression):
    with pytest.raises(ValueError, match=says):
        bnn.sample(NUTS(partly(values)), *regression, warmup=9, draws=9, progress=False)


def test_something_that_is_no_values():
    with pytest.raises(TypeError, match="parameters of a network"):
        priors.fixed([1.0])
    with pytest.raises(ValueError, match="`scale` of `learned`"):
        priors.learned(0.0)


@pytest.mark.check
def test_features_of_fixed_layers_are_computed_once_for_a_trajectory():
    """14 times faster when it was written; without it both would take the same time."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(1000, 400)).astype(np.float32), generator.integers(0, 10, 1000)
    network = bnn.nn.MLP((100,), outputs=10)
    trained = network.init(jax.random.key(0), x[:1])
    seconds = {}
    for _ in range(3):
        for name, first in (("all", priors.normal(0.1)), ("last", priors.fixed(trained))):
            model = bnn.bayesian_network(
                network, {"Dense_0.*": first, "*": priors.normal()}, bnn.likelihoods.categorical(10)
            )
            kernel = bnn.kernels.HMC(
                model, step_size=1e-3, num_leapfrogs=100, adapt_step_size=False
            )
            found = bnn.sample(kernel, x, y, warmup=0, draws=3, chains=1, progress=False)
            seconds.setdefault(name, []).append(found.provenance["seconds"]["sample"])
    assert np.median(seconds["last"]) < 0.5 * np.median(seconds["all"])
