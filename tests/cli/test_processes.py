"""`--processes`: workers share the chains, and one that is killed costs nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import main

ROOT = Path(__file__).parents[2]
LINE = "sample hmc linear --num-leapfrogs 3 --warmup 20 --chains 2 --quiet --no-diagnose".split()


def children(parent):
    """The process numbers of the workers, by Linux's own list."""
    file = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(word) for word in file.read_text().split()] if file.exists() else []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
@pytest.mark.parametrize("when", ["before its first commit", "after a commit of draws"])
def test_a_worker_that_is_killed_costs_nothing(when, tmp_path):
    count = 3000 if when == "before its first commit" else 40_000
    draws = ["--draws", str(count)]
    out = tmp_path / "run"
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "bayesnn_ppl.cli", *LINE, *draws, "--processes", "2", "--out", out],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        ends = time.monotonic() + 600
        while not (out / "commit.json").exists() or (
            count > 3000 and not storage.read_commit(out)["draws"]
        ):
            assert supervisor.poll() is None and time.monotonic() < ends, supervisor.stderr.read()
            time.sleep(0.02)
        os.kill(children(supervisor.pid)[-1], signal.SIGKILL)
        said, error = supervisor.communicate(timeout=600)
    finally:
        supervisor.kill()
    assert supervisor.returncode == 0, error
    assert "Process 1 of 2 (host " in error and "is lost" in error
    assert "Process 1 (signal 9) of 2 was lost; all continue from the last commit." in error
    assert f"{count} draws per chain in {out}" in said
    assert storage.check(out) == []
    alone = tmp_path / "alone"
    assert main([*LINE, *draws, "--devices", "2", "--out", str(alone)]) == 0
    one, two = bnn.load(alone), bnn.load(out)
    for name, values in one.draws.items():
        assert values.shape[:2] == two.draws[name].shape[:2] == (2, count)
        # Seeds and starts are the same; a mesh of one device is another program, whose rounding
        # differs, so that only the first draws can agree.
        np.testing.assert_allclose(two.draws[name][:, 0], values[:, 0], atol=0.02)
    steps = [run.statistics["step_size"][:, 0] for run in (one, two)]
    np.testing.assert_allclose(*steps, rtol=1e-2)
    for group in storage.STARTS:  # of the chains of both, though each worker has one alone
        for name, values in one.tree[group].data_vars.items():
            np.testing.assert_allclose(two.tree[group][name].values, values.values, rtol=1e-5)
    assert main(["diagnose", str(out)]) == 0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_workers_stop_when_their_supervisor_is_killed_and_others_continue(tmp_path, monkeypatch):
    out, said = tmp_path / "run", tmp_path / "said"
    words = [*LINE, "--draws", "1000000", "--processes", "2", "--out", str(out)]
    with said.open("w") as file:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "bayesnn_ppl.cli", *words],
            stderr=file,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    ends = time.monotonic() + 600
    while not (out / "commit.json").exists() or not storage.read_commit(out)["draws"]:
        assert supervisor.poll() is None and time.monotonic() < ends, said.read_text()
        time.sleep(0.02)
    workers = children(supervisor.pid)
    supervisor.kill()
    supervisor.wait()
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < ends, f"{workers} continue alone"
        time.sleep(0.1)
    assert f"the supervisor, process number {supervisor.pid}, is gone" in said.read_text()
    assert "Stopped by SIGTERM; all is saved." in said.read_text()
    assert storage.check(out) == []
    before = storage.read_commit(out)["draws"]
    assert 0 < before < 1_000_000
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    line = ["resume", str(out), "--processes", "2", "--max-time", "1", "--quiet", "--no-diagnose"]
    assert main(line) == 0
    assert before < storage.read_commit(out)["draws"] < 1_000_000
    assert storage.check(out) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "2"], "give --out with --processes"),
        (["--processes", "2", "--distributed", "--out", "x"], "Leave one of the two out"),
        (["--coordinator", "a:1"], "are for --distributed"),
        (["--distributed", "--num-processes", "2"], "some are given and others not"),
        (["--distributed", "--devices", "3", "--num-processes", "2"], "shared evenly by 2"),
        (["--devices", "2", "--data-devices", "8"], "16 devices were asked for"),
    ],
)
def test_what_does_not_go_together_is_refused(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*LINE, *words]) == 1
    assert sentence in capsys.readouterr().err


def test_rows_are_shared_by_devices(tmp_path, capsys):
    """--data-devices is the second axis of the mesh, and changes no distribution."""
    line = [*LINE, "--draws", "20", "--json", "--devices"]
    uneven = ["1", "--data-devices", "3", "--data", "diabetes", "--out", str(tmp_path / "run")]
    assert main([*line, *uneven]) == 1
    assert "cannot be spread evenly over the 3 devices" in capsys.readouterr().err
    line += ["2", "--data-devices", "2"]
    table = tmp_path / "t.csv"
    x = np.random.default_rng(0).normal(size=(40, 2))
    rows = [f"{a},{b},{a - b + 0.1 * i}" for i, (a, b) in enumerate(x)]
    table.write_text("\n".join(["a,b,y", *rows]) + "\n")
    data = ["--data", str(table), "--target", "y"]
    assert main([*line, *data, "--out", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out)["draws"] == 20
    config = storage.read_config(tmp_path / "run")
    assert config["devices"]["mesh"] == {"chain": 2, "data": 2}
