"""`bayesnn run`: a recipe is a run like any other, compared with the published figures."""

import json
import os

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.experiments import load_recipe, recipe_names

MINE = """
title = "A line on diabetes"
source = "the tests"
command = "sample"

[settings]
model = "linear"
kernel = "hmc"
num_leapfrogs = 3
warmup = 20
draws = 20
chains = 2

[tiny]
note = "nothing differs"

[cpu]
note = "more draws"
draws = 40

[full]
note = "most draws"
draws = 80

[[published]]
metric = "rmse"
value = 0.7
error = 0.05
source = "a paper"
standardised = true

[[published]]
metric = "nll_mixture"
value = 1.2
source = "a paper"
standardised = true

[[published]]
metric = "accuracy"
value = 0.5
source = "a paper"
"""


@pytest.fixture
def mine(here):
    (here / "mine.toml").write_text(MINE)
    return here


def test_a_recipe_is_a_run_with_published_figures_beside_it(mine, capsys):
    assert main(["run", "mine.toml", "--seed=3"]) == 0
    folder = mine / "runs" / "mine-tiny"
    shown = capsys.readouterr()
    assert "nothing differs" in shown.out and "nothing differs" in shown.err
    assert "In a shell: bayesnn sample hmc linear --num-leapfrogs=3" in shown.err
    scores = json.loads((folder / "metrics.json").read_text())
    record = json.loads((folder / "recipe.json").read_text())
    assert record["overrides"] == {"seed": 3} and record["scale"] == "tiny"
    rmse, nll, accuracy = record["published"]
    sd = json.loads((folder / "run.json").read_text())["standardisation"]["y_scale"]
    assert rmse["here"] * sd == pytest.approx(scores["rmse"]) and sd > 50
    # log p of y/sd is that of y plus log sd.
    dataset = bnn.data.load("diabetes")
    prediction = bnn.load(folder, model=bnn.models.linear()).predict(dataset.test.x)
    density = prediction.log_prob(dataset.test.y)
    assert nll["here"] == pytest.approx(-float(np.mean(density)) - np.log(sd), rel=1e-5)
    assert accuracy["here"] is None and "not measured" in shown.out
    assert f"{rmse['here']:.4f}" in shown.out and "0.7 ± 0.05" in shown.out
    assert json.loads((folder / "diagnosis.json").read_text())["status"]
    assert bnn.load(folder).provenance["seed"] == 3
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert main(["extend", str(folder), "--draws", "5", "--quiet"]) == 0
    assert bnn.load(folder).provenance["draws"] == 25


def test_settings_and_flags_of_bnn_hmc_come_last(mine, capsys):
    # A noise of its own would make the posterior depend on how it is parametrised.
    line = "run mine.toml --scale cpu --set draws=7 --set noise_scale=0.7 --temperature=0.5"
    assert main([*line.split(), "--dir=there", "--eval_freq=10", "--json"]) == 0
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert result["result"]["draws"] == 7 and result["result"]["folder"] == "there"
    assert result["overrides"] == {"draws": 7, "noise_scale": 0.7, "posterior_temperature": 0.5}
    assert "--eval_freq: the progress bar" in shown.err
    run = bnn.load(mine / "there").provenance
    assert run["posterior_temperature"] == 0.5 and run["likelihood_temperature"] == 1.0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--set", "drawn=3"], "has no setting `drawn`. Did you mean `draws`"),
        (["--set", "draws"], "--set takes NAME=VALUE"),
        (["--set", "draws=3", "--set", "draws=4"], "given twice"),
        (["--set", "draws=0"], "at the scale tiny: --draws: must be at least 1"),
        (["--set", "seed=1", "--seed=2"], "`seed` is set twice"),
        (["--set", "step_size=nan"], "--step-size: must be finite"),
        (["--checkpoint1=x"], "has no counterpart"),
        (["--step-sizes=x"], "unknown"),
    ],
)
def test_bad_words_are_refused_before_anything_is_made(words, sentence, mine, capsys):
    assert main(["run", "mine.toml", *words]) in (1, 2)
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (mine / "runs").exists()


def test_the_list_has_every_recipe(capsys):
    assert main(["run", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in recipe_names())
    assert main(["run", "--json"]) == 0
    assert [r["name"] for r in json.loads(capsys.readouterr().out)] == recipe_names()


SHOWN = ("ensemble-cifar10", "sghmc-clr-prec-cifar10")


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in SHOWN
        else pytest.param(
            name,
            marks=pytest.mark.skipif(
                os.environ.get("BAYESNN_SLOW_TESTS", "") in ("", "0"),
                reason="BAYESNN_SLOW_TESTS is not set",
            ),
        )
        for name in recipe_names()
    ],
)
def test_a_recipe_runs_at_tiny(name, here, monkeypatch):
    """Where digits are classified, far better than the 18 % that the commonest class would give."""
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    assert main(["run", name, "--quiet", "--out", "run"]) == 0
    scores = json.loads((here / "run" / "metrics.json").read_text())
    record = json.loads((here / "run" / "recipe.json").read_text())
    recipe = load_recipe(name)
    assert [one["published"] for one in record["published"]] == [p.value for p in recipe.published]
    if record["data"] == "digits":
        assert scores["accuracy"] > 0.8
    else:  # the sd of the targets is 77
        assert scores["rmse"] < 70
    provenance = bnn.load(here / "run").provenance
    assert provenance["likelihood_temperature"] == 1.0
    temperature = recipe.at("tiny").get("posterior_temperature", 1.0)
    assert provenance["posterior_temperature"] == temperature
