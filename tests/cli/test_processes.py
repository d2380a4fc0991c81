"""`--cluster`: workers share the chains, and one that is killed costs nothing."""

import contextlib
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
from tests.marks import checked

ROOT = Path(__file__).parents[2]
LINE = "sample hmc linear --num-leapfrogs 3 --warmup 20 --chains 2 --quiet --no-diagnose".split()


@pytest.fixture
def started(tmp_path):
    """Starts a command whose workers share the chains; ended with the test."""
    begun = []

    def start(*words):
        command = [sys.executable, "-m", "bayesnn_ppl.cli", *LINE, *words]
        begun.append(
            subprocess.Popen(
                command,
                stderr=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        )
        return begun[-1]

    yield start
    for process in begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition, process):
    ends = time.monotonic() + 600
    while not condition():
        assert process.poll() is None and time.monotonic() < ends, process.stderr.read()
        time.sleep(0.02)


def committed(out):
    return (out / "commit.json").exists() and storage.read_commit(out)["draws"] > 0


def workers(parent):
    """The process numbers of the workers, by Linux's own list; a thread of Dask starts them."""
    found = []
    for thread in Path(f"/proc/{parent}/task").iterdir():
        for word in (thread / "children").read_text().split():
            if "spawn_main" in Path(f"/proc/{word}/cmdline").read_text():
                found.append(int(word))
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_a_worker_that_is_killed_costs_nothing(started, tmp_path):
    out, alone, draws = tmp_path / "run", tmp_path / "alone", ["--draws", "10000"]
    process = started(*draws, "--processes", "2", "--out", str(out))
    wait_for(lambda: committed(out), process)
    os.kill(workers(process.pid)[-1], signal.SIGKILL)
    said, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    assert f"Saved in {out}" in said and error == ""
    assert storage.check(out) == []
    process = started(*draws, "--chain-method", "sequential", "--out", str(alone))
    assert process.wait(600) == 0
    one, two = bnn.load(alone), bnn.load(out)
    for name, values in one.draws.items():
        assert values.shape[:2] == two.draws[name].shape[:2] == (2, 10_000)
        # In float32 the two round differently, so that only the first draws can agree;
        # tests/inference/sampling/test_clusters.py compares all bits, in float64.
        np.testing.assert_allclose(two.draws[name][:, 0], values[:, 0], atol=0.02)
    assert main(["diagnose", str(out)]) == 0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
@pytest.mark.parametrize("number", checked([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_a_run_that_is_ended_leaves_no_worker_and_continues(number, started, tmp_path):
    """Ctrl-C comes to all processes of a terminal, and the other signals to one."""
    out = tmp_path / "run"
    process = started("--draws", "1000000", "--cluster", "local:2", "--out", str(out))
    wait_for(lambda: committed(out), process)
    left = workers(process.pid)
    assert len(left) == 2
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    error = process.communicate(timeout=300)[1]
    assert process.returncode == {signal.SIGINT: 0, signal.SIGTERM: 75}.get(number, -number), error
    if number == signal.SIGTERM:
        assert f"Continue with: bayesnn resume {out} --cluster local:2" in error.replace(
            f"{Path(sys.executable).parent}/", ""
        )
    ends = time.monotonic() + 100
    while any(Path(f"/proc/{worker}").exists() for worker in left):
        assert time.monotonic() < ends, f"{left} go on alone"
        time.sleep(0.1)
    assert storage.check(out) == []
    before = storage.read_commit(out)["draws"]
    assert 0 < before < 1_000_000
    if number == signal.SIGKILL:
        line = ["resume", str(out), "--max-time", "1", "--quiet", "--no-diagnose"]
        assert main(line) == 1
        assert main([*line, "--processes", "2"]) == 0
        assert before < storage.read_commit(out)["draws"] < 1_000_000
        assert storage.check(out) == []
        assert main(line) == 0, "it is gathered, and one process continues it"


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("sample nuts --warmup 20 --chains 2 --draws 30 --no-diagnose --processes 2", (2, 30, 10)),
        pytest.param(
            "fit ensemble --members 3 --epochs 5 --no-diagnose --cluster local:2",
            (3, 1, 10),
            marks=pytest.mark.check,
        ),
        pytest.param(
            "calibrate laplace --replications 20 --cluster local:2", None, marks=pytest.mark.check
        ),
    ],
)
def test_a_model_of_a_file_goes_to_the_workers(words, made, tmp_path, capsys):
    """With what its file imports from beside it; the workers have neither on their paths."""
    (tmp_path / "scales.py").write_text("SCALE = 2.0\n")
    (tmp_path / "my_model.py").write_text(MODEL)
    command, word, *more = words.split()
    line = [command, word, str(tmp_path / "my_model.py"), "--data", "diabetes", *more]
    assert main([*line, "--quiet", "--out", str(tmp_path / "run")]) == 0
    if made is None:
        lines = (tmp_path / "run" / "replications.jsonl").read_text().splitlines()
        assert len(lines) == 20
    else:
        assert bnn.load(tmp_path / "run").draws["slope"].shape == made


MODEL = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from scales import SCALE


def model(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(0, SCALE).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size) as rows:
        chosen = jnp.take(x, rows, axis=0)
        target = None if y is None else jnp.take(y, rows, axis=0)
        numpyro.sample("y", dist.Normal(chosen @ slope, 1.0), obs=target)
"""


@pytest.mark.check
def test_processes_that_slurm_has_started_find_each_other(tmp_path):
    """By what SLURM tells them; each has as many devices as its share of the chains needs."""
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "localhost"}
    line = "sample hmc mlp --hidden 4 --num-leapfrogs 3 --chains 2 --warmup 20 --draws 20".split()
    line += ["--distributed", "--no-diagnose", "--quiet", "--out", str(tmp_path / "run")]
    # JAX has set this here, and it is to be what a shell has.
    shell = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "bayesnn_ppl.cli", *line],
            env={
                **shell,
                **job,
                "SLURM_NTASKS": "2",
                "SLURM_PROCID": str(index),
                "SLURM_LOCALID": str(index),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in (0, 1)
    ]
    for process in processes:
        _, error = process.communicate(timeout=200)
        assert process.returncode == 0, error
        assert "experimental" not in error, "JAX warns of what is wanted"
    run = bnn.load(tmp_path / "run")
    assert run.provenance["processes"] == 2 and run.provenance["chains"] == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "2", "--distributed", "--out", "x"], "Give only one of them"),
        (["--processes", "2", "--devices", "2", "--out", "x"], "each worker of a cluster has its"),
        (["--cluster", "moon", "--out", "x"], "There is no cluster `moon`"),
        (["--coordinator", "a:1"], "need --distributed"),
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
    """--data-devices is the second axis of the mesh, and leaves the target as it is."""
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
