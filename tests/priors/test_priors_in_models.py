"""Priors in models: gradients on all kinds of layers, tables, samplers, prior predictive."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive

import bayesnn_ppl as bnn
from bayesnn_ppl import priors
from bayesnn_ppl.modeling.contract import inspect_model
from tests.priors.prior_checks import MLP, NNX, ROWS, shapes_of, trace_of


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


Y = np.sin(3 * ROWS[:, 0]).astype(np.float32)


def model_of(prior, network=MLP):
    return bnn.bayesian_network(network, prior, bnn.likelihoods.gaussian(0.3))


def test_weights_under_another_name_count_as_weights():
    summary = inspect_model(model_of(priors.joint_normal(np.eye(21))), ROWS, Y)
    assert summary.parameters == {"net/weights"}
    summary = inspect_model(model_of(priors.hierarchical(over="network")), ROWS, Y)
    assert set(summary.latents) - summary.parameters == {"net/prior_scale"}


def test_the_prior_predictive_of_a_hierarchy_is_spread_as_its_scales_are():
    """One weight: its variance over draws is E τ² = 1 of the half-normal."""
    prior = priors.hierarchical(over="network")
    model = model_of(prior, bnn.nn.MLP((), outputs=1))
    draws = Predictive(model, num_samples=4000)(jax.random.key(0), ROWS)
    weight = np.asarray(draws["net/Dense_0.bias"][:, 0], float)
    # E w² = E τ² = 1 and E w⁴ = 3 E τ⁴ = 9, so that w² has variance 8.
    assert abs(np.mean(weight**2) - 1) < 6 * (8 / 4000) ** 0.5
    assert draws["y"].shape == (4000, 5)
