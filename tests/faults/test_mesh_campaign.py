"""The short form of the mesh's fault campaign; more than 100 faults: benchmarks/results."""

import random

import pytest

from bayesnn_ppl.storage import RunFolder
from tests.faults import mesh_campaign, networks, writers
from tests.faults.mesh_campaign import Campaign, Failure


@pytest.mark.check
def test_a_fault_costs_no_committed_draw_and_is_named(tmp_path):
    """Each kind once, one after another, so that all share the run without faults."""
    # Cutting a process off needs network namespaces: Linux, `ip` and root.
    kinds = [k for k in mesh_campaign.KINDS if k != "cut off" or networks.available()]
    out = tmp_path / "record.jsonl"
    found = mesh_campaign.campaign(len(kinds), out, seed=3, kinds=kinds)
    assert sorted(fault["kind"] for fault in found) == sorted(kinds)
    for fault in found:
        assert fault["seconds"] < 60 and fault["said"].startswith("bayesnn: error: Process")
    assert mesh_campaign.campaign(len(kinds), out) == found, "a record is continued"


def test_a_wrong_draw_would_be_seen(tmp_path, monkeypatch):
    """The negative control: draws that are not those of the run without faults."""
    for name, begin in (("reference", 0), ("same", 0), ("other", 1)):
        folder = RunFolder.create(tmp_path / name, writers.CONFIG)
        folder.append(writers.drawn(begin, begin + 5))
        folder.commit(None, phase="sample", done=5)
        folder.release()
    runs = Campaign(tmp_path)
    monkeypatch.setattr(runs, "_reference", lambda _: tmp_path / "reference")
    assert runs._check(tmp_path / "same", "nuts-3x1") == 5
    with pytest.raises(Failure, match="committed draws of w are not"):
        runs._check(tmp_path / "other", "nuts-3x1")


@pytest.mark.parametrize(
    ("kind", "index", "victim", "words"),
    [
        ("kill", 1, 0, "Process 0 of 3"),
        ("cut off", 2, 1, "Process 1 of 3"),
        ("cut off", 1, 1, "Process 0 of 3 is lost, or has lost this one."),
        ("cut off", 0, 0, "Processes 1 of"),
    ],
)
def test_who_must_be_named(kind, index, victim, words):
    assert mesh_campaign._named(kind, index, victim, 3) == words


def test_kinds_come_in_turns():
    turns = mesh_campaign._in_turns(mesh_campaign.KINDS, random.Random(0))
    assert {next(turns) for _ in mesh_campaign.KINDS} == set(mesh_campaign.KINDS)
