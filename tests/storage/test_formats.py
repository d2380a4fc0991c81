"""A run of an older format is read, checked and resumed; one of a newer format is refused."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bayesnn_ppl import storage
from bayesnn_ppl.storage import RunFolder

# Written by the version of bayesnn_ppl before format 2: 16 draws in the store, 4 in a journal.
OLD = Path(__file__).with_name("format-1.zip")


@pytest.fixture
def old_run(tmp_path):
    path = tmp_path / "run"
    with zipfile.ZipFile(OLD) as archive:
        archive.extractall(path)
    assert json.loads((path / "commit.json").read_text())["format"] == 1
    return path


def numbers(end):
    return np.stack([np.arange(end), -np.arange(end)]).astype(float)


def assert_holds(path, draws):
    tree = storage.read(path)
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, numbers(draws))
    w = tree["posterior"]["w"].values
    np.testing.assert_array_equal(w, numbers(draws)[..., None] * np.ones(3))


def test_a_run_of_format_1_is_read_and_checked(old_run):
    before = (old_run / "commit.json").read_bytes()
    assert_holds(old_run, 20)
    assert storage.check(old_run) == []
    tree = storage.read(old_run)
    np.testing.assert_array_equal(tree["posterior_mean"]["w"].values, np.ones((2, 3)))
    np.testing.assert_array_equal(tree[storage.PROBE]["x"].values, np.ones((3, 2)))
    assert (old_run / "commit.json").read_bytes() == before, "reading changes nothing"


def test_a_run_of_format_1_resumes_in_format_2(old_run):
    run = RunFolder.reopen(old_run)
    np.testing.assert_array_equal(run.load_state()["z"], [20.0, -20.0])
    block = numbers(27)[:, 20:]
    run.append({"posterior": {"w": block[..., None] * np.ones(3)}, "sample_stats": {"lp": block}})
    run.commit({"z": np.array([27.0, -27.0])}, phase="sample", done=27)
    run.release()
    assert json.loads((old_run / "commit.json").read_text())["format"] == 2
    assert_holds(old_run, 27)
    assert storage.check(old_run) == []


def test_damage_of_a_run_of_format_1_is_found(old_run):
    next((old_run / "journal").iterdir()).write_bytes(b"torn")
    assert "checksum" in storage.check(old_run)[0]
    assert storage.repair(old_run) == 16
    assert_holds(old_run, 16)


@pytest.mark.parametrize("known", [0, 3, "1", None, {}, [2]])
def test_a_format_that_is_not_known_is_refused(old_run, known):
    record = json.loads((old_run / "commit.json").read_text())
    (old_run / "commit.json").write_text(json.dumps(record | {"format": known}))
    with pytest.raises(ValueError, match=r"has format .*reads 1 and 2\. Open it with the version"):
        storage.read(old_run)
