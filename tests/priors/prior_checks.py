"""Models and checks that the tests of priors share."""

import jax
import numpy as np
from flax import linen, nnx
from numpyro import handlers
from scipy import stats

import bayesnn_ppl as bnn

SMALLEST_P = 1e-8  # of a test that must pass; of all tests together one in 1e6 fails by chance


class Everything(linen.Module):
    """A convolution, an LSTM and two dense layers, in 60 weights: (N, 3, 3, 1) to (N, 1)."""

    @linen.compact
    def __call__(self, x):
        x = bnn.nn.Conv(2, (2, 2))(x)
        x = bnn.nn.LSTM(2)(x.reshape(len(x), 3, -1))[:, -1]
        return linen.Dense(1)(jax.nn.relu(linen.Dense(2)(x)))


class NNX(nnx.Module):
    """As `MLP((4,), outputs=1)` on three inputs, with the same names."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.Dense_0, self.Dense_1 = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        return self.Dense_1(jax.nn.tanh(self.Dense_0(x)))


MLP = bnn.nn.MLP((4,), outputs=1)  # kernels (3, 4), (4, 1); biases (4,), (1,)
ROWS = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
IMAGES = np.linspace(-1, 1, 18, dtype=np.float32).reshape(2, 3, 3, 1)


def trace_of(prior, network=MLP, x=ROWS, seed=0):
    """The sites of a network under a prior, sampled once."""

    def model(x):
        bnn.random_network("net", network, prior, x)

    return handlers.trace(handlers.seed(model, jax.random.key(seed))).get_trace(x)


def shapes_of(prior, network=MLP, x=ROWS):
    """Latent and deterministic sites -> shape, without computing anything."""
    found = {}

    def run(x):
        for name, site in trace_of(prior, network, x).items():
            weights = site["type"] == "sample" and not site["is_observed"]
            if weights or site["type"] == "deterministic":
                found[name.removeprefix("net/")] = (site["type"], tuple(site["value"].shape))

    jax.eval_shape(run, x)
    return found


def ks_p_value(draws, cdf):
    """The p-value of a Kolmogorov-Smirnov test."""
    return stats.ks_1samp(np.ravel(draws).astype(float), cdf, method="asymp").pvalue


def largest_z(draws, covariance):
    """How far the covariance of draws (n, d) of mean zero is from Σ, in standard errors."""
    draws = np.asarray(draws, dtype=float)
    found = draws.T @ draws / len(draws)
    variances = np.diag(covariance)
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / len(draws))
    return float(np.max(np.abs(found - covariance) / error))
