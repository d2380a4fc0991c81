"""Leave-one-out against exact refits in closed form, at temperatures other than 1."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import bayesnn_ppl as bnn
from bayesnn_ppl.metrics import k_fold, loo
from bayesnn_ppl.metrics.leave_one_out.checks import likelihood_temperature
from bayesnn_ppl.metrics.leave_one_out.pareto_smoothed import _from_log_likelihood
from benchmarks.accuracy.loo_cold import data_set, errors
from tests.marks import checked
from tests.metrics.linear_draws import MODEL, NOISE, exact_posterior, log_scores, without_each_row

TEMPERATURES = {
    "T = 1": {},
    "likelihood": {"likelihood": 0.25},
    "hot likelihood": {"likelihood": 3.0},
    "whole posterior": {"whole": 0.25},
    "both": {"likelihood": 0.5, "whole": 0.5},
}


def deviations(found, truth):
    """How far each row is from the truth, in its own standard errors."""
    return np.abs(found.log_scores - truth) / found.monte_carlo_error


@pytest.mark.parametrize("name", checked(TEMPERATURES))
def test_equals_exact_refits_at_every_temperature(regression, name):
    x, y = regression
    temperatures = TEMPERATURES[name]
    posterior = exact_posterior(x, y, **temperatures)
    truth = without_each_row(x, y, **temperatures)
    found = loo(posterior, x, y)
    assert found.temperature == np.prod(list(temperatures.values()))
    # Forty rows share their draws; five errors is a chance of 2e-5 for all of them.
    assert deviations(found, truth).max() < 5
    assert found.bad_rows.size == 0
    said = "good to their `monte_carlo_error`" in found.sentence
    assert said == (found.uncertain_rows.size == 0) == (found.pareto_k.max() <= 0.5)
    assert found.elpd == pytest.approx(truth.sum(), abs=5 * found.monte_carlo_error.sum())
    assert found.standard_error == pytest.approx(np.sqrt(40) * found.log_scores.std(ddof=1))
    if not temperatures:
        return
    # The negative control, weights 1/p that know no temperature: what ArviZ computes by itself.
    log_p = posterior.log_likelihood(x, y)
    wrong = _from_log_likelihood(log_p.astype(float), 1.0, streamed=False)
    assert deviations(wrong, truth).max() > 10
    assert "untempered" in found.sentence
    import arviz as az  # not at the top: before NumPyro it leaves pytest's NumPyro without a part

    tree = xr.DataTree.from_dict(
        {
            "posterior": posterior.tree["posterior"].to_dataset(),
            "log_likelihood": xr.Dataset({"y": (("chain", "draw", "row"), log_p)}),
        }
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter")
        expected = az.loo(tree).elpd  # with one relative efficiency for all rows
    assert wrong.elpd == pytest.approx(expected, abs=wrong.monte_carlo_error.sum())
    assert abs(wrong.elpd - truth.sum()) > 10 * abs(found.elpd - truth.sum())


def test_a_cold_posterior_looks_better_than_it_is_without_the_correction(regression):
    x, y = regression
    log_p = exact_posterior(x, y, whole=0.1).log_likelihood(x, y).astype(float)
    right, wrong = (_from_log_likelihood(log_p, t, streamed=False).elpd for t in (0.1, 1.0))
    truth = without_each_row(x, y, whole=0.1).sum()
    assert wrong - truth > 5 * abs(right - truth)


def test_an_influential_row_is_told(regression):
    x, y = (a.copy() for a in regression)
    x[7], y[7] = (9.0, -9.0), 6.0
    found = loo(exact_posterior(x, y), x, y)
    assert found.bad_rows.tolist() == [7]
    assert "in 1 of 40 rows (7), and up to" in found.sentence
    assert "k_fold" in str(found) and "1 of 40  rows with" in str(found)
    assert max(map(len, str(found).splitlines())) <= 88
    assert found.p_loo > loo(exact_posterior(*regression), *regression).p_loo


def test_errors_of_a_cold_posterior_are_stated_where_k_is_large():
    """V6: at T = 0.5 and 0.5 < k̂ ≤ 0.7 errors were two to three times what was stated."""
    rng, found = np.random.default_rng(0), []
    for number in range(4):
        phi, y = data_set(np.random.default_rng(number), 12, heavy=number % 2 == 1)
        found += [errors(rng, phi, y, 1000, 0.5, "posterior") for _ in range(12)]
    k, error, delta, stated, bias = np.concatenate(found).T
    rows = (k > 0.5) & (k <= 1 - 1 / np.log10(1000))
    assert rows.sum() > 100

    def share_within_two(errors):
        return (np.abs(error[rows]) < 2 * errors[rows]).mean()

    # What was stated before is the control: the same rows, the delta method alone.
    assert share_within_two(delta) < 0.88 < 0.92 < share_within_two(stated)
    ratio = np.sqrt((error[rows] ** 2).mean() / (stated[rows] ** 2).mean())
    assert 0.6 < ratio < 1.8 < np.sqrt((error[rows] ** 2).mean() / (delta[rows] ** 2).mean())
    # Scores are too high, by about what the fitted tail says.
    assert 0.3 < bias[rows].mean() / error[rows].mean() < 2
    # Where k̂ is small nothing changes.
    low = k < 0.2
    assert np.median(stated[low] / delta[low]) < 1.05


def test_the_words_name_the_rows_whose_errors_are_large_and_the_refit(regression):
    x, y = regression
    found = loo(exact_posterior(x, y, whole=0.05), x, y)
    assert found.uncertain_rows.size and "can be trusted" not in found.sentence
    assert "0.5 and 0.70 in" in found.sentence and "above=0.5" in found.sentence
    assert found.bias > 0 and f"{found.bias:.4f}  nats, about: elpd is too high" in str(found)
    found = replace(found, tail_bias=-found.tail_bias)
    assert f"-{-found.bias:.4f}  nats, about: elpd is too low" in str(found)
    fit = Refit()
    again = k_fold(fit, x, y, loo=found, above=0.5)
    assert sorted(fit.rows) == again.refitted.tolist()
    assert set(again.refitted) == {*found.bad_rows.tolist(), *found.uncertain_rows.tolist()}
    truth = without_each_row(x, y, whole=0.05)
    assert abs(again.elpd - truth.sum()) < abs(found.elpd - truth.sum())
    with pytest.raises(ValueError, match="`above` is 0.9: .*its threshold 0.70"):
        k_fold(fit, x, y, loo=found, above=0.9)
    with pytest.raises(ValueError, match="which must be given"):
        k_fold(fit, x, y, above=0.5)


class Refit:
    """Exact posteriors, and which rows they were made without."""

    def __init__(self):
        self.rows = []

    def __call__(self, x, y, seed):
        self.rows.append(seed)
        return exact_posterior(x, y, whole=0.05, shape=(2, 500))


def test_p_loo_is_what_learning_from_a_row_adds_to_its_score(regression):
    x, y = regression
    found, truth = loo(exact_posterior(x, y), x, y), without_each_row(x, y)
    optimism = log_scores(x, y, x, y).sum() - truth.sum()
    assert 1 < optimism < 3, "three weights"
    assert found.p_loo == pytest.approx(optimism, abs=2 * found.monte_carlo_error.sum())
    assert found.nll == pytest.approx(-truth.mean(), abs=0.01)


def test_correlated_draws_have_larger_errors(regression):
    """Repeating every draw five times changes no weight, only what they are worth."""
    x, y = regression
    log_p = exact_posterior(x, y).log_likelihood(x, y).astype(float)
    few = _from_log_likelihood(log_p[:, :200], 1.0, streamed=False)
    same = _from_log_likelihood(np.repeat(log_p[:, :200], 5, axis=1), 1.0, streamed=False)
    assert same.relative_efficiency.max() < 0.4 < 0.5 < few.relative_efficiency.min()
    ratio = same.monte_carlo_error / few.monte_carlo_error
    assert 0.7 < np.median(ratio) < 1.4  # without the efficiency it would be 0.45


def test_saturated_and_forbidden_rows():
    """Ties forbid the Pareto fit, and need none; a draw that forbids a row has all its weight."""
    rng = np.random.default_rng(0)
    log_p = rng.normal(-1, 0.1, size=(2, 500, 4))
    log_p[..., 1] = 0.0
    log_p[..., 2] = rng.choice([0.0, -1.2e-7], size=(2, 500))
    log_p[0, 3, 3] = -np.inf
    found = _from_log_likelihood(log_p, 0.5, streamed=False)
    assert found.log_scores[1] == pytest.approx(0, abs=1e-12)
    assert found.log_scores[2] == pytest.approx(0, abs=1e-6)
    assert found.log_scores[3] == -np.inf and np.isnan(found.standard_error)
    assert found.bad_rows.tolist() == [3]
    log_p[..., 2] = np.where(rng.uniform(size=(2, 500)) < 0.01, -20.0, 0.0)
    assert 2 in _from_log_likelihood(log_p, 1.0, streamed=False).bad_rows


def test_two_cross_validations_are_compared_row_by_row(regression):
    x, y = regression
    warm, cold = loo(exact_posterior(x, y), x, y), loo(exact_posterior(x, y, whole=0.01), x, y)
    difference, error = warm.difference(cold)
    assert difference == pytest.approx(warm.elpd - cold.elpd)
    each = warm.log_scores - cold.log_scores
    assert error == pytest.approx(np.sqrt(40) * each.std(ddof=1))
    assert error < 0.5 * warm.standard_error
    with pytest.raises(ValueError, match="40 rows and the other 39"):
        warm.difference(loo(exact_posterior(x[1:], y[1:]), x[1:], y[1:]))


def test_the_temperature_of_a_run_is_found_wherever_it_was_set(regression):
    x, y = regression
    likelihood = bnn.likelihoods.gaussian(NOISE)
    for of_model, of_kernel in ((0.5, 1.0), (1.0, 0.25)):
        model = bnn.models.linear(likelihood=likelihood, temperature=of_model)
        kernel = bnn.kernels.SGLD(model, step_size=1e-4, batch_size=20, temperature=of_kernel)
        posterior = bnn.sample(kernel, x, y, warmup=0, draws=30, chains=1, seed=0, progress=False)
        assert loo(posterior, x, y).temperature == of_model * of_kernel
    # A run made elsewhere may have both. A schedule is recorded in words, and its value with each
    # draw.
    run = posterior.provenance | {"likelihood_temperature": 0.5}
    run["kernel_settings"]["temperature"] = "a schedule"
    assert likelihood_temperature(run, {"temperature": np.full((1, 9), 0.5)}) == 0.25
    with pytest.raises(ValueError, match="went from 0.5 to 1"):
        likelihood_temperature(run, {"temperature": np.linspace(0.5, 1, 9)[None]})


def kept(posterior, x, y):
    """With function values at x and y, as a run keeps them."""
    log_p = posterior.log_likelihood(x, y)
    functions = {"mean": posterior.function_values(x)["mean"]}
    functions |= {"sd": np.full_like(log_p, NOISE), "y": log_p, "log_likelihood": log_p}
    return bnn.Posterior.from_groups(
        {"sample_stats": {"lp": np.zeros(log_p.shape[:2])}, "predictions": functions},
        posterior.provenance,
        probe={"x": x, "y": y},
    )


def test_a_probe_of_the_training_data_needs_no_model(regression):
    x, y = regression
    posterior = exact_posterior(x, y, whole=0.5)
    assert loo(kept(posterior, x, y)).elpd == pytest.approx(loo(posterior, x, y).elpd)
    with pytest.raises(ValueError, match=r"The probe inputs of the run are not the data .*5 rows"):
        loo(kept(posterior, x[:5], y[:5]))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"approximation": {"log_evidence": 1.0}}, "of an approximation, Exact"),
        ({"local": ["z"]}, "leave out too little"),
        ({"observed": "DirtyLabels of CategoricalLogits"}, "a pseudo-likelihood, DirtyLabels"),
        ({"kernel_settings": {"temperature": 0.0}, "posterior_temperature": 0.0}, "an optimiser"),
        ({"kernel_settings": {"noise": 0.0}}, "an optimiser"),
        ({"shape": (2, 12)}, "has 24 draws"),
        ({"data_sha256": "another"}, "are not the data of the run"),
        ({"streamed": {}, "rows": 41}, "are not the data of the run"),
    ],
)
def test_refusals(regression, attributes, message):
    with pytest.raises(ValueError, match=message):
        loo(exact_posterior(*regression, **attributes), *regression)


def test_refusals_of_data(regression):
    x, y = regression
    posterior = exact_posterior(x, y)
    with pytest.raises(ValueError, match="both, or neither"):
        loo(posterior, x)
    with pytest.raises(ValueError, match="kept no function values"):
        loo(posterior)
    broken = exact_posterior(x, y)
    broken.tree["posterior"]["net.Dense_0.bias"].values[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN in some draws, first at row 0"):
        loo(broken, x, y)
    streamed = loo(exact_posterior(x, y, streamed={}, data_sha256="of blocks"), x, y)
    assert "read its data from a stream" in streamed.sentence
    assert MODEL is posterior.model
