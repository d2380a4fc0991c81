"""The short form of the kills of real samplers; 500: benchmarks/results/kill_and_resume.jsonl."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults.kill_comparison import summary

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]


def test_a_killed_sampler_ends_with_the_same_bits(tmp_path):
    """In a process of its own: trials fork, which a process with JAX's threads must not do."""
    out = tmp_path / "record.jsonl"
    words = "--kills 2 --cases hmc --scale 0.1 --busy 1".split()
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "kill_and_resume", *words, "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert ended.returncode == 0 and all(row["same"] for row in rows), ended.stdout + ended.stderr
    assert summary(rows)["kills"] >= 2
    # Each process of a trial has compiled the same program, or read it from the cache.
    assert all(len(row["programs"]) <= 1 for row in rows)
