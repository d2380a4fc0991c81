"""Every notebook has the form that is asked of it, runs afresh, and its claims can fail."""

import json
import os

import pytest

from tests.notebooks.execution import breaks, execute, make, paths, read, tags
from tests.notebooks.form import faults
from tests.notebooks.full import FOLDER

MOST = 180.0  # seconds of processor time, also on a busy machine: against what runs away
BREAKING = os.environ.get("BAYESNN_BROKEN_CLAIMS", "") not in ("", "0")
PATHS = [pytest.param(path, id=path.stem) for path in paths()]
CLAIMS = [
    pytest.param(path, one, id=f"{path.stem}-{one.change['fails']}-{one.change['why'][:40]}")
    for path in paths()
    for one in breaks(read(path))
]
# A kernel's client leaves sockets to the garbage collector.
quietly = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("path", PATHS)
def test_form(path):
    assert faults(path) == []


@pytest.mark.parametrize("path", PATHS)
def test_record_of_the_full_size(path):
    file = FOLDER / f"{path.name[:2]}.json"
    if not file.exists():
        pytest.skip("It was not run at full size yet: python -m tests.notebooks.full.")
    record = json.loads(file.read_text())
    assert record["notebook"] == path.name
    assert "failed" not in record, record["failed"]
    assert set(record["printed"]) <= {cell.id for cell in read(path).cells}


@quietly
@pytest.mark.notebook
@pytest.mark.parametrize("path", PATHS)
def test_runs(path, tmp_path):
    run = execute(read(path), tmp_path)
    assert run.failure is None, f"{run.failure.cell.id}: {run.failure.name}: {run.failure.message}"
    print(f"{path.stem}: {run.processor:.0f} s of processor time")
    assert run.processor < MOST, f"{run.processor:.0f} s of processor time"


@quietly
@pytest.mark.notebook
@pytest.mark.skipif(not BREAKING, reason="Set BAYESNN_BROKEN_CLAIMS=1 to break the claims.")
@pytest.mark.parametrize(("path", "one"), CLAIMS)
def test_a_broken_claim_is_noticed(path, one, tmp_path):
    notebook = read(path)
    make(notebook, one)
    failure = execute(notebook, tmp_path).failure
    assert failure is not None, "All assertions hold, although the claim was broken."
    assert failure.name == "AssertionError", f"{failure.name}: {failure.message}"
    assert one.change["fails"] in tags(failure.cell), f"{failure.cell.id}: {failure.message}"
    print(f"{one.change['why']}: {failure.cell.id} says: {failure.message}")
