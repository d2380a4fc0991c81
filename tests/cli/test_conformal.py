"""`predict --conformal`: calibrated columns are those of Python, and training rows are refused."""

import csv
import io
import json
import re
import shutil

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from tests.cli.conftest import table, write_csv
from tests.cli.test_reading import printed


def raw_rows(name, rows, part="test"):
    """Some rows of a part of a data set in its own units, as columns, target included."""
    data = bnn.data.load(name, standardise=False)
    x, y = getattr(data, part)
    columns = dict(zip(data.feature_names, x[rows].T, strict=True))
    y, names = np.asarray(y)[rows], data.class_names
    return {**columns, data.target_name: y if names is None else [names[k] for k in y]}


def failed(capsys, *argv):
    assert main([str(word) for word in argv]) == 1
    return " ".join(capsys.readouterr().err.split())


def test_intervals(linear_run, here, capsys):
    write_csv(here / "calibration.csv", raw_rows("diabetes", slice(0, 30)))
    write_csv(here / "new.csv", raw_rows("diabetes", slice(30, None)))
    line = ("predict", linear_run, "--data", "new.csv", "--conformal", "calibration.csv")
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *line, "--level", "0.8"))))
    found = np.array([[float(row[f"{end}_80"]) for end in ("lower", "upper")] for row in rows])
    x, y = bnn.data.load("diabetes").test
    posterior = bnn.load(linear_run, bnn.models.linear())
    calibrated = bnn.conformal.split(posterior, x[:30], y[:30])
    assert found == pytest.approx(calibrated.interval(x[30:], 0.8), rel=1e-4)
    assert list(rows[0])[-4:] == ["q0.05", "q0.95", "lower_80", "upper_80"]
    refused = failed(capsys, *line, "--level", "0.99")
    assert "30 calibration rows cannot calibrate level 0.99" in refused


def test_sets(wine_run, here, capsys):
    write_csv(here / "calibration.csv", raw_rows("wine", slice(0, 10)))
    out = printed(capsys, "predict", wine_run, "--conformal", "calibration.csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    data = bnn.data.load("wine")
    model = bnn.cold(bnn.models.logistic(classes=3), 0.5)
    calibrated = bnn.conformal.split(bnn.load(wine_run, model), *data.test[:10])
    sets = calibrated.sets(data.test.x, 0.9)
    names = np.array(data.class_names)
    assert [row["set_90"] for row in rows] == ["|".join(names[s]) for s in sets]


def test_what_cannot_calibrate(linear_run, here, capsys):
    refused = failed(capsys, "predict", linear_run, "--level", "0.8")
    assert "give --conformal too" in refused
    refused = failed(capsys, "predict", linear_run, "--conformal", "diabetes")
    assert "The 44 test rows of diabetes are to be predicted and calibrate" in refused
    write_csv(here / "seen.csv", raw_rows("diabetes", slice(0, 40), "train"))
    refused = failed(capsys, "predict", linear_run, "--conformal", "seen.csv")
    assert "40 of the 40 calibration rows trained the posterior" in refused
    columns = raw_rows("diabetes", slice(0, 30))
    del columns["disease progression"]
    write_csv(here / "without.csv", columns)
    refused = failed(capsys, "predict", linear_run, "--conformal", "without.csv")
    assert "no column `disease progression`" in refused


@pytest.fixture
def later(here):
    """The first 40 training rows with other targets, a table that trained nothing."""
    columns = raw_rows("diabetes", slice(0, 40), "train")
    columns["disease progression"] = columns["disease progression"] + 60 * np.cos(np.arange(40))
    write_csv(here / "later.csv", columns)
    x, _ = bnn.data.load("diabetes").train
    units = bnn.data.load("diabetes").standardisation
    return x[:40], units.apply_y(columns["disease progression"]).astype(np.float32)


def test_evaluate(linear_run, later, here, capsys):
    test = bnn.data.load("diabetes").test
    posterior = bnn.load(linear_run, bnn.models.linear())
    expected = dict(bnn.metrics.evaluate(posterior, *test, calibration=later))
    line = ("evaluate", linear_run, "--conformal", "later.csv")
    found = json.loads(printed(capsys, *line, "--json"))
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    shown = printed(capsys, *line)
    assert "44 test rows of diabetes, calibrated on the 40 rows of later.csv" in shown
    assert "mean width of the conformal 90 % interval" in shown
    refused = failed(capsys, "evaluate", linear_run, "--conformal", "diabetes")
    assert "44 of the 44 calibration rows are among the 44 that are scored" in refused
    write_csv(here / "seen.csv", raw_rows("diabetes", slice(0, 40), "train"))
    for command in ("evaluate", "report"):
        refused = failed(capsys, command, linear_run, "--conformal", "seen.csv")
        assert "40 of the 40 calibration rows trained the posterior" in refused


def test_compare(linear_run, later, here, capsys):
    bnn.load(linear_run, thin=4).save(here / "short")
    shutil.copy(linear_run / "run.json", here / "short")
    line = ("compare", linear_run, "short", "--conformal", "later.csv")
    found = json.loads(printed(capsys, *line, "--json"))["runs"]
    test = bnn.data.load("diabetes").test
    for name, folder in (("linear", linear_run), ("short", here / "short")):
        posterior = bnn.load(folder, bnn.models.linear())
        expected = bnn.metrics.evaluate(posterior, *test, calibration=later, intervals=[0.9])
        for score in ("conformal_coverage_90", "conformal_width_90"):
            assert found[name][score] == pytest.approx(expected[score], rel=1e-4)
    shown = printed(capsys, *line)
    assert "calibrated on the 40 rows of later.csv" in shown and "90 % width" in shown


def test_report(linear_run, later, here, capsys):
    line = ("report", linear_run, "--out", "page.html", "--gradients", "0")
    printed(capsys, *line, "--conformal", "later.csv")
    page = (here / "page.html").read_text()
    assert "Calibrated on 40 other rows" in page and "conformal width" in page
    posterior = bnn.load(linear_run, bnn.models.linear())
    test = bnn.data.load("diabetes").test
    scores = bnn.metrics.evaluate(posterior, *test, calibration=later)
    (row,) = re.findall(r'<tr><th scope="row">90 %</th>(.*?)</tr>', page)
    cells = [float(cell) for cell in re.findall(r">([\d.]+)</td>", row)]
    names = ["coverage_90", "conformal_coverage_90", "width_90", "conformal_width_90"]
    assert cells == pytest.approx([scores[name] for name in names], rel=1e-3)


def test_a_model_is_needed(own_run, here, capsys):
    write_csv(here / "later.csv", table(30))
    refused = failed(capsys, "evaluate", own_run, "--conformal", "later.csv")
    assert "--model my_model.py" in refused
    refused = failed(capsys, "report", own_run, "--conformal", "later.csv")
    assert "in a shell `--model FILE.py:NAME`" in refused
    assert not (here / own_run / "report.html").exists()
