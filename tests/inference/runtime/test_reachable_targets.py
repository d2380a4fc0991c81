"""Targets in units that the prior does not reach are said before anything is drawn."""

import warnings

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesnn_ppl as bnn

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 3)).astype(np.float32)
PRICES = (243 + 40 * X[:, 0] + GENERATOR.normal(size=60)).astype(np.float32)
NETWORK = bnn.models.mlp(hidden=(4,))


def sampled(model, y):
    kernel = bnn.kernels.RandomWalk(model)
    bnn.sample(kernel, X, y, warmup=2, draws=4, chains=2, progress=False)


@pytest.mark.parametrize("verb", ["sample", "fit"])
def test_raw_targets_are_named_with_the_way_out(verb):
    with pytest.warns(UserWarning, match=r"0 % of `y` \(mean 236.1, .*from_arrays") as found:
        if verb == "sample":
            sampled(NETWORK, PRICES)
        else:
            bnn.fit(bnn.approximations.MAP(NETWORK, epochs=1), X, PRICES, progress=False)
    assert found[0].filename == __file__  # where the user called


def intercept(x, y=None):
    """A prior that reaches the prices."""
    level = numpyro.sample("level", dist.Normal(200.0, 100.0))
    scale = numpyro.sample("scale", dist.HalfNormal(50.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(level + x[:, 0], scale), obs=y)


class Undrawn(dist.Normal):
    """A density alone."""

    def sample(self, key, sample_shape=()):
        raise NotImplementedError


def undrawn(x, y=None):
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", Undrawn(level + x[:, 0], 40.0), obs=y)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (NETWORK, bnn.data.from_arrays(X, PRICES, test_fraction=0).train.y),
        (intercept, PRICES),
        (undrawn, PRICES),
    ],
    ids=["standardised", "a prior that reaches", "not to be drawn"],
)
def test_others_are_not(model, y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sampled(model, y)
    assert not [warning for warning in found if "hardly reaches" in str(warning.message)]
