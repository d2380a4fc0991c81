"""`bayesnn resume`, `extend`, `check`, `runs`, and SIGTERM, on one tiny run."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.storage.commits import empty_record
from tests.cli.conftest import TINY

SAMPLE = ["sample", "hmc", "linear", "--data", "diabetes", "--quiet", "--no-diagnose", *TINY]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(folder):
    assert main([*SAMPLE, "--out", str(folder / "a")]) == 0
    return folder / "a"


def test_extend_adds_draws_and_the_first_are_untouched(run, capsys):
    before = bnn.load(run).draws["noise_scale"].copy()
    assert main(["extend", str(run), "--draws", "15", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "35 draws per chain" in shown and "Diagnosis" in shown
    after = bnn.load(run).draws["noise_scale"]
    assert after.shape == (2, 35)
    assert (after[:, :20] == before).all()


def test_resume_of_a_complete_run_does_nothing(run, capsys):
    count = bnn.load(run).provenance["draws"]
    assert main(["resume", str(run), "--quiet", "--no-diagnose"]) == 0
    assert f"is complete already, with {count} draws per chain." in capsys.readouterr().out


def test_runs_lists_runs_with_their_verdicts(run, folder, capsys):
    assert main([*SAMPLE, "--out", str(folder / "b")]) == 0
    assert main(["resume", str(run), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["runs", str(folder), "--json"]) == 0
    found = {r["run"].rsplit("/", 1)[-1]: r for r in json.loads(capsys.readouterr().out)}
    assert found["a"]["verdict"] in ("not converged", "not judged")  # 20 draws
    assert found["b"]["verdict"] == "not diagnosed" and found["b"]["state"] == "complete"
    assert main(["runs", str(folder)]) == 0
    assert "HMC" in capsys.readouterr().out
    assert main(["runs", str(folder / "none")]) == 1


def test_runs_tells_what_has_stopped_from_what_is_written(run, tmp_path, capsys):
    stopped, warming = tmp_path / "stopped", tmp_path / "warming"
    for folder in (stopped, warming):
        shutil.copytree(run, folder)
    record = json.loads((run / "commit.json").read_text()) | {"complete": False}
    (stopped / "commit.json").write_text(json.dumps(record))
    config = json.loads((run / "config.json").read_text()) | {"draws_requested": 3000}
    (stopped / "config.json").write_text(json.dumps(config))
    record = empty_record() | {"done": 6}
    (warming / "commit.json").write_text(json.dumps(record))
    draws = config["draws"]

    assert main(["runs", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"2 x {draws} of 3000  stopped  " in shown and "stopped, warm-up 6 of 20" in shown
    assert "resume RUN` continues a stopped run." in shown
    assert main(["diagnose", str(warming)]) == 1
    said = capsys.readouterr().err
    assert f"stopped in its warm-up after 6 of 20 draws; `bayesnn resume {warming}`" in said

    with (stopped / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["runs", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"2 x {draws} of 3000  in progress  " in shown
    assert f"resume {warming}` continues" in shown


def test_check_finds_damage_and_repairs_it(folder, capsys):
    run = folder / "c"
    assert main([*SAMPLE, "--out", str(run)]) == 0
    assert main(["check", str(run)]) == 0
    assert "is whole" in capsys.readouterr().out
    next((run / "checkpoint").iterdir()).write_bytes(b"torn")
    assert main(["check", str(run)]) == 1
    assert "cannot be resumed" in capsys.readouterr().out
    assert main(["check", str(run), "--repair"]) == 0
    assert "20 draws per chain are kept" in capsys.readouterr().out
    assert main(["check", str(run)]) == 0
    assert main(["extend", str(run), "--quiet"]) == 1
    assert "no sampler's state to resume from" in capsys.readouterr().err


def test_sigterm_saves_and_says_how_to_resume(folder):
    """As a batch system stops a job: status 75, and `resume` is bit-for-bit the whole run."""
    run = folder / "d"
    script = [sys.executable, "-m", "bayesnn_ppl.cli"]
    command = [*script, "sample", "hmc", "linear", "--num-leapfrogs", "3"]
    settings = ["--warmup", "20", "--draws", "60000", "--chains", "2", "--no-diagnose"]
    process = subprocess.Popen(
        [*command, *settings, "--out", str(run)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process:  # closes the pipe and waits, also when something below fails
        for line in process.stderr:
            if line.startswith("warmup"):
                break
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert process.returncode == 75, rest
    assert "Stopped by SIGTERM; all is saved" in rest and f"resume {run}" in rest
    record = json.loads((run / "commit.json").read_text())
    assert record["draws"] < 60_000 and record["checkpoint"] is not None
    if record["draws"]:
        assert bnn.load(run).provenance["draws"] == record["draws"]
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [*script, "resume", str(run), "--quiet", "--no-diagnose"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "60000 draws per chain" in done.stdout
