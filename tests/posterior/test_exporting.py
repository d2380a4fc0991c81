"""Exported predictions: in a process without the library, in the data's units, and refused."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import bayesnn_ppl as bnn

RNG = np.random.default_rng(2)
DRAWS = 5
# What a reader types, after imports of all that the library is made of have been forbidden.
READER = """
import sys


class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("bayesnn_ppl", "numpyro", "flax", "optax", "arviz", "xarray"):
            raise ImportError(f"{name} is forbidden")


sys.meta_path.insert(0, Forbidden())
try:
    import numpyro
except ImportError:
    pass
else:
    raise SystemExit("numpyro was imported")
import jax
import numpy as np

folder, rows, out = sys.argv[1:]
with open(f"{folder}/function.jax", "rb") as file:
    function = jax.export.deserialize(bytearray(file.read()))
draws = dict(np.load(f"{folder}/draws.npz"))
predict = jax.jit(function.call)
np.savez(out, **predict(draws, np.load(rows)))
example = dict(np.load(f"{folder}/example.npz"))
for name, value in predict(draws, example.pop("x")).items():
    np.testing.assert_allclose(value, example[name], rtol=1e-4, atol=1e-5)
"""


def of_draws(model, data, **shapes):
    """A posterior that knows its data, from draws made by hand."""
    draws = {
        name: RNG.normal(size=(1, DRAWS, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    draws = {n: np.abs(a) + 0.5 if n == "noise_scale" else a for n, a in draws.items()}
    attributes = {
        "latents": list(draws),
        "precision": "float32",
        "chains": 1,
        "draws": DRAWS,
        "dataset": {"feature_names": list(data.feature_names), "class_names": data.class_names},
    }
    return bnn.Posterior.from_arrays(
        draws,
        {"lp": np.zeros((1, DRAWS))},
        attributes,
        model=model,
        standardisation=data.standardisation,
    )


@pytest.fixture(scope="module")
def diabetes():
    return bnn.data.load("diabetes")


@pytest.fixture(scope="module")
def plane(diabetes):
    sites = {"net/Dense_0.kernel": (10, 1), "net/Dense_0.bias": (1,), "noise_scale": ()}
    return of_draws(bnn.models.linear(), diabetes, **sites)


@pytest.fixture(scope="module")
def exported(plane, diabetes, tmp_path_factory):
    return plane.export(tmp_path_factory.mktemp("plane"), diabetes.test.x)


def arrays(path):
    with np.load(path) as file:
        return dict(file)


def call(folder, x):
    function = jax.export.deserialize(bytearray((folder / "function.jax").read_bytes()))
    said = function.call(arrays(folder / "draws.npz"), x)
    return {name: np.asarray(a) for name, a in said.items()}


def raw_rows(data):
    return np.asarray(data.standardisation.undo_x(data.test.x)).astype(np.float32)


def test_a_process_without_the_library_predicts(plane, exported, diabetes, tmp_path):
    raw = raw_rows(diabetes)
    np.save(tmp_path / "rows.npy", raw)
    done = subprocess.run(
        [sys.executable, "-c", READER, exported, tmp_path / "rows.npy", tmp_path / "out.npz"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    said, expected = arrays(tmp_path / "out.npz"), plane.predict(diabetes.test.x)
    assert said["mean"].shape == (len(raw),), "more rows than it was exported with"
    np.testing.assert_allclose(said["mean"], expected.mean, rtol=1e-3, atol=0.1)
    np.testing.assert_allclose(said["sd"], np.sqrt(expected.variance), rtol=1e-3)
    np.testing.assert_allclose(said["aleatoric_sd"], np.sqrt(expected.aleatoric), rtol=1e-3)
    np.testing.assert_allclose(said["epistemic_sd"], np.sqrt(expected.epistemic), rtol=1e-3)
    # In the data's units, and not in those of the model: 150 ± 80.
    standardised = call(exported, np.asarray(diabetes.test.x))["mean"]
    assert np.abs(standardised - expected.mean).max() > 10


def test_the_record_says_what_goes_in_and_comes_out(exported, diabetes):
    about = json.loads((exported / "about.json").read_text())
    assert about["inputs"]["shape"] == ["rows", 10]
    assert about["inputs"]["features"] == list(diabetes.feature_names)
    assert about["inputs"]["units"] == "the data's"
    assert set(about["outputs"]) == {"mean", "sd", "aleatoric_sd", "epistemic_sd"}
    assert about["outputs"]["sd"] == {"shape": ["rows"], "dtype": "float32"}
    assert (about["task"], about["draws"], about["platforms"]) == ("regression", DRAWS, ["cpu"])


def test_draws_are_an_argument_and_not_in_the_function(plane, exported, diabetes, tmp_path):
    few = plane.compress(2, diabetes.train.x).export(tmp_path / "few", diabetes.test.x)
    sizes = [(folder / "function.jax").stat().st_size for folder in (few, exported)]
    assert abs(sizes[0] - sizes[1]) < 2_000
    drawn = arrays(exported / "draws.npz")
    assert {name: a.shape[0] for name, a in drawn.items()} == dict.fromkeys(
        ("net.Dense_0.kernel", "net.Dense_0.bias", "noise_scale"), DRAWS
    )
    function = jax.export.deserialize(bytearray((exported / "function.jax").read_bytes()))
    double = {name: 2 * a for name, a in drawn.items()}
    rows = raw_rows(diabetes)
    changed = np.asarray(function.call(double, rows)["mean"])
    mean = diabetes.standardisation.y_mean
    expected = mean + 2 * (call(exported, rows)["mean"] - mean)
    np.testing.assert_allclose(changed, expected, rtol=1e-3, atol=0.1)


def test_components_are_those_of_each_draw(plane, diabetes, tmp_path):
    said = call(plane.export(tmp_path / "f", diabetes.test.x, components=True), raw_rows(diabetes))
    values, units = plane.function_values(diabetes.test.x), diabetes.standardisation
    mean = units.y_mean + units.y_scale * values["mean"][0]
    np.testing.assert_allclose(said["mean"], mean, rtol=1e-3, atol=0.1)
    sd = np.broadcast_to(units.y_scale * values["sd"][0], mean.shape)
    np.testing.assert_allclose(said["sd"], sd, rtol=1e-3)


def test_labels_have_probabilities_for_every_platform(tmp_path):
    """Lowered for accelerators that are not here; what runs is the part for the CPU."""
    data = bnn.data.load("wine")
    model = bnn.models.logistic(classes=3)
    sites = {"net/Dense_0.kernel": (13, 3), "net/Dense_0.bias": (3,)}
    posterior = of_draws(model, data, **sites)
    folder = posterior.export(tmp_path / "f", data.test.x, platforms=("cuda", "tpu"))
    function = jax.export.deserialize(bytearray((folder / "function.jax").read_bytes()))
    assert function.platforms == ("cpu", "cuda", "tpu")
    said, expected = call(folder, raw_rows(data)), posterior.predict(data.test.x)
    np.testing.assert_allclose(said["probabilities"], expected.probabilities, atol=1e-4)
    np.testing.assert_allclose(said["entropy"], expected.entropy, atol=1e-3)
    np.testing.assert_allclose(said["mutual_information"], expected.mutual_information, atol=1e-3)
    about = json.loads((folder / "about.json").read_text())
    assert about["classes"] == list(data.class_names)
    assert about["outputs"]["probabilities"]["shape"] == ["rows", 3]


def test_double_precision_stays(diabetes, tmp_path):
    posterior = of_draws(
        bnn.models.linear(),
        diabetes,
        **{"net/Dense_0.kernel": (10, 1), "net/Dense_0.bias": (1,), "noise_scale": ()},
    )
    run = posterior.provenance | {"precision": "float64"}
    draws = {n: a.astype(np.float64) for n, a in posterior.samples(group_by_chain=True).items()}
    exact = bnn.Posterior.from_arrays(
        draws, {"lp": np.zeros((1, DRAWS))}, run, model=posterior.model,
        standardisation=diabetes.standardisation,
    )  # fmt: skip
    folder = exact.export(tmp_path / "f", diabetes.test.x)
    rows = diabetes.standardisation.undo_x(np.asarray(diabetes.test.x, np.float64))
    with jax.enable_x64(True):
        said = call(folder, rows)
    np.testing.assert_allclose(said["mean"], exact.predict(diabetes.test.x).mean, rtol=1e-12)


def test_bad_arguments_are_refused_before_anything_is_written(plane, diabetes, tmp_path):
    x = diabetes.test.x
    with pytest.raises(ValueError, match="'gpu' is unknown to `jax.export`.*`cpu`"):
        plane.export(tmp_path / "f", x, platforms=("gpu",))
    with pytest.raises(TypeError, match="a tuple of names"):
        plane.export(tmp_path / "f", x, platforms="tpu")
    with pytest.raises(ValueError, match="is an address"):
        plane.export("s3://bucket/f", x)
    with pytest.raises(ValueError, match="loaded without its model"):
        bnn.Posterior(plane.tree).export(tmp_path / "f", x)
    with pytest.raises(TypeError, match="`x` is None"):
        plane.export(tmp_path / "f", None)
    assert not (tmp_path / "f").exists()
    (tmp_path / "note").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        plane.export(tmp_path, x)


def test_without_flatbuffers_it_says_what_to_install(plane, diabetes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(ImportError, match=r"bayesnn_ppl\[export\]"):
        plane.export(tmp_path / "f", diabetes.test.x)


def test_a_model_that_counts_its_rows_in_python_is_refused(diabetes, tmp_path):
    """`if x.shape[0] > 3` has no answer for any number of rows."""
    import numpyro
    import numpyro.distributions as dist

    def model(x, y=None, *, batch_size=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1).expand([10]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            numpyro.sample("y", dist.Normal(x @ slope * (x.shape[0] > 3), 1.0), obs=y)

    posterior = of_draws(model, diabetes, slope=(10,))
    with pytest.raises(ValueError, match="cannot be exported: .* any number of rows"):
        posterior.export(tmp_path / "f", diabetes.test.x)


def test_digits_that_float32_does_not_have_are_noticed(tmp_path):
    """A column at 10⁸ ± 1: its standardised values are lost in the data's units."""
    raw = RNG.normal(size=(60, 2))
    raw[:, 0] += 1e8
    data = bnn.data.from_arrays(raw, raw.sum(1) - 1e8)
    sites = {"net/Dense_0.kernel": (2, 1), "net/Dense_0.bias": (1,), "noise_scale": ()}
    posterior = of_draws(bnn.models.linear(), data, **sites)
    with pytest.raises(ValueError, match="float32 has too few digits"):
        posterior.export(tmp_path / "f", data.test.x)
    assert not (tmp_path / "f").exists()
