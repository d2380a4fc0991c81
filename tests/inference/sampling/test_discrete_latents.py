"""Weights of ±1 under `sample`: against the exact posterior, their starts, and what is refused."""

import itertools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import linen
from numpyro.infer import HMC, NUTS, DiscreteHMCGibbs, MixedHMC, init_to_median
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk

SHORT = dict(chains=4, seed=0, progress=False)
BITS = ["net.Dense_0.kernel_bit", "net.Dense_1.kernel_bit"]
PROBABILITY, BIAS, NOISE = 0.3, 0.7, 0.8


class Network(linen.Module):
    """Two tanh units without biases, of which the exact posterior would need integrals."""

    @linen.compact
    def __call__(self, x):
        hidden = jnp.tanh(linen.Dense(2, use_bias=False)(x))
        return linen.Dense(1)(hidden)


def binary(probability=PROBABILITY):
    table = {"*.kernel": bnn.priors.bernoulli_weights(probability), "*": dist.Normal(0, BIAS)}
    return bnn.bayesian_network(Network(), table, bnn.likelihoods.gaussian(NOISE))


X = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
Y = (np.tanh(X[:, 0] - X[:, 1]) + 0.3 * X[:, 0]).astype(np.float32)
PATTERNS = np.array(list(itertools.product([0, 1], repeat=6)))
KERNELS = {
    "Gibbs": lambda model: DiscreteHMCGibbs(HMC(model, num_steps=3, trajectory_length=None)),
    "mixed": lambda model: MixedHMC(HMC(model, trajectory_length=1.0)),
}


def outputs(pattern, x):
    """The network without its bias, for bits in the order of the variables' names."""
    w = 2.0 * pattern - 1
    return np.tanh(x @ w[:4].reshape(2, 2)) @ w[4:]


def exact(probability=PROBABILITY):
    """Of all 64 patterns, the output's bias integrated out."""
    covariance = NOISE**2 * np.eye(len(Y)) + BIAS**2
    log_p = [
        stats.multivariate_normal(outputs(bits, X), covariance).logpdf(Y)
        + stats.bernoulli(probability).logpmf(bits).sum()
        for bits in PATTERNS
    ]
    return np.exp(log_p - np.logaddexp.reduce(log_p))


def errors(posterior, probabilities):
    """How far the shares of the patterns are from `probabilities`, in standard errors."""
    draws = [posterior.draws[name] for name in BITS]
    bits = np.concatenate([d.reshape(*d.shape[:2], -1) for d in draws], axis=2)
    index = bits @ 2 ** np.arange(5, -1, -1)
    hits = (index[..., None] == np.arange(64)).astype(float)
    hits = hits[..., probabilities > 0.01]  # of the others too few are seen for an error
    p = probabilities[probabilities > 0.01]
    # A pattern that was never seen is a constant, without a sample size of its own.
    ess = np.nan_to_num(np.asarray(ess_bulk(hits)), nan=1000.0)
    return (hits.mean(axis=(0, 1)) - p) / np.sqrt(p * (1 - p) / ess), ess.min()


@pytest.fixture(scope="module", params=KERNELS)
def sampled(request):
    kernel = KERNELS[request.param](binary())
    return kernel, bnn.sample(kernel, X, Y, warmup=200, draws=3000, **SHORT)


def test_bits_have_the_exact_posterior(sampled):
    _, posterior = sampled
    found, ess = errors(posterior, exact())
    assert ess > 300 and len(found) >= 10 and np.abs(found).max() < 4.5
    # What must not pass: the prior, and the posterior under another prior.
    prior = stats.bernoulli(PROBABILITY).pmf(PATTERNS).prod(axis=1)
    assert np.abs(errors(posterior, prior)[0]).max() > 10
    assert np.abs(errors(posterior, exact(0.45))[0]).max() > 10


def test_predictions_are_the_exact_mean(sampled):
    """Bits, weights and bias of a draw belong together, which shares alone would not show."""
    _, posterior = sampled
    x = np.linspace(-1, 1, 8).reshape(4, 2).astype(np.float32)
    bias = [  # E[bias | pattern, data]
        BIAS**2 * (Y - outputs(bits, X)).sum() / (NOISE**2 + len(Y) * BIAS**2) for bits in PATTERNS
    ]
    functions = np.array([outputs(bits, x) for bits in PATTERNS]) + np.array(bias)[:, None]
    values = posterior.function_values(x)["mean"]
    error = values.std(axis=(0, 1)) / np.sqrt(np.asarray(ess_bulk(values)))
    assert np.abs(values.mean(axis=(0, 1)) - exact() @ functions).max() < 4.5 * error.max()
    np.testing.assert_array_equal(
        posterior.draws["net.Dense_1.kernel"], 2.0 * posterior.draws[BITS[1]] - 1
    )
    assert np.ptp(posterior.draws["net.Dense_1.bias"]) > 0.5
    assert {"acceptance_rate", "diverging", "lp"} <= set(posterior.statistics)
    assert posterior.provenance["kernel_settings"]["inner_kernel"]["target_accept_prob"] == 0.8


def test_bits_start_at_draws_from_the_prior_or_where_they_are_told(sampled):
    kernel, _ = sampled
    run = dict(warmup=200, draws=1, progress=False, chains=4)
    starts = [
        bnn.sample(kernel, X, Y, **run, seed=s).tree["starts"].to_dataset() for s in range(60)
    ]
    bits = np.concatenate([np.ravel(start[name].values) for start in starts for name in BITS])
    assert abs(bits.mean() - PROBABILITY) < 4.5 * np.sqrt(0.21 / bits.size) and bits.size == 1440
    given = {"net/Dense_0.kernel_bit": np.arange(16).reshape(4, 2, 2) % 3 % 2}
    start = bnn.sample(kernel, X, Y, **run, init=given).tree["starts"]
    np.testing.assert_array_equal(start[BITS[0]].values, given["net/Dense_0.kernel_bit"])
    with pytest.raises(ValueError, match=r"`net.Dense_1.kernel_bit` other than 0 … 1"):
        bnn.sample(kernel, X, Y, **run, init={BITS[1]: np.full((2, 1), -1.0)})


def test_a_run_on_disk_resumes_bit_for_bit(sampled, tmp_path):
    kernel, _ = sampled
    whole = bnn.sample(kernel, X, Y, warmup=200, draws=30, **SHORT)
    bnn.sample(kernel, X, Y, warmup=200, draws=20, out=tmp_path / "run", **SHORT)
    found = bnn.extend(tmp_path / "run", kernel, X, Y, draws=10, progress=False)
    for name in whole.draws:
        np.testing.assert_array_equal(found.draws[name], whole.draws[name])
    with pytest.raises(ValueError, match="other settings of the kernel"):
        other = type(kernel)(HMC(binary(), num_steps=4, trajectory_length=None))
        bnn.extend(tmp_path / "run", other, X, Y, draws=10, progress=False)


def with_site(fn):
    def model(x, y=None, *, batch_size=None):
        z = numpyro.sample("z", fn)
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("data", x.shape[0]):
            numpyro.sample("y", dist.Normal(slope * x[:, 0] + jnp.sum(z), 1.0), obs=y)

    return model


CATEGORICAL = with_site(dist.Categorical(jnp.array([0.2, 0.3, 0.5])))


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (dist.Poisson(2.0), "`z`, Poisson with event_shape"),
        (dist.DiscreteUniform(1, 3), "`z`, DiscreteUniform .* 0, 1, ..., K - 1"),
        (dist.Bernoulli(0.5).expand((3,)).to_event(1), r"`z`, .* event_shape \(3,\)"),
        (dist.Multinomial(3, jnp.ones(2) / 2), r"Multinomial\w* with event_shape \(2,\)"),
    ],
)
def test_sites_that_the_samplers_would_get_wrong_are_refused(fn, words, compilations):
    before = compilations()
    with pytest.raises(ValueError, match=words):
        bnn.sample(DiscreteHMCGibbs(NUTS(with_site(fn))), X, Y, warmup=1, draws=1, **SHORT)
    assert compilations() == before


@pytest.mark.parametrize(
    "kernel", [NUTS, bnn.kernels.MALA, lambda m: bnn.kernels.SGLD(m, step_size=1e-4, batch_size=4)]
)
def test_kernels_that_follow_gradients_are_refused(kernel):
    with pytest.raises(ValueError, match=r"\['z'\] are discrete.*DiscreteHMCGibbs\(NUTS\(model\)"):
        bnn.sample(kernel(CATEGORICAL), X, Y, warmup=1, draws=1, **SHORT)


def test_without_discrete_sites_the_kernel_itself_says_so():
    kernel = DiscreteHMCGibbs(NUTS(bnn.models.linear()))
    with pytest.raises(ValueError, match="DiscreteHMCGibbs refuses this run"):
        bnn.sample(kernel, X, Y, warmup=1, draws=1, **SHORT)


def test_more_than_two_values_and_a_strategy_for_the_rest():
    kernel = DiscreteHMCGibbs(NUTS(CATEGORICAL, init_strategy=init_to_median()))
    posterior = bnn.sample(kernel, X, Y, warmup=100, draws=1500, float64=True, **SHORT)
    log_p = [
        stats.multivariate_normal(np.full(12, k), np.eye(12) + np.outer(X[:, 0], X[:, 0])).logpdf(Y)
        + np.log(p)
        for k, p in enumerate((0.2, 0.3, 0.5))
    ]
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    hits = (posterior.draws["z"][..., None] == np.arange(3)).astype(float)
    error = np.sqrt(p * (1 - p) / np.asarray(ess_bulk(hits)))
    assert np.abs((hits.mean(axis=(0, 1)) - p) / error).max() < 4.5
    assert np.abs((hits.mean(axis=(0, 1)) - [0.2, 0.3, 0.5]) / error).max() > 10
