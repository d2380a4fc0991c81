"""ArviZ's functions on posteriors in memory, loaded, and opened by xarray."""

import warnings

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from numpyro.infer import NUTS

import bayesnn_ppl as bnn

ALL = ("log_likelihood", "log_prior", "posterior_predictive", "observed_data")
DATA = bnn.data.load("diabetes")
X, Y = DATA.train
MODEL = bnn.models.linear()
SETTINGS = {"warmup": 200, "draws": 200, "chains": 2, "seed": 0, "progress": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("arviz") / "run"
    bnn.sample(NUTS(MODEL), X, Y, out=path, **SETTINGS)
    return path


@pytest.fixture(scope="module")
def in_memory():
    return bnn.sample(NUTS(MODEL), X, Y, **SETTINGS)


@pytest.fixture(params=["memory", "loaded"])
def posterior(request, in_memory, folder):
    """With all groups; a loaded run is given the data."""
    if request.param == "memory":
        return in_memory.with_groups(*ALL)
    return bnn.load(folder, MODEL).with_groups(*ALL, x=X, y=Y)


def test_loo_is_ours(posterior, in_memory):
    found = az.loo(posterior.tree)
    assert found.elpd == pytest.approx(bnn.metrics.loo(in_memory, X, Y).log_scores.sum(), rel=1e-3)


def test_compare_prefers_the_right_model(posterior):
    wrong = bnn.sample(NUTS(MODEL), X[:, ::-1].copy(), Y, **SETTINGS)
    other = wrong.with_groups("log_likelihood", x=X, y=Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ArviZ, on k̂
        table = az.compare({"right": posterior.tree, "wrong": other.tree})
    assert table.index[0] == "right"


def test_plots_and_summaries(posterior):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ArviZ, on k̂ and on versions
        for plot in (az.plot_ppc_dist, az.plot_loo_pit):
            plot(posterior.tree)
        az.plot_rank(posterior.tree, var_names=["noise_scale", "net.Dense_0.bias"])
        summary = az.summary(posterior.tree, var_names=["noise_scale"])
        sensitivity = az.psense_summary(posterior.tree, var_names=["noise_scale"])
    plt.close("all")
    assert len(summary) == 1 and len(sensitivity) == 1


def test_groups_belong_together(posterior):
    """The log likelihood is that of the observed data, draw by draw, and samples are in order."""
    tree = posterior.tree
    prediction = posterior.predict(X)
    assert tree["observed_data"]["y"].values == pytest.approx(
        DATA.standardisation.undo_y(np.asarray(Y))
    )
    rows = prediction.row_log_likelihood(Y).reshape(2, 200, -1)
    assert tree["log_likelihood"]["y"].values == pytest.approx(rows)
    drawn = tree["posterior_predictive"]["y"].values
    means = DATA.standardisation.undo_y(posterior.function_values(X)["mean"])
    # Of a sample and the mean of its own draw the noise is left; of another draw's, more.
    own = np.std(drawn - means)
    assert own < np.std(drawn - means[:, ::-1])
    prior = sum(tree["log_prior"][name].values for name in tree["log_prior"].data_vars)
    weights = tree["posterior"]["net.Dense_0.bias"].values
    assert prior.shape == weights.shape[:2] and np.isfinite(prior).all()


def test_xarray_opens_what_is_stored(folder):
    with xr.open_datatree(folder / "posterior.zarr", engine="zarr", consolidated=False) as tree:
        summary = az.summary(tree, var_names=["noise_scale"])
        stored = tree["posterior"]["noise_scale"].values
    assert len(summary) == 1 and stored.shape == (2, 200)


def test_a_run_without_weights_has_the_groups_of_its_probe(tmp_path):
    keep = bnn.Keep(weights="none", probe=(X, Y))
    bnn.sample(NUTS(MODEL), X, Y, out=tmp_path / "run", keep=keep, **SETTINGS)
    posterior = bnn.load(tmp_path / "run")
    tree = posterior.with_groups("log_likelihood", "posterior_predictive", "observed_data").tree
    assert tree["posterior_predictive"]["y"].shape == (2, 200, len(X))
    assert tree["observed_data"]["y"].values == pytest.approx(
        DATA.standardisation.undo_y(np.asarray(Y))
    )
    with pytest.raises(ValueError, match="`log_prior` needs the model"):
        posterior.with_groups("log_prior")


def test_tempered_draws_come_with_a_warning_and_a_note():
    cold = bnn.sample(NUTS(bnn.models.linear(temperature=0.3)), X, Y, **SETTINGS)
    with pytest.warns(UserWarning, match="metrics.loo"):
        made = cold.with_groups("log_likelihood")
    assert "power 1/0.3" in made.tree["log_likelihood"].attrs["note"]
    ours = bnn.metrics.loo(cold, X, Y).log_scores.sum()
    assert az.loo(made.tree).elpd != pytest.approx(ours, abs=0.05)


def test_refusals(in_memory, folder):
    with pytest.raises(ValueError, match="no group `log_liklihood`.*log_likelihood"):
        in_memory.with_groups("log_liklihood")
    with pytest.raises(ValueError, match="need the data of the run"):
        bnn.load(folder, MODEL).with_groups("log_likelihood")
    with pytest.raises(ValueError, match="both, or neither"):
        in_memory.with_groups("log_likelihood", x=X)
