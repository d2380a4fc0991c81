"""`calibrate` passes right samplers, and finds the bias of MCLMC, on seven coefficients."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn

pytestmark = pytest.mark.check

WEIGHTS, ROWS = 6, 10
X = np.random.default_rng(0).normal(size=(ROWS, WEIGHTS)).astype(np.float32)
FEW = {"replications": 100, "seed": 1, "progress": False}


def linear(*, prior=1.0, noise=1.0):
    """A conjugate model in which the prior matters: 7 coefficients and 10 rows."""

    def model(x, y=None, *, batch_size=None):
        weights = numpyro.sample("w", dist.Normal(0, prior).expand([WEIGHTS]).to_event(1))
        bias = numpyro.sample("b", dist.Normal(0, prior))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(x @ weights + bias, noise), obs=y)

    return model


TRUTH = linear()


def status_of(found, name):
    return next(q.status for q in found.quantities if q.name == name)


@pytest.mark.parametrize(
    "method",
    [
        lambda: NUTS(TRUTH),
        lambda: bnn.kernels.HMC(TRUTH, num_leapfrogs=8, jitter=0.5, mass="diagonal"),
        lambda: bnn.kernels.ChEES(TRUTH),
    ],
    ids=["NUTS", "HMC", "ChEES"],
)
def test_right_samplers_pass(method):
    found = bnn.calibrate(method(), TRUTH, X, **FEW)
    assert found.calibrated, found
    assert found.replications == 100 and found.failed == 0
    # Function values, the weights of a linear model, and three densities.
    assert {"f at probe 0", "b", "w[0]", "log likelihood", "log joint"} <= set(found.ranks)
    assert all(q.test is not None for q in found.quantities)


def test_the_bias_of_mclmc_is_found():
    """By the log joint, on which the small biases of all coefficients add up."""
    found = bnn.calibrate(
        bnn.kernels.MCLMC(TRUTH),
        TRUTH,
        X,
        warmup=500,
        draws=300,
        replications=200,
        seed=1,
        progress=False,
    )
    assert found.status == "too narrow" and status_of(found, "log joint") == "too narrow"
