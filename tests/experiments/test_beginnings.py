"""Runs that begin at the run of another recipe: made once, of the same rows and network."""

import json

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.experiments import load_recipe, load_study, run_recipe, run_study
from tests.experiments.cells import STUDY

TRAINED = """
title = "A network"
source = "this test"
command = "fit"
[settings]
approximation = "map"
model = "mlp"
hidden = [3]
data = "diabetes"
epochs = 2
[tiny]
note = "seconds"
[cpu]
note = "minutes"
[full]
note = "hours"
hidden = [4]
[overnight]
note = "as full, but longer"
like = "full"
epochs = 3
"""
BEGUN = """
title = "A sampler"
source = "this test"
command = "sample"
[settings]
kernel = "sgld"
model = "mlp"
data = "diabetes"
init = "network"
step_size = 1e-12
batch_size = 20
warmup = 1
draws = 2
chains = 1
seed = 5
[tiny]
note = "seconds"
[cpu]
note = "minutes"
[full]
note = "hours"
[overnight]
note = "at a trained network"
begins_at = "trained.toml"
hidden = [5]
"""


@pytest.fixture
def recipes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trained.toml").write_text(TRAINED)
    (tmp_path / "begun.toml").write_text(BEGUN)
    return tmp_path


def first_is(folder, start):
    draws, trained = bnn.load(folder).draws, bnn.load(start).draws
    for name, values in trained.items():
        np.testing.assert_allclose(draws[name][0, 0], values[0, 0], atol=1e-3)


def test_a_recipe_begins_at_another_that_is_made_once(recipes):
    run_recipe("begun.toml", "overnight", out="runs/one", diagnose=False)
    (start,) = recipes.glob("runs/trained-overnight-*")
    first_is("runs/one", start)
    trained = bnn.load(start)
    assert trained.provenance["seed"] == 5 and trained.draws["net.Dense_0.bias"].shape[-1] == 5
    made = start.stat().st_mtime_ns
    run_recipe("begun.toml", "overnight", {"draws": 3}, out="runs/two", diagnose=False)
    assert list(recipes.glob("runs/trained-overnight-*")) == [start]
    assert start.stat().st_mtime_ns == made
    run_recipe("begun.toml", "overnight", {"init": "network"}, out="other/run", diagnose=False)
    assert len(list(recipes.glob("other/*"))) == 1
    with pytest.raises(FileExistsError):  # before a network is trained for it
        run_recipe("begun.toml", "overnight", {"seed": 6}, out="runs/two", diagnose=False)
    assert list(recipes.glob("runs/trained-overnight-*")) == [start]
    (start / "commit.json").unlink()  # as if it was killed before its first commit
    run_recipe("begun.toml", "overnight", out="runs/four", diagnose=False)
    assert list(recipes.glob("runs/trained-overnight-*")) == [start]
    run_recipe("begun.toml", "tiny", out="runs/three", diagnose=False)
    assert bnn.load("runs/three").provenance["start"] == "network"


def test_a_cell_of_a_study_begins_at_another_cell(recipes):
    text = STUDY.split("[[arms]]")[0]
    for name in ("trained", "begun"):
        text += (
            f'[[arms]]\nname = "{name}"\nrecipe = "{name}.toml"\nsettings = {{ hidden = [5] }}\n'
        )
    for scale in ("tiny", "cpu", "overnight", "full"):
        text += f'[{scale}]\nnote = "x"\nseeds = [5]\n'
    (recipes / "mine.toml").write_text(text)
    study = load_study("mine.toml")
    outcomes = run_study(study, "overnight", recipes / "study")
    assert [outcome.error for outcome in outcomes] == [None, None]
    cells = {cell.arm: cell.key for cell in study.cells("overnight")}
    assert len(list(recipes.glob("study/cells/*"))) == 2, "The network was trained twice."
    folders = {arm: recipes / "study" / "cells" / key / "run" for arm, key in cells.items()}
    first_is(folders["begun"], folders["trained"])
    assert json.loads((folders["begun"] / "config.json").read_text())["start"]["given"] == "MAP"


def test_a_scale_is_like_another_or_is_not_there(recipes):
    at = load_recipe("trained.toml").at("overnight")
    assert at["hidden"] == [4] and at["epochs"] == 3
    text = TRAINED.split("[overnight]")[0]
    (recipes / "trained.toml").write_text(text)
    with pytest.raises(ValueError, match="no scale `overnight` of .* it has tiny, cpu, full"):
        load_recipe("trained.toml").at("overnight")
    (recipes / "trained.toml").write_text(text + '[overnight]\nnote = "x"\nlike = "ful"\n')
    with pytest.raises(ValueError, match="`like` in .* is `ful`"):
        load_recipe("trained.toml")
