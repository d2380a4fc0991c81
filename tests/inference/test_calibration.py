"""Simulation-based calibration (Talts et al. 2018) of NUTS on a small MLP.

Draw θ* from the prior and y from the likelihood; under a right sampler the rank of a quantity
at θ* among its posterior draws is uniform. All replications share one compiled program.
"""

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer import NUTS
from scipy import stats

import bayesnn_ppl as bnn

REPLICATIONS, CHAINS, DRAWS, KEPT = 120, 2, 100, 19
X = np.random.default_rng(3).normal(size=(10, 1)).astype(np.float32)
PROBE = np.array([[0.3]], dtype=np.float32)
MODEL = bnn.models.mlp(hidden=(3,), likelihood=bnn.likelihoods.gaussian())


def function_value(values):
    """f(PROBE): unlike a weight, a hidden unit's relabelling leaves it alone."""
    hidden = np.tanh(
        PROBE @ values["net.Dense_0.kernel"] + values["net.Dense_0.bias"][..., None, :]
    )
    outputs = hidden @ values["net.Dense_1.kernel"] + values["net.Dense_1.bias"][..., None, :]
    return outputs[..., 0, 0]


@jax.jit
def simulate(key):
    trace = handlers.trace(handlers.seed(MODEL, key)).get_trace(X)
    return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}


def ranks(noise_of_the_world):
    """Ranks of three quantities over the replications, each in 0 … KEPT."""
    result = []
    for replication in range(REPLICATIONS):
        truth = {
            n.replace("/", "."): np.asarray(v)
            for n, v in simulate(jax.random.key(replication)).items()
        }
        noise = np.random.default_rng(replication).normal(size=len(X))
        mean = np.array([function_value_at(truth, x) for x in X])
        y = (mean + noise_of_the_world * truth["noise_scale"] * noise).astype(np.float32)
        posterior = bnn.sample(
            NUTS(MODEL, max_tree_depth=5),
            X,
            y,
            warmup=150,
            draws=DRAWS,
            chains=CHAINS,
            seed=replication,
            progress=False,
        )
        draws = posterior.draws
        quantities = {
            "noise": (draws["noise_scale"], truth["noise_scale"]),
            "function": (function_value(draws), function_value(truth)),
            "output_bias": (draws["net.Dense_1.bias"][..., 0], truth["net.Dense_1.bias"][0]),
        }
        row = []
        for values, true in quantities.values():
            # Thinned, so that the kept draws are nearly independent, as the ranks need.
            kept = values.reshape(-1)[:: CHAINS * DRAWS // KEPT][:KEPT]
            row.append(int(np.sum(kept < true)))
        result.append(row)
    return np.array(result)


def function_value_at(values, x):
    hidden = np.tanh(x @ values["net.Dense_0.kernel"] + values["net.Dense_0.bias"])
    return (hidden @ values["net.Dense_1.kernel"] + values["net.Dense_1.bias"])[0]


def p_values(rows):
    """χ² of five equal bins of the twenty possible ranks, per quantity."""
    return np.array(
        [stats.chisquare(np.bincount(column // 4, minlength=5)).pvalue for column in rows.T]
    )


# Data sets are the model's own, and of 1 in 50 its prior says so little.
@pytest.mark.filterwarnings("ignore:The model hardly reaches the targets")
def test_ranks_are_uniform_and_a_wrong_model_is_caught():
    assert p_values(ranks(noise_of_the_world=1.0)).min() > 1e-4
    # The negative control: the world is twice as noisy as the model believes possible.
    assert p_values(ranks(noise_of_the_world=2.0))[0] < 1e-6
