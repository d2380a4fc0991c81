"""The demo, with fewer draws, and what it is compared with."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from numpyro.infer import HMC
from scipy.stats import norm

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import demo
from bayesnn_ppl.report.parts import baselines

README = Path(__file__).parents[2] / "README.md"
SHORT = "--hidden 2 --max-tree-depth 2 --warmup 20 --draws 20 --chains 2".split()


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(demo, "WARMUP", 20)
    monkeypatch.setattr(demo, "DRAWS", 20)
    monkeypatch.setattr(demo, "HIDDEN", (2,))
    # It compiles in half the time of NUTS.
    monkeypatch.setattr(demo, "_kernel", HMC)


def test_demo_from_beginning_to_end(here, short, capsys, monkeypatch):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 88
    folder = here / "runs" / "demo"
    figures = {path.name: path.read_bytes()[:8] for path in (folder / "figures").iterdir()}
    assert set(figures) == {"chains.png", "rhat.png", "predictions.png", "coverage.png"}
    assert set(figures.values()) == {b"\x89PNG\r\n\x1a\n"}
    assert all(f"runs/demo/figures/{name}" in out for name in figures)
    scores = json.loads((folder / "scores.json").read_text())
    assert list(scores) == ["Bayesian MLP", "linear regression", "mean of training rows"]
    assert scores["linear regression"]["rmse"] < scores["mean of training rows"]["rmse"]
    assert "Diagnosis" in out and "Where to look" in out

    # The README shows the same, of a longer run and before the environment is activated.
    printed = README.read_text().split("`make demo` prints:")[1].split("```")[1]
    ends = [text.split("Where to look")[1] for text in (printed.replace(".venv/bin/", ""), out)]
    assert ends[0] == ends[1]

    # What it tells the user to type works; what takes long is typed with what makes it short.
    lines = [line.split() for line in out.split("What to type next")[1].splitlines() if line]
    assert all(line[0] == "bayesnn" for line in lines) and len(lines) == 4
    for line in lines:
        long = line[1] == "sample" and line[-1] != "--help"
        assert main(line[1:] + (SHORT if long else [])) == 0
    with open(folder / "predictions.csv") as handle:
        means = [float(row["mean"]) for row in csv.DictReader(handle)]
    y = bnn.data.load("diabetes", standardise=False).test.y
    rmse = np.sqrt(np.mean((np.asarray(y) - means) ** 2))
    assert rmse == pytest.approx(scores["Bayesian MLP"]["rmse"], rel=1e-4)

    # A second demo replaces the first, but nothing that it did not make.
    capsys.readouterr()
    monkeypatch.setattr(demo, "_draw_figures", lambda *given: {})
    assert main(["demo", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["folder"] == "runs/demo"
    assert not (folder / "predictions.csv").exists()
    (folder / "notes.txt").write_text("mine")
    assert main(["demo"]) == 1
    assert "`notes.txt`" in capsys.readouterr().err
    assert (folder / "notes.txt").read_text() == "mine" and (folder / "scores.json").exists()


def test_linear_regression_is_least_squares():
    generator = np.random.default_rng(0)
    x, x_new = generator.normal(size=(50, 3)), generator.normal(size=(20, 3))
    weights = np.array([1.0, -2.0, 0.5])
    y = x @ weights + 3 + 0.1 * generator.normal(size=50)
    y_new = x_new @ weights + 3
    forecast = baselines.linear_regression(x, y, x_new, y_new)
    design = np.column_stack([np.ones(50), x])
    solution, residual, *_ = np.linalg.lstsq(design, y, rcond=None)
    mean = np.column_stack([np.ones(20), x_new]) @ solution
    sd = np.sqrt(residual[0] / 46)
    assert forecast.mean == pytest.approx(mean)
    assert forecast.nll == pytest.approx(-norm.logpdf(y_new, mean, sd))
    assert forecast.upper - forecast.lower == pytest.approx(2 * 1.6448536 * sd)


def test_training_mean_and_its_scores():
    y = np.array([1.0, 2.0, 3.0, 4.0])
    scores = baselines.training_mean(y, y).scores(y)
    assert scores["rmse"] == pytest.approx(np.sqrt(1.25))
    assert scores["coverage_90"] == 1.0
    assert scores["nll"] == pytest.approx(-np.mean(norm.logpdf(y, 2.5, np.std(y, ddof=1))))


def test_comparison_knows_what_few_rows_can_tell():
    y = np.random.default_rng(0).normal(size=40)
    good = baselines.training_mean(y, y)
    same = good._replace(name="the same")
    assert "too little" in baselines.comparison(good, same, y)
    bad = baselines.training_mean(y + 3, y)
    assert "more than chance" in baselines.comparison(bad, good, y)
    assert "above" in baselines.comparison(bad, good, y)
    assert "below" in baselines.comparison(good, bad, y)
