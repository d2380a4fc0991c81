"""Priors in programs: gradients on all kinds of layers, tables, samplers, prior predictive."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import NUTS, Predictive
from numpyro.infer.util import log_density

import bayesnn_ppl as bnn
from bayesnn_ppl import priors
from bayesnn_ppl.modeling.contract import inspect_model
from bayesnn_ppl.priors.common.fitting import distribution_of
from tests.priors.laws import IMAGES, MLP, NNX, ROWS, Everything, shapes_of, trace_of


def identity(name, shape):
    return np.eye(int(np.prod(shape))) + 0.1


SHAPES = {
    name: shape for name, (_, shape) in shapes_of(dist.Normal(), Everything(), IMAGES).items()
}
KERNELS = [name for name, shape in SHAPES.items() if len(shape) > 1]
WEIGHT_BY_WEIGHT = {  # and on which parameters
    "laplace": (priors.laplace(fan_in=True), SHAPES),
    "logistic": (priors.logistic(), SHAPES),
    "student_t": (priors.student_t(3.0), SHAPES),
    "cauchy": (priors.cauchy(), SHAPES),
    "generalised_normal": (priors.generalised_normal(1.5), SHAPES),
    "normal_mixture": (priors.normal_mixture((0.3, 0.7), (1.0, 0.1)), SHAPES),
    "spike_and_slab": (priors.spike_and_slab(), SHAPES),
    "he_normal": (priors.he_normal(), SHAPES),
    "glorot_normal": (priors.glorot_normal(), SHAPES),
    "multivariate_normal": (priors.multivariate_normal(identity), SHAPES),
    "kronecker_normal": (priors.kronecker_normal(column=np.eye(2)), ["Conv_0.kernel"]),
    "correlated_filters": (priors.correlated_filters(), SHAPES),
    "lstm_gates": (
        priors.lstm_gates(forget=dist.Normal(1.0, 0.5)),
        ["LSTM_0.kernel", "LSTM_0.bias"],
    ),
    "bnn_hmc": (priors.bnn_hmc(5), SHAPES),
    "cold_posterior_bnn": (priors.cold_posterior_bnn(), SHAPES),
    "constrained": (priors.constrained(dist.HalfNormal(1.0)), SHAPES),
}


def numbers(shape):
    """Between 0 and 1, and so in every support."""
    return np.abs(np.sin(1.0 + np.arange(np.prod(shape)))).reshape(shape)


def compiled(function, values):
    """Compiled without optimisation: it runs once."""
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(function).lower(values).compile(compiler_options=options)(values)


def test_priors_have_finite_gradients_on_convolutions_lstms_dense_layers_and_biases():
    assert len(SHAPES) == 8 and len(KERNELS) == 4

    def log_p(values):
        return sum(
            jnp.sum(distribution_of(prior, name, SHAPES[name]).log_prob(values[kind][name]))
            for kind, (prior, names) in WEIGHT_BY_WEIGHT.items()
            for name in names
        )

    values = {
        kind: {name: numbers(SHAPES[name]) for name in names}
        for kind, (_, names) in WEIGHT_BY_WEIGHT.items()
    }
    for kind, slopes in compiled(jax.grad(log_p), values).items():
        for name, slope in slopes.items():
            assert slope.shape == SHAPES[name], (kind, name)
            assert np.isfinite(slope).all() and np.any(slope != 0), (kind, name)


TOGETHER = {
    "joint_normal": priors.joint_normal(
        lambda shapes: np.eye(sum(int(np.prod(s)) for s in shapes.values()))
    ),
    "hierarchical": priors.hierarchical(dist.LogNormal(0.0, 0.5), over="layer"),
    "filter groups": priors.hierarchical(priors.inverse_gamma_scale(2.0, 2.0), over="filter_group"),
    "regularised_horseshoe": priors.regularised_horseshoe(over="network", fan_in=True),
    "relaxed bernoulli_weights": priors.bernoulli_weights(relaxed_temperature=0.5),
    "table": {
        "LSTM_0.*": priors.lstm_gates(forget=dist.Normal(1.0, 0.5), fan_in=True),
        "Conv_0.kernel": priors.correlated_filters(),
        "Dense_0.*": priors.hierarchical(dist.HalfCauchy(1.0), over="unit", centred=True),
        "*": priors.horseshoe(),
    },
}


@pytest.mark.parametrize("name", TOGETHER)
def test_priors_over_several_parameters_have_finite_gradients_through_a_network(name):
    prior, network = TOGETHER[name], Everything()

    def program(x):
        net = bnn.random_network("net", network, prior, x[:1])
        numpyro.factor("f", jnp.sum(net(x) ** 2))

    sites = shapes_of(prior, network, IMAGES)
    assert set(SHAPES) <= set(sites)  # every parameter has a site of its name
    values = {
        f"net/{site}": numbers(shape) for site, (kind, shape) in sites.items() if kind == "sample"
    }
    gradient = jax.grad(lambda z: log_density(program, (IMAGES,), {}, z)[0])
    for site, slope in compiled(gradient, values).items():
        assert slope.shape == values[site].shape, site
        assert np.isfinite(slope).all() and np.any(slope != 0), site


def test_a_table_holds_network_priors_and_others_for_linen_and_nnx():
    table = {
        "Dense_0.kernel": priors.hierarchical(dist.HalfCauchy(1.0), over="input"),
        "*.bias": priors.joint_normal(np.eye(5)),
        "*": priors.laplace(),
    }
    expected = {
        "Dense_0.kernel.prior_scale": ("sample", (3,)),
        "Dense_0.kernel_base": ("sample", (3, 4)),
        "Dense_0.kernel": ("deterministic", (3, 4)),
        "weights": ("sample", (5,)),
        "Dense_0.bias": ("deterministic", (4,)),
        "Dense_1.bias": ("deterministic", (1,)),
        "Dense_1.kernel": ("sample", (4, 1)),
    }
    assert shapes_of(table) == expected
    assert shapes_of(table, NNX()) == expected
    # In a table of tables, and with a name of its own for a scale that would meet another.
    nested = {
        "Dense_0.*": priors.by_name(
            {"*.bias": priors.hierarchical(over="network"), "*": priors.normal()}
        ),
        "*": priors.hierarchical(over="network", name="last_scale", centred=True),
    }
    assert set(shapes_of(nested)) == {
        "prior_scale",
        "Dense_0.bias_base",
        "Dense_0.bias",
        "Dense_0.kernel",
        "last_scale",
        "Dense_1.bias",
        "Dense_1.kernel",
    }


def test_numpyros_own_function_cannot_sample_a_network_prior():
    table = priors.by_name({"*": priors.horseshoe()})
    with pytest.raises(TypeError, match="use `bayesnn_ppl.random_network`"):
        table("Dense_0.kernel", (3, 4))


def test_a_joint_normal_lays_the_weights_out_in_the_order_of_the_names():
    order = []

    def covariance(shapes):
        order.extend(shapes)
        return np.diag(np.arange(1.0, 22.0) ** 2)

    trace = trace_of(priors.joint_normal(covariance))
    assert order == ["Dense_0.bias", "Dense_0.kernel", "Dense_1.bias", "Dense_1.kernel"]
    flat = np.concatenate([np.ravel(trace[f"net/{n}"]["value"]) for n in order])
    np.testing.assert_array_equal(flat, trace["net/weights"]["value"])
    variances = np.diag(trace["net/weights"]["fn"].covariance_matrix)
    np.testing.assert_allclose(variances, np.arange(1, 22) ** 2, rtol=1e-5)


@pytest.mark.parametrize("prior", [priors.joint_normal, priors.multivariate_normal])
def test_a_covariance_that_was_checked_is_not_checked_again(prior, covariance_checks):
    """NumPyro would, by small programs that are compiled for each size."""
    table = {"*.kernel": prior(np.eye(6)), "*.bias": priors.normal(1.0)}
    found = shapes_of(table, bnn.nn.MLP((), outputs=2))
    assert found["Dense_0.kernel"][1] == (3, 2)
    assert covariance_checks() == 0
    dist.MultivariateNormal(np.zeros(2), scale_tril=np.eye(2))
    assert covariance_checks() == 1


Y = np.sin(3 * ROWS[:, 0]).astype(np.float32)


def model_of(prior, network=MLP):
    return bnn.bayesian_network(network, prior, bnn.likelihoods.gaussian(0.3))


def test_weights_under_another_name_count_as_weights():
    summary = inspect_model(model_of(priors.joint_normal(np.eye(21))), ROWS, Y)
    assert summary.parameters == {"net/weights"}
    summary = inspect_model(model_of(priors.hierarchical(over="network")), ROWS, Y)
    assert set(summary.latents) - summary.parameters == {"net/prior_scale"}


SAMPLED = {  # a covering set: not centred and centred, and deterministic parameters
    "NUTS": (
        NUTS,
        {
            "Dense_0.kernel": priors.hierarchical(dist.HalfCauchy(1.0), over="input"),
            "*": priors.laplace(),
        },
    ),
    "SGLD": (
        lambda model: bnn.kernels.SGLD(model, step_size=1e-4, batch_size=3),
        {"*.kernel": priors.hierarchical(over="network", centred=True), "*": priors.logistic()},
    ),
    "SGHMC": (
        lambda model: bnn.kernels.SGHMC(model, step_size=1e-4, batch_size=3, momentum_decay=0.9),
        priors.joint_normal(np.eye(21) + 0.1),
    ),
}


@pytest.mark.parametrize("case", SAMPLED)
def test_samplers_run_and_the_posterior_has_the_parameters_by_name(case):
    kernel, prior = SAMPLED[case]
    posterior = bnn.sample(
        kernel(model_of(prior)), ROWS, Y, warmup=20, draws=20, chains=1, progress=False
    )
    assert posterior.draws["net.Dense_0.kernel"].shape == (1, 20, 3, 4)
    assert all(np.isfinite(values).all() for values in posterior.draws.values())
    # Predictions substitute the latent sites and compute the others anew.
    assert np.isfinite(posterior.predict(ROWS).mean).all()


def test_the_prior_predictive_of_a_hierarchy_is_spread_as_its_scales_are():
    """One weight: its variance over draws is E τ² = 1 of the half-normal."""
    prior = priors.hierarchical(over="network")
    model = model_of(prior, bnn.nn.MLP((), outputs=1))
    draws = Predictive(model, num_samples=4000)(jax.random.key(0), ROWS)
    weight = np.asarray(draws["net/Dense_0.bias"][:, 0], float)
    # E w² = E τ² = 1 and E w⁴ = 3 E τ⁴ = 9, so that w² has variance 8.
    assert abs(np.mean(weight**2) - 1) < 6 * (8 / 4000) ** 0.5
    assert draws["y"].shape == (4000, 5)
