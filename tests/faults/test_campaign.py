"""The short form of the fault campaign; 100 trials: benchmarks/results/faults.json."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]


def test_no_fault_costs_a_committed_draw(tmp_path):
    """In a process of its own: trials fork, which a process with JAX's threads must not do."""
    out = tmp_path / "record.json"
    command = [sys.executable, "-m", "tests.faults.campaign", "--trials", "7", "--seed", "1"]
    ended = subprocess.run(
        [*command, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    record = json.loads(out.read_text())
    assert record["failures"] == [], ended.stdout + ended.stderr
    assert record["passed"] == 7 and len(record["by_kind"]) == 7
    assert record["slowest_end_seconds"] < 60
    # Where nothing was committed before, nothing can be lost.
    assert len(record["struck_after_a_commit"]) >= 3, record["records"]


def test_a_lost_draw_would_be_seen(tmp_path, monkeypatch):
    """The negative control: draws of another seed are not taken for those of the run."""
    from tests.faults import writers

    path = tmp_path / "run"
    folder = writers.RunFolder.create(path, writers.CONFIG)
    folder.append(writers.drawn(0, 5))
    folder.commit(None, phase="sample", done=5)
    assert writers.holds(path, 5)
    folder.append(writers.drawn(6, 8))
    folder.commit(None, phase="sample", done=7)
    folder.release()
    assert not writers.holds(path, 7)
