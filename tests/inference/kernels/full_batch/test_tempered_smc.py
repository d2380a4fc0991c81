"""Sequential Monte Carlo: evidence and moments that are known, its parts, and what it refuses."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels import TemperedSMC
from bayesnn_ppl.inference.kernels.common import tempering
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.sampling import traced_functions
from tests.inference.kernels.invariance import X as X6
from tests.inference.kernels.invariance import Y as Y6
from tests.inference.kernels.invariance import (
    largest,
    model,
    posterior_draws,
    transitions,
    z_scores,
)
from tests.inference.kernels.known_moments import LINEAR, NOISE, closed_form, coefficients

QUIET = dict(chains=512, seed=0, progress=False)


def known_evidence(x, y, temperature=1.0):
    """log ∫ N(y; Xw + b, σ²)^{1/T} dN(w, b; 0, I), in closed form."""
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)
    covariance = temperature * NOISE**2 * np.eye(len(y)) + phi @ phi.T
    # N(y; f, σ²)^{1/T} = N(y; f, Tσ²) times a factor.
    factor = 0.5 * (1 - 1 / temperature) * np.log(2 * np.pi * NOISE**2) + 0.5 * np.log(temperature)
    return stats.multivariate_normal(cov=covariance).logpdf(y) + len(y) * factor


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_evidence_and_moments_of_a_linear_model(regression, temperature, monkeypatch):
    x, y = regression
    kernel = TemperedSMC(bnn.models.linear(
        likelihood=bnn.likelihoods.gaussian(NOISE), temperature=temperature
    ))  # fmt: skip
    posterior = bnn.sample(kernel, x, y, warmup=25, draws=10, **QUIET)
    found = bnn.metrics.log_evidence(posterior)
    exact = known_evidence(x, y, temperature)
    assert found.error < 0.2 and found.effective_share > 0.45
    assert abs(found.value - exact) < 4 * found.error
    mean, covariance = closed_form(x, y, likelihood_temperature=temperature)
    theta = coefficients(posterior)
    # Of 4 runs with as many particles as there are.
    error = np.sqrt(np.diag(covariance) / 512)
    assert np.abs((theta.mean(axis=(0, 1)) - mean) / error).max() < 4
    assert np.abs(theta.var(axis=(0, 1)) / np.diag(covariance) - 1).max() < 0.15
    if temperature == 1.0:  # moves that leave the posterior invariant at every stage are wrong
        monkeypatch.setattr(tempering.TemperedLikelihood, "terms", Density.terms)
        monkeypatch.setattr(
            tempering.TemperedLikelihood, "log_likelihood",
            lambda self, terms, vector: sum(
                jnp.sum(terms[name]) for name in self._of_likelihood(terms, vector)
            ),
        )  # fmt: skip
        wrong = bnn.sample(TemperedSMC(LINEAR, moves=2), x, y, warmup=26, draws=4, **QUIET)
        assert abs(bnn.metrics.log_evidence(wrong).value - exact) > 1


def square(x, y=None, *, batch_size=None):
    """y ~ N(θ², 1) with θ ~ N(0.3, 1): two modes of unequal weight, and a valley of 18 nats."""
    theta = numpyro.sample("theta", dist.Normal(0.3, 1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(theta**2, 1.0), obs=y)


def test_modes_have_their_weights():
    y = np.full(9, 2.0, np.float32)
    x = np.zeros((9, 1), np.float32)
    grid = np.linspace(-5, 5, 20_001)
    log_joint = stats.norm.logpdf(grid, 0.3) + 9 * stats.norm.logpdf(2.0, grid**2)
    density = np.exp(log_joint)
    share = density[grid > 0].sum() / density.sum()
    assert share > 0.65
    posterior = bnn.sample(TemperedSMC(square), x, y, warmup=30, draws=4, **QUIET)
    by_run = (posterior.draws["theta"] > 0).reshape(4, -1).mean(axis=1)
    error = by_run.std(ddof=1) / 2
    assert error < 0.06 and abs(by_run.mean() - share) < 4 * error
    found = bnn.metrics.log_evidence(posterior)
    exact = np.log(density.sum() * (grid[1] - grid[0]))
    assert found.error < 0.2 and abs(found.value - exact) < 4 * found.error


class Warm(TemperedSMC):
    """As after a warm-up, for starts that are draws from the posterior."""

    starts_from_prior = False

    def init(self, rng_key, num_warmup, *args):
        state = super().init(rng_key, 1, *args)
        self._num_warmup = 0
        ones = jnp.ones_like(state.run.step_size)
        scale = jnp.broadcast_to(jnp.array([0.5, 1.0, 0.8, 0.7]), state.run.scale.shape)
        return state._replace(
            run=state.run._replace(inverse_temperature=ones, step_size=0.3 * ones, scale=scale)
        )

    def bind(self, rng_key, num_warmup, *args):
        return super().bind(rng_key, 0, *args)


@pytest.mark.check
def test_it_leaves_the_posterior_unchanged():
    """And moves draws of a slightly wrong one."""
    starts = posterior_draws(16_000)
    end, moved = transitions(Warm(model), starts, draws=4)
    assert moved > 0.5
    assert largest(z_scores(starts, end)) < 4
    wrong = posterior_draws(16_000, seed=1, prior_sd=1.05)
    assert largest(z_scores(wrong, transitions(Warm(model), wrong, draws=4, seed=1)[0])) > 5


def test_a_short_warm_up_ends_at_the_posterior_and_says_what_it_cost(regression):
    posterior = bnn.sample(TemperedSMC(LINEAR), *regression, warmup=2, draws=40, **QUIET)
    found = bnn.metrics.log_evidence(posterior)
    assert found.effective_share < 0.1
    # The draws are of the posterior all the same: by then its chains have mixed.
    mean, covariance = closed_form(*regression)
    late = coefficients(posterior)[:, 20:].mean(axis=(0, 1))
    assert np.abs((late - mean) / np.sqrt(np.diag(covariance))).max() < 0.2


def test_each_device_has_particles_of_all_runs(regression, monkeypatch):
    """Devices take consecutive chains; one with the longest trajectories would be waited for."""
    over_chains, lengths = traced_functions.over_chains, []

    def recorded(settings, function):
        def call(points, given):
            if isinstance(given, tuple):  # of a trajectory
                jax.debug.callback(lambda a: lengths.append(np.asarray(a)), given[-1])
            return over_chains(settings, function)(points, given)

        return call

    monkeypatch.setattr(traced_functions, "over_chains", recorded)
    settings = QUIET | {"chains": 32, "chain_method": "vectorized"}
    posterior = bnn.sample(TemperedSMC(LINEAR, moves=4), *regression, warmup=9, draws=3, **settings)
    halves = np.sort(np.stack(lengths).reshape(len(lengths), 2, 16))
    np.testing.assert_array_equal(halves[:, 0], halves[:, 1])
    assert len(lengths) == 4 * 12 and (np.ptp(halves, axis=2) > 0).any()
    by_run = posterior.statistics["n_steps"].reshape(4, 8, 3)
    assert (np.ptp(by_run, axis=1) == 0).all() and (np.ptp(by_run, axis=0) > 0).any()


def test_runs_are_superchains_of_the_verdict(regression):
    keep = bnn.Keep(probe=regression[0])
    posterior = bnn.sample(
        TemperedSMC(LINEAR), *regression, warmup=20, draws=200, keep=keep,
        until=dict(function_rhat=1.02, ess=400), **QUIET,
    )  # fmt: skip
    assert posterior.provenance["superchains"] == 4
    assert posterior.provenance["ended"]["by"] == "convergence"
    verdict = posterior.diagnose(rhat_threshold=1.02)
    assert "nested R-hat below 1.02" in str(verdict)
    assert "4 superchains" in str(verdict)
    values = posterior.function_values()["mean"]
    nested = bnn.diagnostics.nested_rhat(values, np.repeat(np.arange(4), 128))
    assert verdict.functions["mean"]["rhat_max"] == pytest.approx(np.max(nested))


def test_the_next_temperature_leaves_the_share_that_is_wanted():
    log_likelihood = 1e4 * jax.random.normal(jax.random.key(0), (1000,)) - 3e5
    for beta in (0.0, 1e-3, 0.5):
        following = tempering.next_inverse_temperature(log_likelihood, jnp.float32(beta), 0.5)
        weights = jax.nn.softmax((following - beta) * log_likelihood)
        if beta < 0.1:  # where float32 resolves so small a step
            assert 1 / (1000 * jnp.sum(weights**2)) == pytest.approx(0.5, abs=0.02)
        assert beta <= following < beta + 0.01
    flat = jnp.linspace(0, 0.1, 1000)
    assert tempering.next_inverse_temperature(flat, jnp.float32(0.2), 0.5) == 1
    impossible = log_likelihood.at[:100].set(-jnp.inf)
    assert 0 < tempering.next_inverse_temperature(impossible, jnp.float32(0.0), 0.5) < 0.01


def test_systematic_resampling_takes_each_as_often_as_its_weight_says():
    weights = jax.nn.softmax(jax.random.normal(jax.random.key(1), (200,)))
    uniforms = jax.random.uniform(jax.random.key(2), (2000,))
    chosen = jax.vmap(lambda u: tempering.systematic(weights, u))(uniforms)
    counts = jax.vmap(lambda c: jnp.bincount(c, length=200))(chosen)
    assert jnp.abs(counts - 200 * weights).max() < 1.001
    error = counts.std(axis=0) / np.sqrt(2000)
    assert (jnp.abs(counts.mean(axis=0) - 200 * weights) < 5 * error + 1e-3).all()


def sampled(kernel, **settings):
    return bnn.sample(kernel, X6, Y6, **(dict(warmup=5, draws=2, chains=8) | settings))


@pytest.mark.parametrize(
    ("kernel", "settings", "words"),
    [
        (TemperedSMC(model), {"chains": 10}, "multiple of 4: 256, say, not 10"),
        (TemperedSMC(model), {"chains": 4}, "at least 2 particles"),
        (TemperedSMC(model), {"warmup": 0}, "goes from the prior to the posterior in the warm-up"),
        (TemperedSMC(model), {"init": {"w": 0.0}}, "Leave `init` out"),
        (TemperedSMC(model), {"superchains": 2}, "superchains of TemperedSMC are its runs"),
        (TemperedSMC(bnn.cold(LINEAR, 0.5)), {}, r"The prior of `net/.*` counts 2"),
    ],
)
def test_what_cannot_be_run_is_refused(kernel, settings, words):
    with pytest.raises(ValueError, match=words):
        sampled(kernel, **settings)


@pytest.mark.parametrize(("runs", "apart"), [([-5.0, -5.2, -4.9], False), ([385, 353, 363], True)])
def test_runs_that_are_far_apart_are_no_estimate(runs, apart):
    """Where one run decides, the error is 1 at most, however far the others are."""
    statistics = {
        "log_evidence": (("chain", "draw"), np.array(runs, float)[:, None]),
        "effective_share": (("chain", "draw"), np.full((3, 1), 0.5)),
    }
    tree = xr.DataTree.from_dict({"sample_stats": xr.Dataset(statistics)})
    found = bnn.metrics.log_evidence(SimpleNamespace(provenance={"superchains": 3}, tree=tree))
    assert found.error < 1.01
    assert ("between 353.00 and 385.00, too far apart" in str(found)) == apart


def test_evidence_of_another_method_is_refused(regression):
    posterior = bnn.sample(
        bnn.kernels.ChEES(LINEAR), *regression, warmup=5, draws=5, chains=2, progress=False
    )
    with pytest.raises(ValueError, match="ChEES does not estimate the evidence"):
        bnn.metrics.log_evidence(posterior)
