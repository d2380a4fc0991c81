"""Priors that cannot be meant, each refused by a sentence that says why and what to do."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints

from bayesnn_ppl import priors
from tests.priors.prior_checks import IMAGES, Everything, shapes_of

SIGMA = np.eye(4) + 0.5
NOT_DEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
FLAT = dist.ImproperUniform(constraints.real, (), ())

# Refused as soon as they are made.
MADE = {
    "no scale": (lambda: priors.laplace(0.0), "scale must be positive and finite"),
    "an infinite scale": (lambda: priors.cauchy(np.inf), "positive and finite"),
    "a scale that is a word": (lambda: priors.logistic("wide"), "must be a number"),
    "fan-in by number": (
        lambda: priors.laplace(1.0, fan_in=3),
        "`fan_in` of `laplace` must be True or False",
    ),
    "no degrees of freedom": (lambda: priors.student_t(-1.0), "degrees_of_freedom must be"),
    "a power that overflows": (lambda: priors.generalised_normal(0.01), "at least 0.1"),
    "weights that do not sum to 1": (
        lambda: priors.normal_mixture((0.5, 0.6), (1.0, 2.0)),
        "must have sum 1, not 1.1",
    ),
    "a component without a scale": (
        lambda: priors.normal_mixture((0.5, 0.5), (1.0,)),
        "2 weights, 1 scales and 2 means",
    ),
    "a spike as wide as the slab": (
        lambda: priors.spike_and_slab(spike_scale=1.0),
        "must be narrower than the slab",
    ),
    "a covariance that is not definite": (
        lambda: priors.multivariate_normal(NOT_DEFINITE),
        r"not positive definite: its smallest eigenvalue is -1",
    ),
    "a covariance that is not symmetric": (
        lambda: priors.kronecker_normal(row=np.array([[1.0, 0.5], [0.0, 1.0]])),
        "row covariance must be symmetric",
    ),
    "a covariance that is not square": (
        lambda: priors.joint_normal(np.ones((2, 3))),
        r"must be a square matrix, but its shape is \(2, 3\)",
    ),
    "a factor that is not triangular": (
        lambda: priors.joint_normal(scale_tril=SIGMA),
        "lower triangular with a positive diagonal",
    ),
    "two covariances": (lambda: priors.joint_normal(SIGMA, scale_tril=SIGMA), "one of them"),
    "no covariance": (lambda: priors.kronecker_normal(), "Give `row`, `column` or both"),
    "a scale that may be negative": (
        lambda: priors.hierarchical(dist.Normal(0, 1)),
        "a scale is a positive real number",
    ),
    "a scale that is counted": (lambda: priors.hierarchical(dist.Poisson(3.0)), "a positive real"),
    "an improper scale": (
        lambda: priors.hierarchical(dist.ImproperUniform(constraints.positive, (), ())),
        "the prior of the scale is improper|The prior of the scale is improper",
    ),
    "a vector of scales": (
        lambda: priors.hierarchical(dist.HalfNormal(np.ones(3))),
        "`over` says how many scales there are",
    ),
    "a scale that is a number": (lambda: priors.hierarchical(1.0), "be a NumPyro distribution"),
    "a granularity that is not known": (
        lambda: priors.hierarchical(over="neuron"),
        "must be one of 'network', 'layer', 'block'",
    ),
    "groups of what are not filters": (
        lambda: priors.hierarchical(over="unit", groups=2),
        'goes with over="filter_group" only',
    ),
    "others where there are none": (
        lambda: priors.hierarchical(over="layer", others=dist.Normal()),
        "`others` has no use",
    ),
    "a name that is a path": (lambda: priors.horseshoe(name="a.b"), "without '/' and '.'"),
    "a horseshoe over units": (lambda: priors.horseshoe(over="unit"), "'network', 'layer'"),
    "a gate on the positive reals": (
        lambda: priors.lstm_gates(forget=dist.HalfNormal(1.0)),
        "forget gate must be one of a single real number",
    ),
    "another factory": (lambda: priors.cold_posterior_bnn("he"), '"default" or "gaussian"'),
    "a sure sign": (lambda: priors.bernoulli_weights(1.0), "must be below 1"),
    "Jeffreys and ReLU": (
        lambda: priors.jeffreys(np.eye(3), activation="relu"),
        r"activations \['tanh', 'sigmoid'\]",
    ),
    "constraints on a table": (lambda: priors.constrained(priors.horseshoe()), "a distribution or"),
    "a depth without blocks": (lambda: priors.residual_blocks(10), "must be 6n"),
}


@pytest.mark.parametrize("bad", MADE)
def test_what_cannot_be_meant_is_refused_at_once(bad):
    make, sentence = MADE[bad]
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()


# Refused when the model runs, since only then the parameters are known. The network is
# MLP((4,), outputs=1) on three inputs.
FITTED = {
    "improper": (FLAT, "`Dense_0.bias` is improper"),
    "improper, by function": (lambda name, shape: FLAT, "is improper"),
    "discrete": (dist.Bernoulli(0.5), "is discrete .* `priors.bernoulli_weights"),
    "of one sign": (dist.HalfNormal(1.0), r"the support .* `priors.constrained"),
    "in an interval": (dist.Uniform(-1.0, 1.0), "could not take all real values"),
    "of a negative scale": (lambda name, shape: dist.Normal(0.0, -1.0), "invalid scale parameter"),
    "of an infinite scale": (dist.Normal(0.0, np.inf), "scale = inf: it is improper"),
    "with NaN": (lambda name, shape: dist.Normal(np.nan, 1.0), "invalid loc parameter"),
    "a covariance that is not definite": (
        lambda name, shape: dist.MultivariateNormal(np.zeros(2), np.diag([1.0, -1.0])),
        "invalid covariance_matrix parameter",
    ),
    "another event": (dist.MultivariateNormal(np.zeros(2), np.eye(2)), r"event_shape \(2,\), but"),
    "another batch": (dist.Normal(np.zeros(7), 1.0), r"batch_shape \(7,\)"),
    "a covariance of another size": (priors.multivariate_normal(np.eye(5)), "but `Dense_0.bias`"),
    "a covariance by function that is not definite": (
        {"Dense_0.bias": priors.multivariate_normal(lambda n, s: -np.eye(4)), "*": dist.Normal()},
        "covariance of `Dense_0.bias` is not positive definite",
    ),
    "Kronecker for a bias": (priors.kronecker_normal(np.eye(3)), "needs a parameter with two axes"),
    "Kronecker of another size": (
        {"*.bias": dist.Normal(), "*": priors.kronecker_normal(column=np.eye(3))},
        r"column covariance is 3 × 3, but `Dense_0.kernel` of shape \(3, 4\) needs 4 × 4",
    ),
    "joint over too few": (priors.joint_normal(np.eye(20)), "20 × 20, but the parameters hold 21"),
    "gates of no LSTM": (priors.lstm_gates(), r"is not a parameter of an `nn.LSTM`"),
    "a pattern that matches nothing": (
        {"Dense_9.*": dist.Normal(), "*": dist.Normal()},
        "`Dense_9.[*]` matches no parameter",
    ),
    "a pattern that another shadows": (
        {"*": dist.Normal(), "*.bias": dist.Normal()},
        "the first match counts",
    ),
    "a table with a gap": ({"*.kernel": priors.horseshoe()}, "`Dense_0.bias` .* has no prior"),
    "a table in a table with a gap": (
        {"*.kernel": dist.Normal(), "*": priors.by_name({"Dense_0.*": priors.hierarchical()})},
        "`Dense_1.bias` .* has no prior",
    ),
    "two scales of one name": (
        {
            "*.bias": priors.hierarchical(over="network"),
            "*": priors.hierarchical(dist.HalfCauchy(1.0), over="network"),
        },
        r"`[*].bias` and `[*]` both sample a site `prior_scale`. Give one of them another `name=`",
    ),
    "a parameter in no group": (priors.hierarchical(over={"first": "Dense_0.*"}), "`Dense_1.bias`"),
    "a group without parameters": (
        priors.hierarchical(over={"all": "*", "none": "Conv_*"}),
        "group `none` of `over`, Conv_[*], has no parameter",
    ),
    "Jeffreys for few inputs": (priors.jeffreys(np.eye(3)), "at least as many inputs as weights"),
    "Jeffreys for other inputs": (priors.jeffreys(np.ones((50, 2))), "one hidden layer and one"),
    "no distribution": (lambda name, shape: 1.0, "must be a NumPyro distribution"),
}


@pytest.mark.parametrize("bad", FITTED)
def test_what_does_not_fit_the_parameters_is_refused_before_anything_is_compiled(bad):
    prior, sentence = FITTED[bad]
    with pytest.raises((TypeError, ValueError), match=sentence):
        shapes_of(prior)


def test_what_does_not_fit_other_networks_is_refused():
    x = np.ones((80, 3))
    with pytest.raises(ValueError, match="one hidden layer and one output"):
        shapes_of(priors.jeffreys(x), Everything(), IMAGES)
    with pytest.raises(ValueError, match="cannot be divided into 3 groups"):
        shapes_of(priors.hierarchical(over="filter_group", groups=3), Everything(), IMAGES)


def test_a_wrong_setting_that_the_model_computes_is_left_to_the_sampler():
    def traced(name, shape):
        scale = numpyro.sample(f"{name}.scale", dist.HalfNormal(1.0))
        return dist.Normal(0.0, scale)

    assert "Dense_0.kernel.scale" in shapes_of(traced)
