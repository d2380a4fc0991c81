"""The files of the reference posteriors, what is said of them, and what they are refused for."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import distance_to_reference, function_moments, rhat
from bayesnn_ppl.references import stored

FOLDER = Path(stored.__file__).parent
NAMES = bnn.references.names()


def test_every_family_has_a_reference():
    families = {bnn.references.load(name).facts["family"] for name in NAMES}
    assert families == {"uci", "classification", "hierarchical", "cold"}
    assert {"bostonHousing", "concrete"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_two_samplers_agree_and_a_wrong_temperature_does_not(name):
    facts = bnn.references.load(name).facts
    assert [s["kernel"] for s in facts["samplers"]] == ["HMC", "NUTS"]
    assert all(s["rhat_max"] < 1.01 and s["ess_min"] >= 400 for s in facts["samplers"])
    agreement, control = facts["agreement"], facts["control"]
    assert agreement["verdict"] == "within Monte Carlo error"
    assert agreement["largest"] <= agreement["allowed"] < 6
    assert control["verdict"] == "differs"
    assert control["largest"] > 2 * control["allowed"]
    assert control["factor"] != 1


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_draws_have_the_stored_moments(name):
    reference = bnn.references.load(name)
    assert reference.facts["name"] in str(reference)
    for output, draws in reference.draws.items():
        moments = reference.moments[output]
        assert draws.shape[:2] == (8, 125)
        assert draws.shape[2] in (reference.rows, 1)
        own = function_moments(draws)
        z = (own.mean - moments.mean) / own.mean_error
        assert np.abs(z).max() < 5
        assert np.nanmax(rhat(draws)) < 1.06
        np.testing.assert_array_less(np.abs(own.sd / moments.sd - 1), 0.35)
        assert (np.diff(moments.quantiles, axis=0) > 0).all()
        assert (moments.mean_error < 0.06 * moments.sd).all()
    units = reference.facts["units"]
    assert np.isfinite([units["y_mean"], units["y_scale"]]).all()


def test_predictions_are_in_the_units_of_the_data():
    reference = bnn.references.load("diabetes-ard")
    data = reference.data()
    prediction = reference.predict(data.test.x)
    y = prediction.y(data.test.y)
    np.testing.assert_allclose(y, data.standardisation.undo_y(np.asarray(data.test.y)), rtol=1e-5)
    samples = prediction.samples(4000, seed=1)
    assert samples.shape == (4000, len(y))
    np.testing.assert_allclose(samples.mean(0), prediction.mean, atol=0.1 * y.std())
    assert np.mean((y - prediction.mean) ** 2) < 0.7 * y.var(), "better than the mean"
    with pytest.raises(ValueError, match="no class probabilities"):
        prediction.probabilities  # noqa: B018
    labels = bnn.references.load("wine-cold")
    p = labels.predict(labels.data().test.x).probabilities
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="and `x` of shape .*are others"):
        labels.predict(labels.data().test.x[::-1])


def test_comparisons_know_the_names(posterior):
    reference = bnn.references.load("wine-cold")
    x, y = reference.data().test
    near, far = posterior(1.0), posterior(0.2)
    found = bnn.metrics.compare({"near": near, "far": far}, x, y, reference="wine-cold")
    assert found.reference == "wine-cold" and "wine-cold" in str(found)
    lines = found.lines
    assert lines["near"]["total_variation"] < 0.01 < 3 * lines["near"]["total_variation"] + 0.03
    assert lines["far"]["total_variation"] > 5 * lines["near"]["total_variation"]
    with pytest.raises(ValueError, match="not one of the posteriors. Did you mean `wine-cold`"):
        bnn.metrics.compare({"near": near, "far": far}, x, y, reference="wine-cool")


@pytest.fixture
def posterior():
    """A stand-in that predicts the reference's probabilities, shrunk towards equal ones."""

    class Shrunk:
        def __init__(self, weight):
            reference = bnn.references.load("wine-cold")
            self.prediction = reference.predict(reference.data().test.x)
            p = self.prediction.probabilities
            self.mixed = weight * p + (1 - weight) / 3

        def predict(self, x):
            return _Labels(self.mixed)

    return Shrunk


class _Labels:
    task = "classification"
    most_samples = None

    def __init__(self, p):
        self.probabilities = self.mean = p
        self.entropy = self.mutual_information = np.zeros(len(p))

    def y(self, y):
        return np.asarray(y)

    def log_prob(self, y):
        return np.log(self.probabilities[np.arange(len(y)), y])


def test_distances_of_arrays():
    reference = bnn.references.load("diabetes-ard")
    own = dict(reference.draws)
    found = distance_to_reference(own, "diabetes-ard")
    assert found.agrees and found.comparisons == 2 * (reference.rows + 1)
    assert found.wasserstein["mean"] < 0.01, "its own draws"
    assert found.total_variation is None
    assert json.loads(json.dumps(found.to_dict()))["reference"] == "diabetes-ard"
    moved = own | {"mean": own["mean"] + reference.moments["mean"].sd}
    far = distance_to_reference(moved, reference)
    assert far.verdict == "differs" and far.where.startswith("mean of mean[")
    assert far.mean_difference == pytest.approx(1, abs=0.2)
    assert far.wasserstein["mean"] == pytest.approx(1, abs=0.05)
    wide = own | {
        "mean": moved["mean"].mean((0, 1)) + 1.5 * (own["mean"] - own["mean"].mean((0, 1)))
    }
    assert distance_to_reference(wide, reference).spread[1] > 1.35
    few = {name: a[:, :8] for name, a in moved.items()}
    assert distance_to_reference(few, reference).verdict == "not judged"
    apart = moved | {"mean": moved["mean"] + np.arange(8)[:, None, None]}
    assert "R-hat" in str(distance_to_reference(apart, reference))


def test_distances_are_refused_where_they_mean_nothing():
    reference = bnn.references.load("diabetes-ard")
    own = dict(reference.draws)
    for message, values in (
        ("has the outputs .* has", {"mean": own["mean"]}),
        ("of another model or of other rows", own | {"mean": own["mean"][..., 1:]}),
        ("must be finite", own | {"mean": own["mean"] * np.nan}),
        ("4 draws at least", {name: a[:, :3] for name, a in own.items()}),
    ):
        with pytest.raises(ValueError, match=message):
            distance_to_reference(values, reference)
    with pytest.raises(ValueError, match="posterior 'wine-cool'. Did you mean `wine-cold`"):
        distance_to_reference(own, "wine-cool")


def test_a_damaged_file_is_refused(tmp_path, monkeypatch):
    for ending in ("npz", "json"):
        shutil.copy(FOLDER / f"wine-cold.{ending}", tmp_path)
    monkeypatch.setattr(stored, "_FOLDER", tmp_path)
    stored.load.cache_clear()
    assert bnn.references.names() == ("wine-cold",)
    bnn.references.load("wine-cold")
    content = bytearray((tmp_path / "wine-cold.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "wine-cold.npz").write_bytes(content)
    stored.load.cache_clear()
    with pytest.raises(ValueError, match="damaged: its hash is not"):
        bnn.references.load("wine-cold")
    stored.load.cache_clear()


def test_posteriordb_reads_back(tmp_path, monkeypatch):
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    written = bnn.references.export_posteriordb(tmp_path, ["wine-cold", "bostonHousing"])
    assert written == {"wine-cold": True, "bostonHousing": False}
    reference = bnn.references.load("wine-cold")
    [path] = [p for p in (tmp_path / "posteriors").iterdir() if "wine" in p.name]
    entry = json.loads(path.read_text())
    name = entry["reference_posterior_name"]
    assert entry["name"] == name == path.stem
    assert entry["dimensions"] == {"probability": 18 * 3}
    folder = tmp_path / "reference_posteriors"
    with zipfile.ZipFile(folder / "draws" / "draws" / f"{name}.json.zip") as archive:
        chains = json.loads(archive.read(f"{name}.json"))
    info = json.loads((folder / "draws" / "info" / f"{name}.info.json").read_text())
    labels = info["diagnostics"]["diagnostic_information"]["names"]
    assert len(chains) == info["diagnostics"]["nchains"] == 8
    assert list(chains[0]) == labels and labels[4] == "probability[2,2]"
    back = np.array([[chain[label] for label in labels] for chain in chains])
    expected = reference.draws["probability"].reshape(8, 125, -1)
    np.testing.assert_allclose(np.moveaxis(back, 1, 2), expected, rtol=1e-6)
    np.testing.assert_allclose(
        info["diagnostics"]["r_hat"], rhat(expected), rtol=1e-3, err_msg="of the stored draws"
    )
    assert info["checks_made"]["two_samplers_agree"] and not info["checks_made"]["ndraws_is_10k"]
    means = json.loads(
        (folder / "summary_statistics" / "mean" / "mean" / f"{name}.json").read_text()
    )
    np.testing.assert_allclose(means["mean"], reference.moments["probability"].mean.ravel())
    model = json.loads((tmp_path / "models/info" / f"{entry['model_name']}.info.json").read_text())
    code = {}
    exec((tmp_path / model["model_code"]["numpyro"]).read_text(), code)
    assert code["make_model"]().temperature == 0.3
    data = json.loads((tmp_path / "data/info" / f"{entry['data_name']}.info.json").read_text())
    with zipfile.ZipFile(tmp_path / f"{data['data_file']}.zip") as archive:
        values = json.loads(archive.read(Path(data["data_file"]).name))
    assert np.shape(values["x"]) == (values["N"], values["D"]) == reference.data().train.x.shape
