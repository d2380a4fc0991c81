"""ArviZ's functions on runs in memory, loaded, and opened by xarray alone."""

import warnings

import matplotlib
import numpy as np
import pytest
import xarray as xr
from numpyro.infer import NUTS
from scipy import stats

import bayesnn_ppl as bnn
from tests.marks import checked
from tests.metrics.linear_draws import exact_posterior, moments, without_each_row

matplotlib.use("Agg")

GROUPS = ("log_likelihood", "log_prior", "posterior_predictive", "observed_data", "functions")
RUN = {"warmup": 100, "draws": 100, "chains": 4, "seed": 0, "progress": False}
MODEL = bnn.models.mlp(hidden=(3,))


@pytest.fixture(scope="module")
def az():
    """ArviZ, imported after NumPyro: before it pytest's NumPyro would lack a part."""
    import arviz

    return arviz


@pytest.fixture(scope="module")
def folder(regression, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "run"
    keep = bnn.Keep(groups=GROUPS)
    posterior = bnn.sample(NUTS(MODEL), *regression, **RUN, out=place, keep=keep)
    assert set(GROUPS) < set(posterior.tree.children)
    return place


@pytest.fixture(scope="module")
def memory(regression):
    return bnn.sample(NUTS(MODEL), *regression, **RUN)


@pytest.fixture(scope="module")
def trees(folder, memory, regression):
    x, y = regression
    return {
        "in memory": memory.with_groups(*GROUPS).tree,
        "loaded": bnn.load(folder).tree,
        "loaded with its model": bnn.load(folder, MODEL).with_groups(*GROUPS, x=x, y=y).tree,
        "opened by xarray": xr.open_datatree(
            folder / "posterior.zarr", engine="zarr", consolidated=False
        ),
    }


CALLS = {
    "loo": lambda az, tree: az.loo(tree).elpd,
    "compare": lambda az, tree: az.compare({"one": tree, "other": tree})["elpd"].iloc[0],
    "plot_ppc_dist": lambda az, tree: az.plot_ppc_dist(tree, num_samples=3),
    "plot_loo_pit": lambda az, tree: az.plot_loo_pit(tree),
    "psense_summary": lambda az, tree: az.psense_summary(tree, round_to=6)["prior"].sum(),
    "plot_rank": lambda az, tree: az.plot_rank(tree),
    "plot_rank of functions": lambda az, tree: az.plot_rank(tree, group="functions"),
    "summary": lambda az, tree: az.summary(tree, round_to="none")["mean"].sum(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("source", checked(["loaded", "loaded with its model", "opened by xarray"]))
def test_arviz_takes_the_tree(az, trees, source, call):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter")
        found, expected = (CALLS[call](az, trees[s]) for s in (source, "in memory"))
    matplotlib.pyplot.close("all")
    if isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4)
    else:
        assert type(found).__name__ == "PlotCollection"


def test_compare_prefers_the_right_model(az, trees, regression):
    x, y = regression
    wrong = bnn.sample(NUTS(MODEL), x, np.roll(y, 1), **RUN).with_groups("log_likelihood")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter")
        warnings.filterwarnings("ignore", message=".*different.*", category=UserWarning)
        table = az.compare({"wrong": wrong.tree, "right": trees["opened by xarray"]})
    assert table.index[0] == "right"


@pytest.mark.check
def test_few_panels_are_easy_to_ask_for(memory):
    functions = memory.with_groups("functions").tree["functions"]
    assert functions["mean"].sizes["row"] == 12
    np.testing.assert_allclose(
        functions["mean"], memory.function_values(memory.data[0][functions["row"]])["mean"]
    )
    assert memory.scalars == ["noise_scale"]
    labels = bnn.models.mlp(hidden=(3,), likelihood=bnn.likelihoods.categorical(5))
    x, y = memory.data[0], np.arange(40, dtype=np.int32) % 5
    members = bnn.approximations.Ensemble(labels, members=2, epochs=2)
    fit = bnn.fit(members, x, y, progress=False)
    probability = fit.with_groups("functions").tree["functions"]["probability"]
    assert probability.dims == ("chain", "draw", "row", "class")
    assert probability.sizes["row"] * probability.sizes["class"] <= 12
    with pytest.raises(ValueError, match="no order"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bnn.metrics.loo_pit(_as_sampled(fit))


def _as_sampled(fit):
    run = fit.provenance | {"approximation": None}
    draws = {s: np.repeat(a, 40, axis=1) for s, a in _by_site(fit).items()}
    more = bnn.Posterior.from_arrays(draws, {"lp": np.zeros((2, 40))}, run, model=fit.model)
    more.data = fit.data
    return more


def _by_site(posterior):
    names = posterior.provenance["site_names"]
    return {names[name]: a for name, a in posterior.draws.items()}


def test_our_loo_needs_neither_data_nor_model_once_the_group_is_there(folder, memory):
    expected = bnn.metrics.loo(memory)
    found = bnn.metrics.loo(bnn.load(folder))
    np.testing.assert_allclose(found.log_scores, expected.log_scores, atol=1e-5)
    np.testing.assert_allclose(
        bnn.metrics.loo_pit(bnn.load(folder)), bnn.metrics.loo_pit(memory), atol=1e-4
    )


def test_groups_hold_what_they_say(memory, regression):
    x, y = regression
    more = memory.with_groups(*GROUPS, "constant_data")
    tree = more.tree
    np.testing.assert_allclose(tree["log_likelihood"]["y"], memory.log_likelihood(x, y), atol=1e-5)
    np.testing.assert_array_equal(tree["observed_data"]["y"], y)
    np.testing.assert_array_equal(tree["constant_data"]["x"], x)
    # The network's prior variances are in the model; here by the draws of their own density.
    draws = memory.draws
    kernel = tree["log_prior"]["net.Dense_0.kernel"].values
    expected = stats.norm.logpdf(draws["net.Dense_0.kernel"], 0, 1 / np.sqrt(2)).sum((-1, -2))
    np.testing.assert_allclose(kernel, expected, rtol=1e-4)
    noise = draws["noise_scale"]
    np.testing.assert_allclose(
        tree["log_prior"]["noise_scale"], stats.halfnorm.logpdf(noise), rtol=1e-4
    )
    # One sample of each draw, in their order: residuals have each draw's own noise.
    residual = tree["posterior_predictive"]["y"] - memory.function_values(x)["mean"]
    z = residual.values / noise[..., None]
    assert z.std() == pytest.approx(1, abs=0.02) and abs(z.mean()) < 0.02
    spread = residual.values.std(axis=-1)
    assert np.corrcoef(spread.ravel(), noise.ravel())[0, 1] > 0.3
    # What is there is not made again, and this posterior has none of it.
    assert not set(GROUPS) & set(memory.tree.children)
    more.model = None
    again = more.with_groups(*GROUPS)
    assert again.tree["log_likelihood"]["y"].values is tree["log_likelihood"]["y"].values


def test_units_are_those_of_the_data():
    data = bnn.data.load("diabetes")
    model = bnn.models.linear()
    fit = bnn.fit(bnn.approximations.MAP(model, epochs=3), *data.train, progress=False)
    tree = fit.with_groups("observed_data", "posterior_predictive", "functions").tree
    units = data.train.y.standardisation
    expected = units.undo_y(np.asarray(data.train.y))
    np.testing.assert_allclose(tree["observed_data"]["y"], expected, rtol=1e-5)
    prediction = fit.predict(data.train.x)
    rows = tree["functions"]["row"].values
    np.testing.assert_allclose(tree["functions"]["mean"][0, 0], prediction.mean[rows], rtol=1e-4)
    sampled = tree["posterior_predictive"]["y"].values
    assert abs(sampled.mean() - expected.mean()) < 0.2 * expected.std()
    with pytest.warns(UserWarning, match="would be wrong on these draws. .*an approximation, MAP"):
        fit.with_groups("log_likelihood")


@pytest.mark.parametrize("temperatures", [{"likelihood": 0.25}, {"whole": 0.25}])
def test_tempered_draws_are_said_to_be_and_can_be_weighted(az, regression, temperatures):
    x, y = regression
    posterior = exact_posterior(x, y, **temperatures)
    with pytest.warns(UserWarning, match=r"to the power 1/0\.25, .*they are wrong"):
        more = posterior.with_groups("log_likelihood", x=x, y=y)
    assert "they are wrong" in more.tree["log_likelihood"].attrs["note"]
    assert more.tree["log_likelihood"].attrs["temperature"] == 0.25
    ours, truth = bnn.metrics.loo(more), without_each_row(x, y, **temperatures).sum()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter")
        wrong = az.loo(more.tree).elpd
        right = az.loo(more.tree, **bnn.metrics.loo_weights(posterior, x, y))
    assert right.elpd == pytest.approx(ours.elpd, abs=1e-3)
    assert abs(wrong - truth) > 10 * abs(right.elpd - truth)
    np.testing.assert_allclose(right.pareto_k, ours.pareto_k)


def test_sensitivity_of_tempered_draws_is_that_of_what_they_were_drawn_from(regression):
    """Draws of [p L]^{1/T}, weighted to [p^α L]^{1/T}, whose mean is known."""
    x, y, alpha = *regression, 6.0
    posterior = exact_posterior(x, y, whole=0.25)
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)
    precision = alpha * np.eye(3) + phi.T @ phi / 0.25
    expected = np.linalg.solve(precision, phi.T @ y / 0.25)
    mean = moments(x, y)[0]

    def weighted(tempered):
        tree = posterior.with_groups("log_prior", x=x, y=y, tempered=tempered).tree
        log_w = (alpha - 1) * tree["log_prior"].to_dataset().to_array().sum("variable").values
        w = np.exp(log_w - log_w.max())
        theta = np.concatenate([a.reshape(4, 1000, -1) for a in posterior.draws.values()], -1)
        return np.einsum("cd,cdi->i", w / w.sum(), theta)

    moved = np.linalg.norm(expected - mean)
    assert np.linalg.norm(weighted(True) - expected) < 0.25 * moved
    assert np.linalg.norm(weighted(False) - expected) > 0.5 * moved  # the control
    tree = posterior.with_groups("log_likelihood", "log_prior", x=x, y=y, tempered=True).tree
    log_p = posterior.log_likelihood(x, y)
    np.testing.assert_allclose(tree["log_likelihood"]["y"], 4 * log_p, rtol=1e-4)
    # Leave-one-out does not mistake it for the other.
    bare = bnn.Posterior(tree)
    with pytest.raises(ValueError, match="kept no function values"):
        bnn.metrics.loo(bare)


def test_loo_pit_is_uniform_for_a_right_model_and_not_for_one_too_sure(regression):
    x = np.random.default_rng(1).normal(size=(200, 2)).astype(np.float32)
    y = (x @ [1.0, -0.5] + 0.5 * np.random.default_rng(2).normal(size=200)).astype(np.float32)
    right = bnn.metrics.loo_pit(exact_posterior(x, y), x, y)
    wrong = bnn.metrics.loo_pit(exact_posterior(x, 2 * y), x, 2 * y)
    assert stats.kstest(right, "uniform").pvalue > 0.01
    assert stats.kstest(wrong, "uniform").pvalue < 1e-4


def test_a_probe_of_the_training_data_needs_no_weights(regression):
    keep = bnn.Keep(weights="none", probe=regression)
    run = bnn.sample(NUTS(MODEL), *regression, **RUN, keep=keep)
    bare = bnn.Posterior(run.tree)
    wanted = ("log_likelihood", "posterior_predictive", "observed_data", "functions")
    tree = bare.with_groups(*wanted).tree
    np.testing.assert_array_equal(
        tree["posterior_predictive"]["y"], run.tree["predictions"]["y"].values
    )
    np.testing.assert_allclose(
        tree["log_likelihood"]["y"], run.tree["predictions"]["log_likelihood"], atol=1e-6
    )
    assert tree["functions"]["mean"].sizes["row"] == 12
    with pytest.raises(ValueError, match="needs the weights and the model"):
        bare.with_groups("log_prior")


def test_refusals(memory, regression):
    x, y = regression
    loaded = bnn.Posterior(memory.tree, MODEL)
    with pytest.raises(ValueError, match="are of the training data, which a run on disk does not"):
        loaded.with_groups("log_likelihood")
    with pytest.raises(ValueError, match="not the data of the run"):
        loaded.with_groups("posterior_predictive", x=x[:9], y=y[:9])
    with pytest.raises(ValueError, match="'log_lik' is unknown.*log_likelihood"):
        loaded.with_groups("log_lik")
    with pytest.raises(ValueError, match="both, or neither"):
        loaded.with_groups("log_likelihood", x=x)
    assert set(loaded.with_groups().tree.children) == set(memory.tree.children)
    assert loaded.with_groups("functions", x=x[:3]).tree["functions"].sizes["row"] == 3
    with pytest.raises(ValueError, match="unknown.*log_likelihood"):
        bnn.Keep(groups=("loglikelihood",))
    with pytest.raises(ValueError, match="made from the weights"):
        bnn.Keep(groups="log_likelihood", weights="moments")


def test_an_extended_run_makes_its_groups_again(regression, tmp_path):
    keep = bnn.Keep(groups=("log_likelihood", "observed_data"))
    place = tmp_path / "run"
    bnn.sample(NUTS(MODEL), *regression, **RUN | {"draws": 20}, out=place, keep=keep)
    assert bnn.load(place).tree["log_likelihood"].sizes["draw"] == 20
    bnn.extend(place, NUTS(MODEL), *regression, draws=30, progress=False)
    loaded = bnn.load(place, MODEL)
    assert loaded.tree["log_likelihood"].sizes["draw"] == 50
    np.testing.assert_allclose(
        loaded.tree["log_likelihood"]["y"], loaded.log_likelihood(*regression), atol=1e-5
    )
