"""`diagnose`, `evaluate` and `predict` on saved runs."""

import csv
import errno
import io
import json
import os
import shutil
import subprocess

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from tests.cli.conftest import TINY, write_csv
from tests.marks import checked


def raw_table(name, rows):
    """Test rows of a data set in its own units, as columns, target included."""
    data = bnn.data.load(name, standardise=False)
    columns = dict(zip(data.feature_names, data.test.x[:rows].T, strict=True))
    names = data.class_names
    y = np.asarray(data.test.y[:rows])
    return {**columns, data.target_name: y if names is None else [names[k] for k in y]}


@pytest.fixture(scope="module")
def posterior(linear_run):
    return bnn.load(linear_run, bnn.models.linear())


def printed(capsys, *argv):
    assert main([str(word) for word in argv]) == 0
    return capsys.readouterr().out


def test_diagnose(linear_run, posterior, capsys):
    x = bnn.data.load("diabetes").test.x
    expected = json.loads(posterior.diagnose(x).to_json())
    assert json.loads(printed(capsys, "diagnose", linear_run, "--json")) == expected
    assert f"Diagnosis: {expected['status']}" in printed(capsys, "diagnose", linear_run)


def test_check_turns_the_verdict_into_a_status(linear_run, capsys):
    shown = json.loads(printed(capsys, "diagnose", linear_run, "--json"))
    assert not shown["converged"], "40 draws cannot have 400 effective ones."
    assert main(["diagnose", str(linear_run), "--check"]) == 1
    assert "Diagnosis" in capsys.readouterr().out


def test_every_verdict_has_an_exit_status_of_its_own(linear_run, capsys, monkeypatch):
    from bayesnn_ppl.cli.commands.reading import CHECKED
    from bayesnn_ppl.diagnostics.diagnosis.judgements.overall import STATUS

    assert set(CHECKED) == set(STATUS.values()) and len(set(CHECKED.values())) == len(CHECKED)
    assert 2 not in CHECKED.values(), "2 is an error in what was typed."
    # 40 draws of two chains fail; with thresholds that they keep, two chains are not judged.
    made = bnn.Posterior.diagnose

    def lenient(self, x=None, **settings):
        return made(
            self,
            x,
            **settings,
            rhat_threshold=1e9,
            rhat_limit=1e9,
            ess_threshold=1e-9,
            ess_limit=1e-9,
            stuck_share=0.0,
            divergence_share=1.0,
            ebfmi_threshold=0.0,
        )

    monkeypatch.setattr(bnn.Posterior, "diagnose", lenient)
    assert main(["diagnose", str(linear_run), "--check"]) == 5
    assert "not judged" in capsys.readouterr().out


def test_evaluate(linear_run, posterior, capsys):
    scores = bnn.metrics.evaluate(posterior, *bnn.data.load("diabetes").test)
    shown = json.loads(printed(capsys, "evaluate", linear_run, "--json"))
    assert shown == pytest.approx(scores.to_dict())


def test_evaluate_a_file(linear_run, here, capsys):
    write_csv(here / "new.csv", raw_table("diabetes", 5))
    shown = json.loads(printed(capsys, "evaluate", linear_run, "--data", "new.csv", "--json"))
    y = raw_table("diabetes", 5)["disease progression"]
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "predict", linear_run))))[:5]
    mean = np.array([float(row["mean"]) for row in rows])
    assert shown["rows"] == 5
    assert shown["rmse"] == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)), rel=1e-3)


def test_scores_of_rows_that_trained_the_run_are_said_to_be_too_good(linear_run, here, capsys):
    data = bnn.data.load("diabetes", standardise=False)
    x, y = (np.concatenate(parts)[:500] for parts in zip(data.test, data.train, strict=True))
    columns = dict(zip(data.feature_names, x.T, strict=True))
    write_csv(here / "all.csv", {**columns, data.target_name: np.asarray(y)})
    assert main(["evaluate", str(linear_run), "--data", "all.csv", "--json"]) == 0
    shown = capsys.readouterr()
    rows = json.loads(shown.out)["rows"]
    assert "warning: " in shown.err
    assert f"{rows - 44} of the {rows} rows trained the posterior" in shown.err
    write_csv(here / "new.csv", raw_table("diabetes", None))
    for data in ("new.csv", "diabetes"):
        assert main(["evaluate", str(linear_run), "--data", data]) == 0
        assert "trained the posterior" not in capsys.readouterr().err


@pytest.mark.parametrize("renamed", [False, True])
def test_a_set_is_not_a_table_of_the_same_name(renamed, here, capsys):
    """A run on one's own `diabetes.csv` is scored on the set `diabetes` where that fits it."""
    columns = raw_table("diabetes", 30)
    if renamed:
        columns = {f"my {name}" if name == "age" else name: v for name, v in columns.items()}
    write_csv(here / "diabetes.csv", columns)
    line = "sample hmc linear --data diabetes.csv --target".split()
    assert main([*line, "disease progression", "--out", "own", "--quiet", *TINY]) == 0
    capsys.readouterr()
    if renamed:
        assert main(["evaluate", "own", "--data", "diabetes"]) == 1
        assert (
            f"the run's data `{here / 'diabetes.csv'}`: it lacks `my age`"
            in capsys.readouterr().err
        )
        return
    assert "the 44 test rows of diabetes" in printed(
        capsys, "evaluate", "own", "--data", "diabetes"
    )
    assert len(json.loads(printed(capsys, "predict", "own", "--data", "diabetes", "--json"))) == 44


@pytest.mark.parametrize(
    "typed",
    checked([("predict", "1"), ("evaluate", ""), ("predict", ""), ("predict --json", "1")]),
)
def test_a_full_disk_under_standard_output_is_named(linear_run, here, typed):
    write_csv(here / "one.csv", raw_table("diabetes", 1))
    command, unbuffered = typed
    word, *more = command.split()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            ["bayesnn", word, str(linear_run), "--data", "one.csv", *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1
    assert "error: Standard output cannot be written to: No space left on device." in done.stderr
    assert done.stderr.count("No space") == 1


def test_a_full_disk_under_out_is_named(linear_run, here, capsys, monkeypatch):
    def full(handle, columns):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bayesnn_ppl.cli.commands.predict._write_csv", full)
    assert main(["predict", str(linear_run), "--out", "out.csv"]) == 1
    assert "`out.csv` cannot be written to: No space left on device." in capsys.readouterr().err


def test_predict_is_in_the_datas_units(linear_run, posterior, capsys):
    data = bnn.data.load("diabetes")
    prediction = posterior.predict(data.test.x)
    out = printed(capsys, "predict", linear_run, "--quantiles", "0.1,0.5")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == ["row", "mean", "sd", "aleatoric_sd", "epistemic_sd", "q0.1", "q0.5"]
    assert len(rows) == 44 and rows[-1]["row"] == "44"
    for name, expected in (
        ("mean", prediction.mean),
        ("sd", np.sqrt(prediction.variance)),
        ("epistemic_sd", np.sqrt(prediction.epistemic)),
        ("q0.1", prediction.quantile(0.1)),
    ):
        assert [float(row[name]) for row in rows] == pytest.approx(expected, rel=1e-4)
    assert 100 < np.mean(prediction.mean) < 200


def test_predict_a_file_by_column_names(linear_run, here, capsys):
    columns = raw_table("diabetes", 6)
    del columns["disease progression"]
    backwards = dict(reversed(columns.items()))
    write_csv(here / "new.csv", {"id": range(6), **backwards})
    printed(capsys, "predict", linear_run, "--data", "new.csv", "--out", "out.csv")
    with open(here / "out.csv") as handle:
        found = [float(row["mean"]) for row in csv.DictReader(handle)]
    own = json.loads(printed(capsys, "predict", linear_run, "--json"))
    assert found == pytest.approx([row["mean"] for row in own[:6]], rel=1e-4)


def test_predict_another_split(linear_run, capsys):
    same = printed(capsys, "predict", linear_run, "--split", "0")
    assert same == printed(capsys, "predict", linear_run)
    assert same == printed(capsys, "predict", linear_run, "--data", "diabetes")
    assert same != printed(capsys, "predict", linear_run, "--split", "1")


def test_classes(wine_run, here, capsys):
    data = bnn.data.load("wine")
    model = bnn.cold(bnn.models.logistic(classes=3), 0.5)
    prediction = bnn.load(wine_run, model).predict(data.test.x)
    rows = json.loads(printed(capsys, "predict", wine_run, "--json"))
    names = data.class_names
    found = np.array([[row[f"p_{name}"] for name in names] for row in rows])
    assert found == pytest.approx(prediction.probabilities, abs=1e-5)
    assert [row["predicted"] for row in rows] == [names[k] for k in found.argmax(1)]
    assert [r["entropy"] for r in rows] == pytest.approx(prediction.entropy, abs=1e-5)
    own = json.loads(printed(capsys, "evaluate", wine_run, "--json"))
    write_csv(here / "new.csv", raw_table("wine", None))
    other = json.loads(printed(capsys, "evaluate", wine_run, "--data", "new.csv", "--json"))
    each = own.pop("by_class")
    assert [one["name"] for one in each] == list(names) and other.pop("by_class") == each
    assert other == pytest.approx(own, abs=1e-4)
    shown = printed(capsys, "evaluate", wine_run)
    assert "balanced_accuracy" in shown and f"{names[0]}  {each[0]['recall']:.4f}" in shown


def test_evaluate_compares_with_the_run_s_reference_on_its_own_rows(
    wine_run, here, capsys, monkeypatch
):
    first = np.eye(3)[np.zeros(4, dtype=int)]
    reference = bnn.metrics.Reference(first, rows=[0, 2, 4, 6])
    monkeypatch.setattr("bayesnn_ppl.cli.commands.reading.reference_of", lambda run: reference)
    model = bnn.cold(bnn.models.logistic(classes=3), 0.5)
    predicted = bnn.load(wine_run, model).predict(bnn.data.load("wine").test.x).probabilities
    own = json.loads(printed(capsys, "evaluate", wine_run, "--json"))
    expected = np.mean(predicted[[0, 2, 4, 6]].argmax(1) == 0)
    assert own["reference_agreement"] == pytest.approx(expected)
    write_csv(here / "new.csv", raw_table("wine", None))
    other = json.loads(printed(capsys, "evaluate", wine_run, "--data", "new.csv", "--json"))
    assert "reference_agreement" not in other


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["predict", "{wine}", "--quantiles", "0.5"], ["--quantiles", "regression"]),
        (["predict", "{linear}", "--data", "my.csv"], ["`my.csv` lacks 10", "`age`"]),
        (["predict", "{linear}", "--data", "my.csv", "--split", "1"], ["--split", "of a file"]),
        (["evaluate", "{linear}", "--data", "wine"], ["`wine`", "lacks"]),
        (["evaluate", "{linear}", "--data", "unscored.csv"], ["`disease progression`"]),
        (["evaluate", "{wine}", "--data", "unknown.csv"], ["`class_9`", "`class_0`", "row 2"]),
        (["diagnose", "{linear}", "--model", "my_model.py"], ["`linear`", "--model"]),
    ],
)
def test_refused(argv, words, linear_run, wine_run, here, capsys):
    unscored = raw_table("diabetes", 3)
    del unscored["disease progression"]
    write_csv(here / "unscored.csv", unscored)
    unknown = {**raw_table("wine", 3), "cultivar": ["class_0", "class_9", "class_1"]}
    write_csv(here / "unknown.csv", unknown)
    argv = [word.format(linear=linear_run, wine=wine_run) for word in argv]
    if "my.csv" in argv and "--split" not in argv:
        words = ["lacks", "`sex`"]
    assert main(argv) == 1
    shown = capsys.readouterr()
    assert all(word in shown.err for word in words), shown.err
    assert shown.out == "" and "Traceback" not in shown.err


def test_scores_of_what_was_kept_say_that_they_differ_a_little(own_run, capsys):
    assert "differ a little" in printed(capsys, "evaluate", own_run)
    assert main(["evaluate", str(own_run), "--model", "my_model.py"]) == 0
    shown = capsys.readouterr()
    assert "differ a little" not in shown.out and "compiles" in shown.err


def test_without_the_model_the_judgement_is_the_same(own_run, capsys):
    def shown(*argv):
        return json.loads(printed(capsys, *argv, "--json"))

    with_it, without = (
        (shown("diagnose", own_run, *model), shown("evaluate", own_run, *model))
        for model in (["--model", "my_model.py"], [])
    )
    assert with_it[0]["status"] == without[0]["status"]
    (mean,) = with_it[0]["functions"].values()
    (recorded,) = without[0]["functions"].values()
    assert recorded["rhat_max"] == pytest.approx(mean["rhat_max"], rel=1e-2)
    for name in ("rmse", "nll_mixture", "nll_moment_matched"):
        assert with_it[1][name] == pytest.approx(without[1][name], rel=1e-4)


def test_a_model_of_ones_own_is_never_started_from_the_run(own_run, here, capsys):
    # Started from the stored path, this model would leave its mark.
    model = here / "my_model.py"
    source = model.read_text()
    model.write_text("open('started', 'w').close()\n" + source)
    assert main(["predict", own_run]) == 1
    assert "--model my_model.py" in capsys.readouterr().err
    for command in ("diagnose", "evaluate"):  # need no model
        assert "4 test rows of my that the run kept" in printed(capsys, command, own_run)
    assert main(["evaluate", own_run, "--data", "my.csv"]) == 1
    assert "--model my_model.py" in capsys.readouterr().err
    assert not (here / "started").exists()

    model.write_text(source.replace("dist.Normal(0, 1)", "dist.Normal(0, 2)"))
    assert main(["evaluate", own_run, "--model", "my_model.py"]) == 1
    assert "not as it was" in capsys.readouterr().err


def test_changed_data_are_noticed(own_run, here, capsys):
    text = (here / "my.csv").read_text()
    (here / "my.csv").write_text(text.replace("1", "2"))
    assert main(["evaluate", own_run, "--model", "my_model.py"]) == 1
    assert "have changed" in capsys.readouterr().err


def test_damaged_run(linear_run, here, capsys):
    shutil.copytree(linear_run, here / "r")
    (here / "r" / "run.json").write_text("{")
    assert main(["evaluate", "r"]) == 1
    assert "run.json" in capsys.readouterr().err
