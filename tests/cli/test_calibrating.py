import json

import pytest

from bayesnn_ppl.cli import main

LAPLACE = ["calibrate", "laplace", "linear", "--draws", "31"]
SMALL = ["--noise-scale", "0.5", "--replications", "20", "--rows", "12"]


def test_a_calibration_is_printed_kept_and_resumed(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    assert main([*LAPLACE, *SMALL, *out]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Calibration: calibrated")
    assert "Laplace, 20 replications from the prior" in said.out
    assert (tmp_path / "run" / "ranks.png").stat().st_size > 10_000
    lines = (tmp_path / "run" / "replications.jsonl").read_text().splitlines()
    assert main([*LAPLACE, *SMALL, *out, "--replications", "24", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["replications"] == 24
    again = (tmp_path / "run" / "replications.jsonl").read_text().splitlines()
    assert again[:20] == lines and len(again) == 24


@pytest.mark.check
def test_another_truth_is_found_and_data_at_hand_are_used(capsys):
    wrong = ["--replications", "60", "--truth", "noise-scale=1.5", "--json"]
    assert main([*LAPLACE, *SMALL, *wrong]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "too narrow"
    around = ["--around-data", "--json"]
    assert main([*LAPLACE, *SMALL, *around]) == 0
    assert json.loads(capsys.readouterr().out)["record"]["around_data"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("laplace linear --chains 5", "`--chains` is unknown"),
        ("sgld linear --step-size auto --batch-size 5", "Give a number"),
        ("linear --truth depth=1", "--truth depth: the model options are"),
        ("linear --truth mlp", "--truth takes FILE.py:NAME, or NAME=VALUE"),
        ("chees linear --chains 1", "needs at least 2"),
    ],
)
def test_what_does_not_apply_is_refused(options, sentence, capsys):
    assert main(["calibrate", *options.split(), *SMALL]) in (1, 2)
    assert sentence in capsys.readouterr().err
