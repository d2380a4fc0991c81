"""Studies under a protocol: shift, active learning and bandit, from TOML to table and figure."""

import json

import pandas as pd
import pytest

from bayesnn_ppl.cli import main

RECIPE = """
title = "An ensemble of linear models"
source = "the tests"
command = "fit"

[settings]
approximation = "ensemble"
members = 3
epochs = 20
batch_size = "none"
validation_fraction = 0.0
patience = "none"
learning_rate = 0.05

[tiny]
note = "n"
[cpu]
note = "n"
[full]
note = "n"
"""

STUDY = """
title = "T"
question = "Q"
x = "x"
metrics = [{metrics}]
protocol = {{ {protocol} }}
settings = {{ {settings} }}

{arms}
[full]
note = "n"
seeds = [0]
[cpu]
note = "n"
seeds = [0]
[tiny]
note = "n"
seeds = [0, 1]
"""


@pytest.fixture
def study(here):
    (here / "mine.toml").write_text(RECIPE)

    def write(protocol, settings, metrics, arms):
        text = "".join(
            f'[[arms]]\nname = "{name}"\nrecipe = "mine.toml"\nprotocol = {{ {own} }}\n'
            for name, own in arms.items()
        )
        (here / "study.toml").write_text(
            STUDY.format(protocol=protocol, settings=settings, metrics=metrics, arms=text)
        )
        return here / "out"

    return write


def table_of(folder):
    assert main(["study", "study.toml", "--out", "out", "--quiet"]) == 0
    return pd.read_parquet(folder / "results.parquet")


def test_domain_shift(study, capsys):
    out = study(
        'name = "shift", outliers = "shuffled", kinds = ["gaussian_noise", "rotation"], '
        "severities = [1, 5]",
        'model = "logistic", data = "digits"',
        '"accuracy", "nll", "auroc"',
        {"ensemble": ""},
    )
    table = table_of(out)
    assert len(table) == 2 * (1 + 2 * 2 + 1)
    accuracy = table.groupby("x")["accuracy"].mean()
    assert accuracy[0] > 0.85 and accuracy[0] > accuracy[1] > accuracy[5] + 0.05
    one = table[table["seed"] == 0]
    clean = json.loads((out / "cells" / one["cell"].iloc[0] / "run" / "metrics.json").read_text())
    assert one["accuracy"].iloc[0] == pytest.approx(clean["accuracy"])
    assert one["nll"].iloc[0] == pytest.approx(clean["nll"], rel=1e-5)
    outliers = table[table["kind"] == "outliers"]
    assert outliers["x"].isna().all() and (outliers["auroc"] > 0.5).all()
    assert outliers["accuracy"].isna().all() and table["auroc"].notna().sum() == 2
    assert (out / "figures" / "auroc.png").exists() and (out / "figures" / "nll.png").exists()
    # What is not of images cannot be corrupted, and says so.
    study('name = "shift"', 'model = "logistic", data = "wine"', '"nll"', {"wine": ""})
    assert main(["study", "study.toml", "--out", "wine", "--quiet"]) == 1
    assert "a shift corrupts images" in " ".join(capsys.readouterr().err.split())
    study('name = "shift"', 'model = "logistic", data = "digits"', '"nll"', {"digits": ""})
    assert main(["study", "study.toml", "--out", "digits", "--quiet"]) == 1
    assert "has no other one for outliers" in " ".join(capsys.readouterr().err.split())
    assert not list((out.parent / "digits").rglob("run.json")), "It was trained all the same."


def test_active_learning_continues_round_by_round(study, capsys):
    out = study(
        'name = "active-learning", start = 20, batch = 40, rounds = 2',
        'model = "logistic", data = "digits"',
        '"accuracy"',
        {"information": 'acquisition = "mutual_information"', "random": 'acquisition = "random"'},
    )
    table = table_of(out)
    assert sorted(table["x"].unique()) == [20, 60] and len(table) == 2 * 2 * 2
    few, more = table.groupby("x")["accuracy"].mean()
    assert more > few + 0.05 > 0.3
    # Both rules begin with the same rows and the same training.
    start = table[table["x"] == 20].set_index(["arm", "seed"])["accuracy"].unstack()
    assert (start.loc["information"] == start.loc["random"]).all()
    # A cell that was ended after its first round makes the second as it would have.
    cell = out / "cells" / table["cell"].iloc[0]
    rounds = json.loads((cell / "run" / "rounds.json").read_text())
    (cell / "run" / "rounds.json").write_text(json.dumps(rounds[:1]))
    (cell / "result.json").unlink()
    again = table_of(out)
    columns = ["arm", "x", "seed", "accuracy", "nll"]
    pd.testing.assert_frame_equal(again[columns], table[columns])
    assert json.loads((cell / "run" / "rounds.json").read_text()) == rounds
    # What a training in memory cannot keep is refused.
    (out.parent / "mine.toml").write_text(
        RECIPE.replace("[settings]", '[settings]\nkeep = "moments"')
    )
    assert main(["study", "study.toml", "--out", "bad", "--quiet"]) == 1
    assert "every training stays in memory" in " ".join(capsys.readouterr().err.split())


def test_bandit(study, capsys):
    out = study(
        'name = "bandit", length = 120, refits = [12, 40]',
        'model = "linear", data = "wine", noise_scale = 0.3, prior_scale = 1.0',
        '"cumulative_regret", "relative_regret"',
        {
            "Thompson": 'policy = "thompson"',
            "greedy": 'policy = "greedy"',
            "u": 'policy = "uniform"',
        },
    )
    table = table_of(out)
    assert table["x"].max() == 120 and len(table) == 3 * 2 * 10
    end = table[table["x"] == 120].groupby("arm")["relative_regret"].mean()
    assert 0.8 < end["u"] < 1.2 and end["Thompson"] < 0.6 and end["greedy"] < 0.6
    first = table[table["x"] == 12].groupby("seed")["cumulative_regret"].nunique()
    assert (first == 1).all(), "Actions take turns before the first training."
    study('name = "bandit"', 'model = "linear", data = "diabetes"', '"reward"', {"a": ""})
    assert main(["study", "study.toml", "--out", "bad", "--quiet"]) == 1
    assert "a bandit needs labels" in " ".join(capsys.readouterr().err.split())
