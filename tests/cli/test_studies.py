"""`bayesnn study`: cells that are runs, one table, and resuming after an end from outside."""

import json

import numpy as np
import pandas as pd
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.experiments import load_study, study_names
from bayesnn_ppl.experiments.stopping import Stop
from bayesnn_ppl.experiments.study_cells import run_cell
from tests.cli.test_recipes import MINE

STUDY = """
title = "Prior scales"
question = "Does the scale of the prior matter?"
x = "prior scale"
metrics = ["rmse", "reference_agreement"]

[[arms]]
name = "linear"
recipe = "mine.toml"
sweep = "prior_scale"

[full]
note = "n"
seeds = [0]
[full.values]
prior_scale = [1.0]

[cpu]
note = "n"
seeds = [0]
settings = { draws = 3000 }
[cpu.values]
prior_scale = [1.0]

[tiny]
note = "on diabetes"
seeds = [0]
[tiny.values]
prior_scale = [0.01, 1.0]
"""


@pytest.fixture
def mine(here):
    (here / "mine.toml").write_text(MINE)
    (here / "scales.toml").write_text(STUDY)
    return here


def test_a_study_is_a_table_of_runs(mine, capsys):
    assert main(["study", "scales.toml", "--out", "out"]) == 0
    shown = capsys.readouterr()
    assert "[1/2] linear at 0.01, seed 0" in shown.err
    assert "PRIOR SCALE" in shown.out and "No cell has `reference_agreement`" in shown.out
    table = pd.read_parquet("out/results.parquet")
    assert list(table["x"]) == [0.01, 1.0] and (table["draws"] == 20).all()
    _shows_how_far_the_runs_converged(mine / "out", table, shown.out)
    narrow, wide = table["rmse"]
    assert narrow > wide + 5, "A prior of weights near 0 can predict the mean alone."
    for cell in table["cell"]:
        run = mine / "out" / "cells" / cell / "run"
        scores = json.loads((run / "metrics.json").read_text())
        assert scores["rmse"] in (narrow, wide)
        assert json.loads((run / "commit.json").read_text())["complete"]
    assert (mine / "out" / "figures" / "rmse.png").exists()
    before = (mine / "out" / "results.parquet").read_bytes()
    assert main(["study", "scales.toml", "--out", "out", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [point["mean"] for point in again["points"]["rmse"]] == [narrow, wide]
    assert (mine / "out" / "results.parquet").read_bytes() == before


def _shows_how_far_the_runs_converged(folder, table, shown):
    for line in table.itertuples():
        found = json.loads((folder / "cells" / line.cell / "run" / "diagnosis.json").read_text())
        functions = found["functions"].values()
        assert line.verdict == found["status"]
        assert line.rhat_max == max(one["rhat_max"] for one in functions) > 0.9
        assert line.ess_bulk_min == min(one["ess_bulk_min"] for one in functions) > 1
    (status,) = set(table["verdict"])
    largest = f"The largest R-hat of a function output is {table['rhat_max'].max():.2f}."
    assert f"Verdicts of the runs: 2 {status}. {largest}" in " ".join(shown.split())


def test_a_cell_that_sigterm_ends_resumes_bit_for_bit(mine, monkeypatch, capsys):
    (cell,) = load_study("scales.toml").cells("cpu")
    whole = run_cell(cell, mine / "whole")

    class Ended(Stop):
        def asked(self, progress):
            self.came = progress.phase == "sample"
            return self.came

    monkeypatch.setattr("bayesnn_ppl.experiments.stopping.Stop", Ended)
    assert main(["study", "scales.toml", "--scale", "cpu", "--out", "out"]) == 1
    assert "the same command continues." in " ".join(capsys.readouterr().err.split())
    run = mine / "out" / "cells" / cell.key / "run"
    had = bnn.load(run).provenance["draws"]
    assert 0 < had < 3000 and not (run.parent / "result.json").exists()
    monkeypatch.undo()
    monkeypatch.chdir(mine)
    assert main(["study", "scales.toml", "--scale", "cpu", "--out", "out", "--quiet"]) == 0
    result = json.loads((run.parent / "result.json").read_text())["figures"]
    assert result["rmse"] == whole["rmse"] and result["draws"] == 3000
    draws, expected = (bnn.load(path).draws for path in (run, mine / "whole"))
    for name in expected:
        np.testing.assert_array_equal(draws[name], expected[name])


def test_a_bad_setting_is_refused_before_the_first_run(mine, capsys):
    (mine / "scales.toml").write_text(STUDY.replace("[0.01, 1.0]", "[1.0, -1.0]"))
    assert main(["study", "scales.toml"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "The arm `linear`, recipe `mine.toml`" in error and "--prior-scale: must be" in error
    assert not (mine / "runs").exists()


def test_a_cell_that_fails_is_said(mine, capsys):
    (mine / "mine.toml").write_text(MINE.replace('"linear"', '"lenet"'))
    assert main(["study", "scales.toml"]) == 1
    shown = capsys.readouterr()
    assert "failed. The model `lenet` is for" in " ".join(shown.err.split())
    assert "2 cells have no result" in " ".join(shown.out.split())
    assert main(["study", "scales.toml", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["failed"]) == 2


def test_the_list_has_every_study(capsys):
    assert main(["study", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in study_names())
    assert main(["study", "--json"]) == 0
    assert [s["name"] for s in json.loads(capsys.readouterr().out)] == study_names()
    assert main(["study", "cold"]) == 1
    assert "There is no study `cold`" in capsys.readouterr().err
