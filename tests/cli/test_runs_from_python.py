"""Runs that `bayesnn_ppl.sample(out=...)` made are read by the command line."""

import json
import runpy
import shutil

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from tests.cli.conftest import MODEL

RUN = {"warmup": 20, "draws": 20, "chains": 2, "seed": 0, "progress": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs with a probe, on some of the rows, and from plain arrays, beside their model."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "my_model.py").write_text(MODEL)
    model = runpy.run_path(str(folder / "my_model.py"))["model"]
    kernel, data = bnn.kernels.HMC(model, num_leapfrogs=5), bnn.data.load("diabetes")
    bnn.sample(kernel, *data.train, out=folder / "run", keep=bnn.Keep(probe=data.test), **RUN)
    bnn.sample(kernel, *data.train[:200], out=folder / "part", **RUN)
    bnn.sample(kernel, *map(np.asarray, data.train), out=folder / "arrays", **RUN)
    return folder


def typed(folder, line, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    status = main(line.split())
    shown = capsys.readouterr()
    return status, shown.out + shown.err


MODEL_GIVEN = "--model my_model.py"


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("diagnose run", 0, "at the 44 test rows of diabetes that the run kept"),
        (f"diagnose run {MODEL_GIVEN}", 0, "at the 44 test rows of diabetes\n"),
        ("evaluate run", 0, "rmse"),
        ("report run", 0, "Wrote the report to run/report.html"),
        (f"report part {MODEL_GIVEN}", 0, "part: not converged"),
        (f"predict part {MODEL_GIVEN} --out -", 0, "row,mean,sd"),
        (f"compare run part {MODEL_GIVEN}", 0, "44 test rows of diabetes, in the data's units"),
        ("report arrays", 0, "arrays: not judged"),
        ("diagnose part", 1, "Give the file that defines it: `--model file.py:NAME`"),
        (f"evaluate arrays {MODEL_GIVEN}", 1, "has no rows of its own here"),
        (f"predict arrays {MODEL_GIVEN} --data diabetes", 1, "the names of its features"),
        (f"compress run {MODEL_GIVEN} --draws 5 --out few", 0, "Saved 5 of 40 draws in few"),
        (f"export run {MODEL_GIVEN} --out function", 0, "Wrote the function to function"),
        (f"compress arrays {MODEL_GIVEN}", 1, "has no rows of its own here"),
        (f"export arrays {MODEL_GIVEN}", 1, "has no rows of its own here"),
        ("resume run", 1, "one from Python is resumed there: `bayesnn_ppl.resume("),
    ],
)
def test_a_run_from_python_is_read(folder, line, status, words, monkeypatch, capsys):
    found, shown = typed(folder, line, monkeypatch, capsys)
    assert (found, words in shown) == (status, True), shown
    assert not (folder / "-").exists()


def test_another_model_is_refused(folder, monkeypatch, capsys):
    (folder / "other.py").write_text(MODEL.replace("Normal(0, 1)", "Normal(0, 2)"))
    status, shown = typed(folder, "predict part --model other.py", monkeypatch, capsys)
    assert status == 1 and "are of another model" in shown
    assert "`other.py` does not define it: `--model FILE.py:NAME` names another one" in shown


def test_the_model_of_the_run_is_named_where_the_file_has_it(folder, monkeypatch, capsys):
    (folder / "two.py").write_text(
        "from my_model import model as counts\n\n\n"
        "def model(x, y=None, *, batch_size=None):\n    return counts(x, y)\n"
    )
    status, shown = typed(folder, "predict part --model two.py", monkeypatch, capsys)
    assert status == 1 and "In this file it is `--model two.py:counts`." in shown


@pytest.mark.parametrize("command", ["diagnose", "report"])
def test_its_diagnosis_is_kept_and_only_shown_of_the_draws_it_is_of(
    command, folder, tmp_path, monkeypatch, capsys
):
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    (run / "diagnosis.json").unlink(missing_ok=True)
    assert "not diagnosed" in typed(tmp_path, "runs .", monkeypatch, capsys)[1]
    assert main([command, str(run)]) == 0
    capsys.readouterr()
    assert "not converged" in typed(tmp_path, "runs .", monkeypatch, capsys)[1]
    kept = json.loads((run / "diagnosis.json").read_text())
    kept["sampler"]["draws"] = kept["sampler"]["recorded_draws"] = 10  # since extended
    (run / "diagnosis.json").write_text(json.dumps(kept))
    assert "not diagnosed" in typed(tmp_path, "runs .", monkeypatch, capsys)[1]


def test_compare_without_the_model_names_the_option(folder, monkeypatch, capsys):
    status, shown = typed(folder, "compare run part", monkeypatch, capsys)
    assert status == 1 and "`--model FILE.py:NAME` in a shell" in shown


def test_a_page_without_functions_says_what_is_missing(folder, monkeypatch, capsys):
    shown = typed(folder, "report arrays", monkeypatch, capsys)[1]
    assert "(model: --model FILE.py:NAME; data: made from arrays in Python" in shown
    shown = typed(folder, f"report arrays {MODEL_GIVEN}", monkeypatch, capsys)[1]
    assert "what is missing (data: made from arrays" in shown
    page = (folder / "arrays" / "report.html").read_text()
    assert "functions at the starts not known" in page and "record them" not in page
