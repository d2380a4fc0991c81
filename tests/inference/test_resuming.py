"""A run on disk equals one in memory, however often it was killed on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import xarray as xr
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.storage.files import write_json

# Ten, as the record in docs/architecture.md; CI takes fewer.
KILLS = int(os.environ.get("BAYESNN_KILLS", "2"))
SETTINGS = dict(warmup=60, draws=600, chains=2, seed=3)


def kernel():
    return NUTS(bnn.models.linear(), max_tree_depth=4)


@pytest.fixture(scope="module")
def in_memory(regression):
    return bnn.sample(kernel(), *regression, progress=False, **SETTINGS)


def assert_identical(a, b):
    for name in a.draws:
        np.testing.assert_array_equal(a.draws[name], b.draws[name])
    for name in a.statistics:
        np.testing.assert_array_equal(a.statistics[name], b.statistics[name])


def test_a_run_on_disk_is_bit_for_bit_that_in_memory(regression, in_memory, tmp_path):
    run = bnn.sample(kernel(), *regression, progress=False, out=tmp_path / "run", **SETTINGS)
    assert_identical(run, in_memory)
    for entry in ("model", "kernel_settings", "data_sha256", "draws", "latents", "site_names"):
        assert run.provenance[entry] == in_memory.provenance[entry]
    assert set(run.provenance["seconds"]) == set(in_memory.provenance["seconds"])
    x, _ = regression
    np.testing.assert_array_equal(run.predict(x).mean, in_memory.predict(x).mean)


def test_a_finished_run_can_be_extended(regression, in_memory, tmp_path):
    short = SETTINGS | {"draws": 150}
    bnn.sample(kernel(), *regression, progress=False, out=tmp_path / "run", **short)
    run = bnn.extend(tmp_path / "run", kernel(), *regression, draws=450, progress=False)
    assert_identical(run, in_memory)
    assert run.provenance["draws"] == run.provenance["draws_requested"] == 600


@pytest.mark.parametrize("phase", ["warmup", "sample"])
def test_a_stopped_run_resumes(regression, in_memory, tmp_path, phase):
    def stop(progress):
        return progress.phase == phase and progress.done >= 7

    try:
        part = bnn.sample(
            kernel(), *regression, progress=False, out=tmp_path / "run", callback=stop, **SETTINGS
        )
        assert 7 <= part.provenance["draws"] < 600
        assert_identical(part, bnn.load(tmp_path / "run"))
    except RuntimeError:
        assert phase == "warmup"
    before = storage.read_config(tmp_path / "run").get("seconds", {})
    assert bool(before) == (phase == "sample")
    resumed = bnn.resume(tmp_path / "run", kernel(), *regression, progress=False)
    assert_identical(resumed, in_memory)
    assert before.keys() <= resumed.provenance["seconds"].keys()
    assert all(resumed.provenance["seconds"][name] >= taken for name, taken in before.items())
    # Once complete, there is nothing to do.
    assert_identical(bnn.resume(tmp_path / "run", kernel(), *regression, progress=False), in_memory)


def test_a_run_that_was_killed_before_its_end_was_written_is_finished(
    regression, in_memory, tmp_path, monkeypatch
):
    """All draws are committed, a chunk is just whole, and the record does not say "complete"."""
    monkeypatch.setattr("bayesnn_ppl.storage.zarr_store._MOST_CHUNK_DRAWS", 200)
    with monkeypatch.context() as patched:
        patched.setattr("bayesnn_ppl.inference.runtime.draw_writers._COMMIT_SECONDS", 0.0)
        patched.setattr("bayesnn_ppl.inference.runtime.draw_writers.FolderSink.finish", "killed")
        with pytest.raises(TypeError, match="not callable"):
            bnn.sample(kernel(), *regression, progress=False, out=tmp_path / "run", **SETTINGS)
    record = storage.read_commit(tmp_path / "run")
    assert record["draws"] == record["in_store"] == 600 and not record["complete"]
    assert 0 < record["seconds"] < 1000
    write_json(tmp_path / "run" / "commit.json", record | {"seconds": 1000})
    run = bnn.resume(tmp_path / "run", kernel(), *regression, progress=False)
    assert_identical(run, in_memory)
    assert storage.read_commit(tmp_path / "run")["complete"]
    assert run.provenance["seconds"]["total"] > 1000  # of the process that was killed, too


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"devices": {"cores": 96}}, "was begun with 96 processor cores, and is resumed with"),
        ({"versions": {"jaxlib": "0.0.1"}}, "begun with jaxlib 0.0.1, and is resumed with jaxlib"),
        ({"versions": {"numpy": "0.0.1"}}, None),
    ],
)
def test_what_changes_the_rounding_of_a_resumed_run_is_told(regression, tmp_path, entry, words):
    short = SETTINGS | {"draws": 5}
    bnn.sample(kernel(), *regression, progress=False, out=tmp_path / "run", **short)
    file = tmp_path / "run" / "config.json"
    config = json.loads(file.read_text())
    for part, values in entry.items():
        config[part] |= values
    file.write_text(json.dumps(config))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bnn.resume(tmp_path / "run", kernel(), *regression, progress=False)  # nothing is left
        assert not caught
        bnn.extend(tmp_path / "run", kernel(), *regression, draws=2, progress=False)
    said = [str(warning.message) for warning in caught]
    assert said == [] if words is None else len(said) == 1 and words in said[0]


PROGRAM = """
import sys, time
import jax
jax.config.update("jax_num_cpu_devices", 4)
import numpy as np
from numpyro.infer import NUTS
import bayesnn_ppl as bnn
from bayesnn_ppl.inference.runtime import block_loop, draw_writers
block_loop.BLOCK_SECONDS, draw_writers._COMMIT_SECONDS = 0.0005, 0.0  # many blocks, each committed
x, y = np.load(sys.argv[2]), np.load(sys.argv[3])
kernel = NUTS(bnn.models.linear(), max_tree_depth=4)
def slowly(progress):
    print(progress.phase, progress.done, flush=True)
    time.sleep(0.02)
if sys.argv[4] == "sample":
    bnn.sample(kernel, x, y, warmup=60, draws=600, chains=2, seed=3, progress=False,
               out=sys.argv[1], callback=slowly)
else:
    bnn.resume(sys.argv[1], kernel, x, y, progress=False, callback=slowly)
"""


@pytest.mark.check
def test_a_killed_run_is_bit_for_bit_the_same_at_its_end(regression, in_memory, tmp_path):
    """kill -9 at random moments of warm-up, sampling and writing."""
    path = tmp_path / "run"
    for name, array in zip("xy", regression, strict=True):
        np.save(tmp_path / f"{name}.npy", array)
    arguments = [str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    moments = random.Random(0)
    reported = 0
    for attempt in range(KILLS):
        how = "resume" if (path / "commit.json").exists() else "sample"
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments, how],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        assert process.stdout is not None
        assert process.stdout.readline(), "it must begin before it is killed"
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        committed = json.loads((path / "commit.json").read_text())
        assert committed["draws"] >= reported, f"attempt {attempt} lost draws"
        reported = committed["draws"]
        if committed["complete"]:
            break  # it was faster than the kill
        if reported:
            assert storage.check(path) == []
            assert bnn.load(path).draws["noise_scale"].shape == (2, reported)
    assert_identical(bnn.resume(path, kernel(), *regression, progress=False), in_memory)


def test_others_may_read_during_a_run(regression, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.inference.runtime.draw_writers._COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("bayesnn_ppl.storage.zarr_store._MOST_CHUNK_DRAWS", 50)
    seen = []

    def look(progress):
        if progress.phase == "sample":
            found = bnn.load(tmp_path / "run")
            assert found.draws["noise_scale"].shape == (2, progress.done)
            if progress.done > 50:
                with xr.open_datatree(
                    tmp_path / "run" / "posterior.zarr", engine="zarr", consolidated=False
                ) as tree:
                    values = tree["posterior"]["noise_scale"].values
                assert np.isfinite(values).all() and values.shape[1] % 50 == 0
            seen.append(progress.done)

    bnn.sample(
        kernel(),
        *regression,
        progress=False,
        out=tmp_path / "run",
        callback=look,
        **(SETTINGS | {"draws": 300}),
    )
    assert seen and seen[-1] == 300, "an error in the callback would have ended the looking"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda k, x, y: (NUTS(bnn.models.linear(), max_tree_depth=5), x, y),
            "other settings of the kernel",
        ),
        (
            lambda k, x, y: (NUTS(bnn.models.linear(temperature=0.5), max_tree_depth=4), x, y),
            "made with another model",
        ),
        (lambda k, x, y: (k, x, y + 1), "made with other data"),
    ],
)
def test_another_kernel_model_or_data_are_refused(regression, tmp_path, change, sentence):
    bnn.sample(kernel(), *regression, progress=False, out=tmp_path / "run", **SETTINGS)
    with pytest.raises(ValueError, match=sentence):
        bnn.extend(tmp_path / "run", *change(kernel(), *regression), draws=5, progress=False)


def test_what_was_saved_from_memory_cannot_be_resumed(regression, in_memory, tmp_path):
    in_memory.save(tmp_path / "run")
    with pytest.raises(ValueError, match="no sampler's state to resume from"):
        bnn.extend(tmp_path / "run", kernel(), *regression, draws=5, progress=False)
