"""`compress` and `export`: a saved run becomes a smaller one, and a function for JAX alone."""

import json

import jax
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main


def printed(capsys, *argv):
    assert main([str(word) for word in argv]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def small(linear_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "ten"
    assert main(["compress", str(linear_run), "--draws", "10", "--out", str(folder)]) == 0
    return folder


def test_the_draws_are_those_of_python_at_the_training_rows(linear_run, small):
    model, data = bnn.models.linear(), bnn.data.load("diabetes")
    found = bnn.load(small, model)
    expected = bnn.load(linear_run, model).compress(10, data.train.x)
    np.testing.assert_array_equal(found.draws["noise_scale"], expected.draws["noise_scale"])
    assert found.predict(data.test.x).mean.shape == (44,)


def test_a_smaller_run_predicts_and_is_scored_and_has_no_verdict(linear_run, small, capsys):
    rows = json.loads(printed(capsys, "predict", small, "--json"))
    assert len(rows) == 44
    shown = printed(capsys, "compare", linear_run, small, "--reference", linear_run)
    assert "a selection" in shown
    assert main(["diagnose", str(small)]) == 1
    assert "chosen from 40 and say nothing" in capsys.readouterr().err


def test_what_is_lost_is_printed(linear_run, here, capsys):
    shown = json.loads(
        printed(capsys, "compress", linear_run, "--draws", "4", "--out", "four", "--json")
    )
    assert shown["of"] == 40 and shown["rows"] == 398
    distances = {name: line["wasserstein"] for name, line in shown["scores"]["runs"].items()}
    assert distances["chosen"] > distances["all"] == 0
    said = printed(capsys, "compress", linear_run, "--draws", "4", "--out", "again")
    assert "Saved 4 of 40 draws in again" in said and "44 test rows of diabetes" in said
    assert main(["compress", str(linear_run), "--out", "four"]) == 1
    assert "`four` exists and is not empty" in capsys.readouterr().err
    assert main(["compress", str(linear_run), "--draws", "40", "--out", "forty"]) == 1
    assert "must be below 40, not 40" in capsys.readouterr().err
    assert not (here / "forty").exists()


def test_the_function_predicts_as_the_run(small, here, capsys):
    rows = json.loads(printed(capsys, "predict", small, "--json"))
    said = printed(capsys, "export", small, "--out", "f", "--platforms", "cuda,tpu")
    assert "Wrote the function to f" in said
    function = jax.export.deserialize(bytearray((here / "f" / "function.jax").read_bytes()))
    assert function.platforms == ("cpu", "cuda", "tpu")
    with np.load("f/draws.npz") as draws, np.load("f/example.npz") as example:
        mean = function.call(dict(draws), example["x"])["mean"]
    expected = [row["mean"] for row in rows[: len(mean)]]
    np.testing.assert_allclose(mean, expected, rtol=1e-3, atol=0.1)
    assert main(["export", str(small), "--out", "f"]) == 1
    assert "not empty" in capsys.readouterr().err
    assert main(["export", str(small), "--platforms", "gpu"]) == 2
    assert "`gpu` is unknown" in capsys.readouterr().err
