"""`bayesnn fit`."""

import json

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.experiments.stopping import STOPPED, Stop
from bayesnn_ppl.settings.methods.approximations import approximation_kinds

TINY = "--hidden 5 --members 2 --epochs 5 --quiet".split()


def test_the_words_are_the_approximations_that_there_are():
    there_are = [
        name
        for name in bnn.approximations.__all__
        if hasattr(getattr(bnn.approximations, name), "solve")
    ]
    assert sorted(kind.__name__ for kind in approximation_kinds().values()) == sorted(there_are)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "members"
    assert main(["fit", "mlp", *TINY, "--out", str(folder)]) == 0
    return folder


def test_a_fit_is_saved_judged_and_scored(fitted, capsys):
    assert json.loads((fitted / "diagnosis.json").read_text())["method"] == "Ensemble"
    scores = json.loads((fitted / "metrics.json").read_text())
    run = bnn.load(fitted)
    assert run.provenance["chains"] == 2 and run.provenance["kernel_settings"]["epochs"] == 5
    assert main(["evaluate", str(fitted), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert str(round(scores["rmse"], 3)) in json.dumps(again) or again["rmse"] == scores["rmse"]
    assert main(["diagnose", str(fitted)]) == 0
    assert "Diagnosis:" in capsys.readouterr().out
    assert main(["runs", str(fitted.parent)]) == 0
    assert "Ensemble" in capsys.readouterr().out


def test_a_fit_that_is_done_is_not_made_again(fitted, capsys):
    assert main(["resume", str(fitted), "--quiet"]) == 0
    assert main(["extend", str(fitted), "--draws", "5"]) == 1
    assert "no number of draws to extend" in capsys.readouterr().err


def test_a_fit_that_sigterm_ends_resumes_bit_for_bit(here, monkeypatch, capsys):
    line = "fit mlp --hidden 5 --members 2 --epochs 400 --patience none --quiet".split()
    assert main([*line, "--out", "whole"]) == 0

    class Ended(Stop):
        def asked(self, progress):
            self.came = progress.done > 20
            return self.came

    with monkeypatch.context() as patch:
        patch.setattr("bayesnn_ppl.experiments.stopping.Stop", Ended)
        assert main([*line, "--out", "ended"]) == STOPPED
    assert "resume ended" in capsys.readouterr().err
    assert main(["resume", "ended", "--quiet"]) == 0
    whole, ended = bnn.load(here / "whole"), bnn.load(here / "ended")
    for name, array in whole.draws.items():
        np.testing.assert_array_equal(ended.draws[name], array)
    lines = (here / "ended" / "metrics.csv").read_text().splitlines()
    assert lines[0].startswith("phase,draws") and lines[-1].startswith("train,400")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("mlp --epochs", "--epochs needs a value"),
        ("mlp --epoch 3", "Did you mean `--epochs`"),
        ("mlp --epochs=-3", "at least 1"),
        ("laplac", "Did you mean `laplace`"),
        ("mlp --approximation laplace", "the word after `fit`"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(words, sentence, here, capsys):
    try:
        status = main(["fit", *words.split()])
    except SystemExit as error:
        status = error.code
    assert status in (1, 2)
    told = capsys.readouterr().err
    assert sentence in told and "Traceback" not in told
    assert not (here / "runs").exists()


def test_a_fit_whose_model_is_another_one_opens(tmp_path, capsys):
    folder = tmp_path / "sngp"
    settings = "--hidden 5 --features 16 --epochs 5 --quiet".split()
    assert main(["fit", "sngp", "mlp", *settings, "--out", str(folder)]) == 0
    fitted = json.loads((folder / "metrics.json").read_text())
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rmse"] == pytest.approx(fitted["rmse"], rel=1e-4)
