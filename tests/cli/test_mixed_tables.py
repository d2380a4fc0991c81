"""A table of passengers with words, gaps and dates: from a file to a posterior and predictions."""

import contextlib
import csv
import io
import json
import warnings

import numpy as np
import pandas as pd
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.report.sections.provenance import columns_of
from tests.cli.conftest import TINY

ROWS = 1300


@pytest.fixture(scope="module")
def passengers():
    draw = np.random.default_rng(0)
    female = draw.random(ROWS) < 0.36
    days = pd.to_timedelta(draw.integers(0, 300, ROWS), "D")
    p = 1 / (1 + np.exp(1.2 - 2.4 * female))
    return pd.DataFrame(
        {
            "name": [f"Passenger {i}" for i in range(ROWS)],
            "sex": np.where(female, "female", "male"),
            "age": np.where(draw.random(ROWS) < 0.2, np.nan, draw.gamma(4, 7.5, ROWS).round(1)),
            "port": draw.choice(["Cork", "London", "Le Havre"], ROWS),
            "deck": np.where(draw.random(ROWS) < 0.77, None, draw.choice(["A", "B"], ROWS)),
            "booked": (pd.Timestamp("1911-06-01") + days).strftime("%Y-%m-%d"),
            "survived": np.where(draw.random(ROWS) < p, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def run(passengers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("passengers")
    passengers.to_csv(folder / "passengers.csv", index=False)
    data = ["--data", str(folder / "passengers.csv"), "--target", "survived", "--drop", "name"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(["sample", "hmc", "logistic", *data, *TINY, "--out", str(folder / "run")]) == 0
    words = "categories (sex, port, deck), dates (booked), gaps filled (age)"
    assert words in " ".join(said.getvalue().split())
    return folder / "run"


def predicted(run, table, tmp_path, capsys):
    table.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(run), "--data", str(tmp_path / "new.csv")]) == 0
    shown = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(shown.out)))
    return np.array([float(row["p_yes"]) for row in rows]), shown.err


def test_each_column_is_named_with_what_it_becomes(run, capsys):
    file = ["data", str(run.parent / "passengers.csv"), "--target", "survived"]
    assert main(file) == 1
    assert "--drop name" in capsys.readouterr().err
    assert main([*file, "--drop", "name"]) == 0
    shown = capsys.readouterr().out
    assert "deck    category  2 categories of 0 and 1: A, B; missing is one" in shown
    assert "booked  date      its year, season as sine" in shown
    assert main(["models", "logistic", "--data", *file[1:], "--drop", "name"]) == 0
    assert "d=15, K=2" in capsys.readouterr().out
    assert main([*file, "--drop", "name", "--json"]) == 0
    kinds = [column["kind"] for column in json.loads(capsys.readouterr().out)["columns"]]
    assert kinds == ["category", "number", "category", "category", "date"]


def test_new_rows_in_another_order_and_with_unknown_words(run, passengers, tmp_path, capsys):
    p, warned = predicted(run, passengers[:6], tmp_path, capsys)
    assert "warning" not in warned
    other = passengers[list(reversed(passengers.columns))][:6].drop(columns=["survived"])
    np.testing.assert_array_equal(predicted(run, other, tmp_path, capsys)[0], p)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        strange, warned = predicted(run, other.assign(port="Atlantis"), tmp_path, capsys)
    assert "warning: 6 of 6 rows of the file" in warned and "in `port` what" in warned
    assert not np.array_equal(strange, p) and ((0 < strange) & (strange < 1)).all()
    # In Python, from the same run, by a frame.
    posterior = bnn.load(run, bnn.models.logistic())
    frame = posterior.predict(other, raw=True)
    np.testing.assert_allclose(np.asarray(frame.mean)[:, 1], p, rtol=1e-4)
    # Words matter: half of the men are predicted as women are.
    swapped = predicted(run, other.assign(sex="female"), tmp_path, capsys)[0]
    women = (passengers["sex"][:6] == "female").to_numpy()
    np.testing.assert_array_equal(swapped[women], p[women])
    assert (swapped[~women] > p[~women]).all()


def test_a_column_that_is_not_there_is_named(run, passengers, tmp_path, capsys):
    passengers[:3].drop(columns=["age"]).to_csv(tmp_path / "short.csv", index=False)
    assert main(["predict", str(run), "--data", str(tmp_path / "short.csv")]) == 1
    assert "lacks 1 of the 5 features" in capsys.readouterr().err


def test_scores_of_a_file_and_another_split(run, capsys):
    file = str(run.parent / "passengers.csv")
    assert main(["evaluate", str(run), "--data", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.65
    assert main(["predict", str(run), "--split", "3"]) == 1
    assert "other categories and medians" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "flag"),
    [
        (lambda draw: draw.lognormal(10, 1.5, 300), "--likelihood log_normal"),
        (lambda draw: draw.poisson(3, 300), "--likelihood poisson"),
        (lambda draw: draw.normal(100, 10, 300), None),
        (lambda draw: draw.normal(100, 10, 300).round(), None),
    ],
)
def test_a_likelihood_is_advised_by_the_target(target, flag, tmp_path, capsys):
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"x": draw.normal(size=300), "y": target(draw)})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert main(["data", str(tmp_path / "t.csv"), "--target", "y"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "--likelihood" not in words if flag is None else flag in words


def test_the_report_names_the_columns(run):
    words = columns_of(bnn.load(run).provenance)
    assert "What each column of the data became" in words and "A, B; missing is one" in words
    assert not columns_of({"dataset": None})
