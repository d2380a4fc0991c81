"""The demo, with fewer draws, and what it is compared with."""

import csv
import json
import re

import numpy as np
import pytest
from scipy.stats import norm

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import demo
from bayesnn_ppl.report.parts import baselines
from tests.cli.conftest import table, write_csv

SHORT = "--warmup 20 --draws 20 --chains 2 --hidden 2 --max-tree-depth 2".split()


@pytest.fixture
def short(monkeypatch):
    for name, value in {"WARMUP": 20, "DRAWS": 20, "LEAPFROGS": 5}.items():
        monkeypatch.setattr(demo, name, value)


def check_last_lines(out):
    """The demo ends with a screen: verdict, scores, what to open and what to type."""
    last = out[out.index("Diagnosis: ") :].splitlines()
    assert len(last) <= 25 and max(map(len, out.splitlines())) <= 88
    heads = [line for line in last if line.startswith(("Held-out scores", "What to "))]
    assert [line.split()[-1] for line in heads] == ["better)", "open", "next"]


def test_demo_from_beginning_to_end(here, short, capsys, monkeypatch):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    check_last_lines(out)
    folder = here / "runs" / "demo"
    figures = {path.name: path.read_bytes()[:8] for path in (folder / "figures").iterdir()}
    assert set(figures) == {"predictions.png", "coverage.png", "chains.png"}
    assert set(figures.values()) == {b"\x89PNG\r\n\x1a\n"}
    assert all(f"runs/demo/figures/{name} " in out for name in figures)
    scores = json.loads((folder / "scores.json").read_text())
    assert list(scores) == ["Bayesian network", "plain network", "linear regression"]
    assert 0.05 < scores["linear regression"]["rmse"] < 0.12

    # What it tells the user to type works; what takes long is typed with what makes it short.
    write_csv(here / "my.csv", table())
    lines = [line.split() for line in out.split("What to type next")[1].splitlines() if line]
    assert all(line[0] == "bayesnn" for line in lines) and len(lines) == 2
    for line in lines:
        assert main(line[1:] + (SHORT if line[1] == "sample" else [])) == 0
    assert (folder / "report.html").exists()
    assert main(["predict", str(folder), "--out", str(folder / "predictions.csv")]) == 0
    with open(folder / "predictions.csv") as handle:
        means = [float(row["mean"]) for row in csv.DictReader(handle)]
    y = bnn.data.load("nuclei", standardise=False).test.y
    rmse = np.sqrt(np.mean((np.asarray(y) - means) ** 2))
    assert rmse == pytest.approx(scores["Bayesian network"]["rmse"], rel=1e-4)

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


@pytest.mark.check
def test_the_network_of_the_demo_converges_and_wins(here, capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    check_last_lines(out)
    assert "Diagnosis: converged\n" in out
    words = " ".join(out.split())
    found = re.findall(r"lower than that of the (\D+) by ([\d.]+) standard errors", words)
    assert [name for name, _ in found] == ["plain network", "linear regression"]
    assert all(float(errors) > 2 for _, errors in found)


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
