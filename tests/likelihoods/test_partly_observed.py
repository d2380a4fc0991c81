"""Censored, truncated, masked and bare distributions of `"y"`: predicted, diagnosed and scored."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints, transforms
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.core.predictions import scored_rows
from bayesnn_ppl.data.common.target import StandardisedTarget
from bayesnn_ppl.inference.runtime.keep import Probe
from bayesnn_ppl.inference.runtime.metrics_log import RunningScores
from bayesnn_ppl.metrics import evaluate, loo, loo_pit
from bayesnn_ppl.modeling.contract import inspect_model
from bayesnn_ppl.posterior.mixture import function_record
from bayesnn_ppl.posterior.recorded_prediction import RecordedPrediction
from tests.marks import checked

CHAINS, DRAWS, ROWS = 2, 30, 12
CENTRE, SCALE = 50.0, 4.0
UNITS = bnn.data.Standardisation(np.zeros(4), np.ones(4), CENTRE, SCALE)
GENERATOR = np.random.default_rng(0)
# Two inputs and two flags, of which rows 2, 3, 6, ... and 1, 3, 5, ... have one.
X = np.column_stack(
    [GENERATOR.normal(size=(ROWS, 2)), np.arange(ROWS) % 4 > 1, np.arange(ROWS) % 2]
).astype(np.float32)
FIRST, BOTH = X[:, 2] > 0, X[:, 2:] > 0
Y = (X[:, 0] + 0.3).astype(np.float32)
TWO = np.stack([Y, -Y], axis=1)


class Bare(dist.Distribution):
    """A Laplace distribution as a user writes one at first: a density alone."""

    support = constraints.real
    pytree_data_fields = ("loc",)

    def __init__(self, loc):
        self.loc = loc
        super().__init__(jnp.shape(loc))

    def log_prob(self, value):
        return -jnp.abs(value - self.loc) - jnp.log(2.0)


class Sampled(Bare):
    def sample(self, key, sample_shape=()):
        return self.loc + dist.Laplace(0.0, 1.0).sample(key, sample_shape + self.batch_shape)


def model_of(distribution):
    def model(x, y=None, *, batch_size=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", distribution(x[:, :2] @ w, x[:, 2:] > 0), obs=y)

    return model


def right(mean, flags):
    return dist.RightCensoredDistribution(dist.Normal(mean, 1.0), flags[:, 0])


def left(mean, flags):
    return dist.LeftCensoredDistribution(dist.Normal(mean, 1.0), flags[:, 0])


def interval(mean, flags):
    none = jnp.zeros_like(flags[:, 0])
    return dist.IntervalCensoredDistribution(dist.Normal(mean, 1.0), none, flags[:, 0])


def masked(mean, flags):
    return dist.Normal(jnp.stack([mean, -mean], 1), 1.0).mask(~flags).to_event(1)


def right_of_two(mean, flags):
    normal = dist.Normal(jnp.stack([mean, -mean], 1), 1.0)
    return dist.RightCensoredDistribution(normal, flags).to_event(1)


def rows_masked(mean, flags):
    return dist.Normal(mean, 1.0).mask(~flags[:, 0])


def truncated(mean, flags):
    return dist.TruncatedDistribution(dist.Laplace(mean, 1.0), low=-9.0, high=9.0)


def exponential(mean, flags):
    return dist.TransformedDistribution(dist.Normal(mean, 0.5), transforms.ExpTransform())


ENDS = np.stack([Y, np.where(np.arange(ROWS) % 2, Y + 0.5, Y)], axis=1)
OPEN = FIRST | (np.arange(ROWS) % 2 > 0)
CASES = {
    "right-censored": (right, Y, ~FIRST),
    "left-censored": (left, Y, ~FIRST),
    "interval-censored": (interval, ENDS, ~OPEN),
    "masked elements": (masked, TWO, ~BOTH),
    "censored elements": (right_of_two, TWO, ~BOTH),
    "masked rows": (rows_masked, Y, ~FIRST),
    "truncated": (truncated, Y, np.ones(ROWS, bool)),
    "transformed": (exponential, np.exp(Y), np.ones(ROWS, bool)),
    "of one's own": (lambda mean, flags: Sampled(mean), Y, np.ones(ROWS, bool)),
}
WEIGHTS = np.random.default_rng(1).normal([1.0, 0.0], 0.3, size=(CHAINS, DRAWS, 2))
WEIGHTS = WEIGHTS.astype(np.float32)
MEANS = X[:, :2] @ WEIGHTS.reshape(-1, 2).T  # (row, draw)


def posterior(distribution, standardisation=None):
    known = {"latents": ["w"], "precision": "float32", "chains": CHAINS, "kernel_settings": {}}
    return bnn.Posterior.from_arrays(
        {"w": WEIGHTS},
        {"lp": np.zeros((CHAINS, DRAWS))},
        known,
        model=model_of(distribution),
        standardisation=standardisation,
    )


@pytest.mark.parametrize(
    "case", checked(CASES, "right-censored", "interval-censored", "masked elements")
)
def test_everything_asked_of_a_posterior_works(case):
    distribution, y, exact = CASES[case]
    made = posterior(distribution)
    prediction = made.predict(X)
    shape = exact.shape
    assert prediction.mean.shape == prediction.variance.shape == prediction.quantile(0.5).shape
    assert prediction.mean.shape == shape == prediction.samples(3).shape[1:]
    # By simulation of four standard errors, whatever there is in closed form.
    samples = prediction.samples(4000)
    error = 4 * samples.std(0) / np.sqrt(1000)
    np.testing.assert_array_less(np.abs(samples.mean(0) - prediction.mean), error)
    np.testing.assert_array_equal(prediction.exact(y), exact)
    assert "nan" not in str(made.diagnose(X))
    scores = evaluate(made, X, y)
    assert all(np.isfinite(list(scores.values())))
    target = (y[..., 0] if case == "interval-censored" else y)[exact]
    partial = (~exact.reshape(len(X), -1).all(axis=1)).sum()
    said = f"{len(X)} rows, {partial} censored or masked" if partial else f"{len(X)} rows\n"
    assert said in str(scores)
    expected = np.sqrt(np.mean((prediction.mean[exact] - target) ** 2))
    assert scores["rmse"] == pytest.approx(expected, rel=1e-4)
    assert np.isfinite(loo(made, X, y).log_scores).all()
    np.testing.assert_array_equal(np.isfinite(loo_pit(made, X, y)), exact)


def test_moments_without_a_closed_form_are_those_of_the_distribution():
    values = posterior(exponential).function_values(X)
    mean, sd = (values[name].reshape(CHAINS * DRAWS, ROWS).T for name in ("mean", "sd"))
    exact = stats.lognorm(0.5, scale=np.exp(MEANS))
    np.testing.assert_allclose(mean, exact.mean(), rtol=5 * 0.53 / np.sqrt(1000))
    np.testing.assert_allclose(sd, exact.std(), rtol=0.2)
    # The same random numbers for all draws: what differs between them is the weights alone.
    ratio = mean / exact.mean()
    np.testing.assert_allclose(ratio, ratio[:, :1].repeat(CHAINS * DRAWS, 1), rtol=1e-4)


def test_chains_of_a_cauchy_likelihood_are_compared_by_its_centre():
    """It has no mean at all, and NaN in every function value read as chains that had not met."""
    made = posterior(lambda mean, flags: dist.Cauchy(mean, 1.0))
    values = made.function_values(X)
    np.testing.assert_allclose(values["mean"].reshape(-1, ROWS).T, MEANS, rtol=1e-4, atol=1e-5)
    assert "nan" not in str(made.diagnose(X))
    assert np.isnan(made.predict(X).mean).all()


def test_a_censored_row_has_a_probability_and_no_unit():
    rows = posterior(right, UNITS).predict(X).row_log_likelihood(Y).T
    np.testing.assert_allclose(rows[FIRST], stats.norm.logsf(Y[FIRST, None] - MEANS[FIRST]), 1e-3)
    density = stats.norm.logpdf(Y[~FIRST, None] - MEANS[~FIRST]) - np.log(SCALE)
    np.testing.assert_allclose(rows[~FIRST], density, rtol=1e-4)


def test_what_stands_in_place_of_a_missing_target_changes_nothing():
    made, other = posterior(masked, UNITS), np.where(BOTH, 100.0, TWO).astype(np.float32)
    assert evaluate(made, X, TWO) == evaluate(made, X, other)
    np.testing.assert_array_equal(made.log_likelihood(X, TWO), made.log_likelihood(X, other))
    rows = made.predict(X).row_log_likelihood(TWO)
    assert (rows[:, BOTH.all(1)] == 0).all() and (rows[:, ~BOTH.all(1)] != 0).all()


def test_where_all_is_censored_the_density_is_the_one_score():
    everything = X.copy()
    everything[:, 2] = 1
    assert list(evaluate(posterior(right), everything, Y)) == ["nll_mixture"]


def test_a_density_alone_has_scores_and_no_predictions():
    def bare(mean, flags):
        return Bare(mean)

    inspect_model(model_of(bare), X, Y)
    made = posterior(bare)
    assert np.isfinite(loo(made, X, Y).log_scores).all()
    for ask in (lambda: made.predict(X).mean, lambda: made.predict(X).samples(3)):
        with pytest.raises(ValueError, match=r"Bare, cannot be drawn from.*Define `sample"):
            ask()


def test_what_a_run_keeps_at_its_probe_is_scored_alike():
    run = bnn.sample(
        bnn.kernels.HMC(model_of(right), num_leapfrogs=3),
        X,
        StandardisedTarget(Y, UNITS),
        warmup=5,
        draws=30,
        chains=1,
        keep=bnn.Keep(probe=(X, Y)),
        progress=False,
    )
    kept, again = evaluate(run), evaluate(run, X, Y)
    for name in ("rmse", "nll_mixture", "nll_moment_matched"):
        assert kept[name] == pytest.approx(again[name], rel=1e-4)
    np.testing.assert_array_equal(np.isnan(loo_pit(run, X, Y)), FIRST)
    assert "Some targets are censored or masked" in bnn.report.page(run).html


@pytest.mark.parametrize("case", ["right-censored", "interval-censored", "masked elements"])
def test_scores_of_what_was_recorded_are_those_of_evaluate(case):
    distribution, y, _ = CASES[case]
    y = y.astype(np.float32)

    def record(w):
        return function_record(model_of(distribution), {"w": w}, X, y, jax.random.key(0))

    kept = jax.tree.map(np.asarray, jax.jit(jax.vmap(record))(WEIGHTS.reshape(-1, 2)))
    expected = evaluate(posterior(distribution, UNITS), X, y)
    running = RunningScores(Probe(X, y), UNITS)
    running.add({name: array[None] for name, array in kept.items()})
    prediction = RecordedPrediction(kept, y, centre=CENTRE, scale=SCALE)
    each = prediction.log_prob(y)
    found = running.scores() | {"again": -each[scored_rows(prediction, y, each)].mean()}
    wanted = [expected[name] for name in ("rmse", "nll_mixture", "nll_mixture")]
    np.testing.assert_allclose(list(found.values()), wanted, rtol=1e-4)


def test_functions_of_a_prior_are_known_too():
    report = bnn.diagnostics.prior_predictive(model_of(exponential), X, draws=20)
    assert "nan" not in str(report)
