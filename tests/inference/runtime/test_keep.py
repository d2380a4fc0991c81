"""What a run keeps: everything else it says must be what all weights would have said."""

import csv
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from numpyro.infer import HMC

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from tests.marks import checked

SETTINGS = dict(warmup=50, draws=103, chains=2, seed=3, progress=False)


def kernel(model):
    return HMC(model, num_steps=5, trajectory_length=None)


@pytest.fixture(scope="module")
def labels():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(60, 2)).astype(np.float32)
    return x, (x[:, 0] + 0.5 * generator.normal(size=60) > 0).astype(np.int32)


def run(data, keep=None, model=None, **more):
    model = bnn.models.linear() if model is None else model
    return bnn.sample(kernel(model), *data, keep=keep, **SETTINGS | more)


def lines(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def probe(regression):
    x, y = regression
    return x[::3], y[::3]


@pytest.fixture(scope="module")
def everything(regression, probe):
    """All weights, and function values beside them, in memory."""
    return run(regression, bnn.Keep(probe=probe))


@pytest.fixture(scope="module")
def functions_only(regression, probe, tmp_path_factory):
    """The same run without weights, on disk."""
    out = tmp_path_factory.mktemp("keep") / "run"
    return run(regression, bnn.Keep(weights="none", probe=probe), out=out), out


def test_a_probe_does_not_change_the_draws(regression, everything):
    plain = run(regression)
    for name, array in plain.draws.items():
        np.testing.assert_array_equal(array, everything.draws[name])


def test_kept_function_values_are_those_of_the_weights(everything, probe):
    x, y = probe
    recorded, computed = everything.function_values(), everything.function_values(x)
    assert recorded.keys() == computed.keys() == {"mean", "sd"}
    for name in computed:
        assert recorded[name].shape == computed[name].shape
        np.testing.assert_allclose(recorded[name], computed[name], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(
        everything.log_likelihood(), everything.log_likelihood(x, y), rtol=1e-4, atol=1e-5
    )
    prediction, exact = everything.predict(), everything.predict(x)
    for name in ("mean", "aleatoric", "epistemic", "variance"):
        np.testing.assert_allclose(
            getattr(prediction, name), getattr(exact, name), rtol=1e-4, atol=1e-6
        )
    np.testing.assert_allclose(prediction.log_prob(y), exact.log_prob(y), rtol=1e-4, atol=1e-5)


def test_scores_without_the_model_are_those_with_it(everything, functions_only, probe):
    scores = bnn.metrics.evaluate(bnn.load(functions_only[1]))
    exact = bnn.metrics.evaluate(everything, *probe)
    assert set(scores) == set(exact) and scores.rows == exact.rows
    for name in ("rmse", "nll_mixture", "nll_moment_matched"):
        assert scores[name] == pytest.approx(exact[name], rel=1e-4)
    for name in ("crps", "width_50", "width_90"):  # of 206 samples
        assert scores[name] == pytest.approx(exact[name], rel=0.1)


def test_samples_are_of_the_predictive_distribution(everything, probe):
    """Chi-square of the standardised samples; the negative control leaves the noise out."""
    kept = everything.tree["predictions"]
    z = (kept["y"].values - kept["mean"].values) / kept["sd"].values
    rows = z.reshape(-1, z.shape[-1])
    assert abs((rows**2).mean() - 1) < 5 * np.sqrt(2 / rows.size)
    assert abs(np.corrcoef(rows[:-1].ravel(), rows[1:].ravel())[0, 1]) < 5 / np.sqrt(rows.size)
    assert abs(np.corrcoef(z[0].ravel(), z[1].ravel())[0, 1]) < 5 / np.sqrt(z[0].size)
    with pytest.raises(ValueError, match="one predictive sample of each of its 206 draws"):
        everything.predict().samples(207)
    assert not np.array_equal(
        everything.predict().samples(5), everything.predict().samples(5, seed=1)
    )


def test_a_run_is_judged_in_a_process_without_the_model(functions_only, everything):
    posterior, out = functions_only
    assert not posterior.has_weights and posterior.draws == {}
    assert "posterior" not in storage.read(out).children
    code = (
        "import sys, bayesnn_ppl as bnn\n"
        f"p = bnn.load({str(out)!r})\n"
        "print(p.diagnose().status, len(p.diagnose().functions), p)\n"
        "print(bnn.metrics.evaluate(p)['rmse'])\n"
        "assert 'bayesnn_ppl.models' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(everything.diagnose().status) and "function values" in first
    assert float(second) == pytest.approx(bnn.metrics.evaluate(everything)["rmse"], rel=1e-4)
    with pytest.raises(ValueError, match="kept no weights"):
        bnn.load(out, bnn.models.linear()).predict(everything.probe[0])


@pytest.mark.parametrize("kind", checked(["a mesh of both axes", "an ensemble kernel"]))
def test_everywhere(regression, probe, kind):
    x, y = regression
    model = bnn.models.linear()
    if kind == "an ensemble kernel":
        settings = dict(SETTINGS, chains=4, mesh=bnn.device_mesh(2))
        posterior = bnn.sample(
            bnn.kernels.ChEES(model), x, y, keep=bnn.Keep(probe=probe), **settings
        )
    else:
        mesh = bnn.device_mesh(2, 2)
        posterior = bnn.sample(
            kernel(model), x, y, keep=bnn.Keep(probe=probe), **SETTINGS, mesh=mesh
        )
    recorded, computed = posterior.function_values(), posterior.function_values(probe[0])
    np.testing.assert_allclose(recorded["mean"], computed["mean"], rtol=2e-5, atol=1e-5)
    assert posterior.statistics["acceptance_rate"].std(axis=0).max() > 0  # one for each chain


def test_labels(labels):
    x, y = labels
    posterior = run(labels, bnn.Keep(probe=(x[:7], y[:7])), bnn.models.logistic(classes=2))
    prediction, exact = posterior.predict(), posterior.predict(x[:7])
    for name in ("probabilities", "entropy", "mutual_information"):
        np.testing.assert_allclose(
            getattr(prediction, name), getattr(exact, name), rtol=1e-4, atol=1e-5
        )
    assert dict(bnn.metrics.evaluate(posterior)) == pytest.approx(
        dict(bnn.metrics.evaluate(posterior, x[:7], y[:7])), rel=1e-3, abs=1e-5
    )
    shares = (posterior.tree["predictions"]["y"].values == 1).mean(axis=(0, 1))
    np.testing.assert_allclose(shares, prediction.probabilities[:, 1], atol=0.17)


@pytest.mark.parametrize("on_disk", checked([True, False]))
def test_weights_of_every_tenth_draw(regression, probe, everything, tmp_path, on_disk):
    out = tmp_path / "run" if on_disk else None
    posterior = run(regression, bnn.Keep(every=10, probe=probe), out=out)
    for name, array in everything.draws.items():
        np.testing.assert_array_equal(posterior.draws[name], array[:, 9::10])
    assert posterior.statistics["lp"].shape == (2, 103)
    assert posterior.function_values()["mean"].shape[1] == 103
    assert posterior.predict(probe[0]).components.count == 20
    np.testing.assert_array_equal(posterior.tree["posterior"]["draw"], np.arange(9, 103, 10))
    posterior.save(tmp_path / "copy")
    again = bnn.load(tmp_path / "copy")
    for name in posterior.draws:
        np.testing.assert_array_equal(again.draws[name], posterior.draws[name])
    np.testing.assert_array_equal(again.probe[0], probe[0])
    assert bnn.metrics.evaluate(again).to_dict() == bnn.metrics.evaluate(posterior).to_dict()


@pytest.mark.parametrize("on_disk", checked([True, False]))
def test_moments_are_those_of_the_draws(regression, probe, everything, tmp_path, on_disk):
    out = tmp_path / "run" if on_disk else None
    posterior = run(regression, bnn.Keep(weights="moments", probe=probe), out=out)
    assert not posterior.has_weights
    for name, (mean, variance) in everything.moments.items():
        kept_mean, kept_variance = posterior.moments[name]
        assert kept_mean.shape == mean.shape and kept_mean.dtype == np.float64
        np.testing.assert_allclose(kept_mean, mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(kept_variance, variance, rtol=1e-6, atol=1e-12)
    posterior.save(tmp_path / "copy")
    copy = bnn.load(tmp_path / "copy")
    for name in posterior.moments:
        np.testing.assert_array_equal(copy.moments[name], posterior.moments[name])


def test_bfloat16_halves_the_space_and_opens_anywhere(tmp_path):
    generator = np.random.default_rng(0)
    data = generator.normal(size=(30, 60)).astype(np.float32), generator.normal(size=30)
    sizes = {}
    for name, keep in (("full", None), ("half", bnn.Keep(bfloat16=True))):
        run(data, keep, out=tmp_path / name, draws=400)
        store = tmp_path / name / "posterior.zarr" / "posterior" / "net.Dense_0.kernel"
        sizes[name] = sum(f.stat().st_size for f in store.rglob("*") if f.is_file())
        tree = xr.open_datatree(tmp_path / name / "posterior.zarr", consolidated=False)
        assert tree["posterior"]["net.Dense_0.kernel"].dtype == np.float32
    assert sizes["half"] < 0.6 * sizes["full"]
    full, half = (bnn.load(tmp_path / n).draws["net.Dense_0.kernel"] for n in ("full", "half"))
    assert (full != half).mean() > 0.9
    np.testing.assert_allclose(half, full, rtol=2**-8)


@pytest.mark.parametrize(
    "keep",
    checked([dict(weights="moments"), dict(every=7), dict(weights="none"), dict(bfloat16=True)]),
    ids=str,
)
def test_a_resumed_run_keeps_the_same(regression, probe, tmp_path, keep, monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.inference.runtime.block_loop.BLOCK_SECONDS", 1e-3)
    keep = bnn.Keep(**keep, probe=probe)
    whole = run(regression, keep, out=tmp_path / "whole")

    def stop(progress):
        return progress.phase == "sample" and progress.done >= 20

    part = run(regression, keep, out=tmp_path / "run", callback=stop)
    assert 20 <= part.provenance["draws"] < 103
    model = bnn.models.linear()
    resumed = bnn.resume(tmp_path / "run", kernel(model), *regression, progress=False)
    for group in whole.tree.children:
        for name, array in whole.tree[group].data_vars.items():
            np.testing.assert_array_equal(array, resumed.tree[group][name])
    rows = {name: lines(tmp_path / name) for name in ("whole", "run")}
    for name in ("rmse", "nll"):  # sums continue where they were left
        assert rows["run"][-1][name] == rows["whole"][-1][name]
    assert storage.check(tmp_path / "run") == []


def test_reading_thinned(regression, probe, everything, tmp_path):
    run(regression, bnn.Keep(probe=probe), out=tmp_path / "run")
    thin = bnn.load(tmp_path / "run", bnn.models.linear(), thin=10)
    assert thin.provenance["draws"] == 10 and thin.provenance["thinned_on_read"] == 10
    for name, array in everything.draws.items():
        np.testing.assert_array_equal(thin.draws[name], array[:, 9::10])
    assert thin.predict(probe[0]).components.count == 20
    np.testing.assert_array_equal(
        thin.function_values()["mean"], everything.function_values()["mean"][:, 9::10]
    )
    for bad, words in ((104, "none is left"), (0, "at least 1")):
        with pytest.raises(ValueError, match=words):
            bnn.load(tmp_path / "run", thin=bad)


def test_metrics_over_time(regression, probe, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.inference.runtime.draw_writers._COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("bayesnn_ppl.inference.runtime.block_loop.BLOCK_SECONDS", 1e-4)
    seen = []
    posterior = run(
        regression, bnn.Keep(probe=probe), out=tmp_path / "run", callback=lambda p: seen.append(p)
    )
    rows = lines(tmp_path / "run")
    assert len(rows) > 5 and {row["phase"] for row in rows} == {"warmup", "sample"}
    last = rows[-1]
    assert int(last["draws"]) == 103
    scores = bnn.metrics.evaluate(posterior)
    assert float(last["rmse"]) == pytest.approx(scores["rmse"], rel=1e-4)
    assert float(last["nll"]) == pytest.approx(scores["nll_mixture"], rel=1e-4)
    judged = [row for row in rows if row["function_rhat"]]
    assert judged and 0.9 < float(judged[-1]["function_rhat"]) < 1.5
    assert float(judged[-1]["function_ess"]) > 4
    assert seen[-1].metrics["draws"] == 103
    assert seen[-1].functions["mean"].shape[2:] == probe[1].shape


def test_tensorboard_shows_the_metrics(regression, probe, tmp_path):
    from tensorboardX.proto.event_pb2 import Event

    folder = tmp_path / "board"
    run(regression, bnn.Keep(probe=probe), callback=bnn.TensorBoard(folder))
    (file,) = folder.iterdir()
    content, found = file.read_bytes(), {}
    while content:  # a TFRecord: length (8), its checksum (4), the event, its checksum (4)
        size = int.from_bytes(content[:8], "little")
        event = Event.FromString(content[12 : 12 + size])
        content = content[16 + size :]
        found |= {value.tag: (event.step, value.simple_value) for value in event.summary.value}
    assert found["sample/rmse"][0] == 103 and found["sample/rmse"][1] > 0
    assert {"warmup/lp", "sample/lp", "sample/divergences"} <= set(found)


@pytest.mark.parametrize(
    ("keep", "error", "words"),
    [
        (dict(weights="some"), ValueError, "mean `moments`, `none`"),
        (dict(weights="none"), ValueError, "keep nothing of the posterior"),
        (dict(every=0), ValueError, "at least 1"),
        (dict(every=2.0), TypeError, "integer"),
        (dict(bfloat16=1), TypeError, "True or False"),
        (dict(weights="moments", every=2), ValueError, "keeps none"),
    ],
)
def test_contradictions_are_refused(keep, error, words):
    with pytest.raises(error, match=words):
        bnn.Keep(**keep)


@pytest.mark.parametrize(
    ("keep", "error", "words"),
    [
        (lambda x, y: "moments", TypeError, "must be a `bayesnn_ppl.Keep`"),
        (lambda x, y: bnn.Keep(bfloat16=True), ValueError, "none in memory"),
        (lambda x, y: bnn.Keep(probe=(x, y, y)), TypeError, "not 3 arrays"),
        (lambda x, y: bnn.Keep(probe=x[:, :1]), ValueError, "rows of shape"),
        (lambda x, y: bnn.Keep(probe=(x, y[:3])), ValueError, "the model predicts shape"),
        (lambda x, y: bnn.Keep(probe=x * np.nan), ValueError, "not finite"),
    ],
)
def test_a_probe_that_does_not_fit_is_refused(regression, keep, error, words):
    with pytest.raises(error, match=words):
        run(regression, keep(*regression))


def test_weights_that_no_memory_holds_are_refused_at_once(regression):
    words = r"10{12} draws of 4 values in 2 chains take 29802 GiB, and this machine has \d+ GiB .*"
    with pytest.raises(ValueError, match=words + r"`out=`; .* `keep=bnn.Keep\(every=10\)`"):
        run(regression, draws=10**12)
    laplace = bnn.approximations.Laplace(bnn.models.linear(), draws=10**12)
    with pytest.raises(ValueError, match="take 14901 GiB, .* Give Laplace fewer `draws`"):
        bnn.fit(laplace, *regression, progress=False)


def test_a_kept_draw_beyond_the_last_is_refused_at_once(regression):
    with pytest.raises(ValueError, match=r"Keep\(every=50\)` .* makes 20, so none would be kept"):
        run(regression, bnn.Keep(every=50), draws=20)
    fits = bnn.approximations
    for method, draws in (
        (fits.MAP(bnn.models.linear()), 1),
        (fits.Laplace(bnn.models.linear(), draws=20), 20),
    ):
        with pytest.raises(ValueError, match=f"each chain makes {draws}, so none would be kept"):
            bnn.fit(method, *regression, keep=bnn.Keep(every=50), progress=False)


@pytest.mark.parametrize("on_disk", checked([True, False]))
def test_a_run_that_ends_before_the_first_kept_draw_has_no_weights(
    regression, probe, tmp_path, on_disk, monkeypatch
):
    monkeypatch.setattr("bayesnn_ppl.inference.runtime.block_loop.BLOCK_SECONDS", 1e-3)
    posterior = run(
        regression,
        bnn.Keep(every=100, probe=probe, groups="log_likelihood"),
        out=tmp_path / "run" if on_disk else None,
        callback=lambda progress: progress.phase == "sample" and progress.done >= 20,
    )
    assert posterior.provenance["draws"] < 100 and not posterior.has_weights
    assert posterior.draws == posterior.moments == {}
    assert posterior.diagnose().functions["mean"]["rhat_max"] > 0
    assert bnn.metrics.evaluate(posterior)["rmse"] > 0
    with pytest.raises(ValueError, match="kept no weights"):
        posterior.predict(probe[0])


def test_what_was_not_kept_is_said(regression, probe):
    plain = run(regression)
    for ask, words in (
        (lambda: plain.predict(), "kept no function values"),
        (lambda: plain.function_values(), "kept no function values"),
        (lambda: bnn.metrics.evaluate(plain), "`x` and `y` must be given"),
        (lambda: bnn.metrics.evaluate(plain, probe[0]), "both, or neither"),
    ):
        with pytest.raises(ValueError, match=words):
            ask()
    inputs_only = run(regression, bnn.Keep(weights="none", probe=probe[0]))
    with pytest.raises(ValueError, match="kept no function values with targets"):
        bnn.metrics.evaluate(inputs_only)
    with pytest.raises(ValueError, match="kept no targets"):
        inputs_only.predict().log_prob(probe[1])
    with_targets = run(regression, bnn.Keep(weights="none", probe=probe))
    with pytest.raises(ValueError, match="these are others"):
        with_targets.predict().log_prob(np.asarray(probe[1]) + 1)
    moments = run(regression, bnn.Keep(weights="moments"))
    with pytest.raises(ValueError, match="nothing to judge convergence by"):
        moments.diagnose()
    with pytest.raises(ValueError, match="no draws of its weights, .* it kept their moments"):
        moments.predict(probe[0])
