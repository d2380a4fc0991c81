"""A run folder after every kind of accident: what was committed is there, bit by bit."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from zarr.errors import ChunkNotFoundError

from bayesnn_ppl import storage
from bayesnn_ppl.storage import files, opening, zarr_store
from bayesnn_ppl.storage.folder import RunFolder
from bayesnn_ppl.storage.zarr_store import STORE
from tests.marks import checked

RNG = np.random.default_rng(0)
TOTAL, CHAINS = 60, 2
DRAWS = {
    "w": RNG.normal(size=(CHAINS, TOTAL, 3)).astype(np.float32),
    "s": RNG.normal(size=(CHAINS, TOTAL)).astype(np.float32),
}
STATISTICS = {"diverging": np.zeros((CHAINS, TOTAL), bool), "n": np.arange(120).reshape(2, 60)}
CONFIG = {"kernel": "none", "site_names": {"w": "w", "s": "s"}}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(zarr_store, "_MOST_CHUNK_DRAWS", 16)


def rows(begin, end):
    return {
        group: {name: array[:, begin:end] for name, array in arrays.items()}
        for group, arrays in (("posterior", DRAWS), ("sample_stats", STATISTICS))
    }


def write_blocks(run, sizes, begin=0):
    """Append and commit blocks of these sizes; returns where they end."""
    for size in sizes:
        run.append(rows(begin, begin + size))
        begin += size
        run.commit({"state": np.array([begin])}, phase="sample", done=begin)
    return begin


def assert_holds(path, draws):
    tree = storage.read(path)
    for group, expected in (("posterior", DRAWS), ("sample_stats", STATISTICS)):
        for name, array in expected.items():
            found = tree[group][name].values
            np.testing.assert_array_equal(found, array[:, :draws])
            assert found.dtype == array.dtype
        np.testing.assert_array_equal(tree[group]["draw"], np.arange(draws))
    assert storage.read_attributes(tree)["draws"] == draws


@pytest.mark.parametrize("sizes", [[1] * 20, [7, 1, 30, 2], [16, 16], [40], [3, 13, 1]])
def test_what_is_committed_is_read(tmp_path, sizes):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    done = 0
    for size in sizes:
        done = write_blocks(run, [size], done)
        assert_holds(run.path, done)
        assert run.load_state()["state"] == done
    run.commit(None, phase="sample", done=done, complete=True)
    assert_holds(run.path, done)
    assert not list((run.path / "journal").iterdir())
    whole = xr.open_datatree(run.path / STORE, engine="zarr", consolidated=False)
    assert whole["posterior"].sizes["draw"] == done
    run.release()


@pytest.mark.parametrize("every", [1, 3])
def test_the_draws_from_one_on_are_read_from_store_and_journal(tmp_path, every):
    """The store holds 16 draws or 15, and the journal the others, in blocks."""
    run = RunFolder.create(tmp_path / "run", CONFIG, every={"posterior": every})
    done = write_blocks(run, [20, 6, 3])
    assert 0 < run.commit_record["in_store"] < 20
    for first in range(done):
        tree = storage.read(run.path, first=first)
        kept = [draw for draw in range(first, done) if (draw + 1) % every == 0]
        for group, expected, wanted in (
            ("posterior", DRAWS, kept),
            ("sample_stats", STATISTICS, list(range(first, done))),
        ):
            for name, array in expected.items():
                np.testing.assert_array_equal(tree[group][name].values, array[:, wanted])
    run.release()


@pytest.mark.parametrize("complete", [True, False])
def test_a_run_resumes_in_another_process(tmp_path, complete):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    done = write_blocks(run, [5, 14, 4])
    if complete:
        run.commit({"state": np.array([done])}, phase="sample", done=done, complete=True)
    run.release()
    again = RunFolder.reopen(run.path)
    assert again.load_state()["state"] == done
    done = write_blocks(again, [20, 3], done)
    again.commit(None, phase="sample", done=done, complete=True)
    again.release()
    assert_holds(run.path, done)


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("complete", [False, True])
def test_a_run_of_nothing_but_whole_chunks_resumes(tmp_path, complete):
    """As one that is killed, or ends, with a multiple of a chunk's draws."""
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.append(rows(0, 32))
    run.commit({"state": np.array([32])}, phase="sample", done=32, complete=complete)
    run.release()
    assert run.commit_record["in_store"] == 32 and run.commit_record["journal"] == []
    again = RunFolder.reopen(tmp_path / "run")
    assert write_blocks(again, [5, 11, 2], begin=32) == 50
    again.release()
    assert_holds(tmp_path / "run", 50)


def test_a_commit_made_while_a_run_is_opened_counts(tmp_path, monkeypatch):
    """The lock comes after a first look, and its last owner may have written in between."""
    run = RunFolder.create(tmp_path / "run", CONFIG)
    write_blocks(run, [7])
    lock = opening.lock_folder

    def late(path):
        write_blocks(run, [6], begin=7)
        run.release()
        return lock(path)

    monkeypatch.setattr(opening, "lock_folder", late)
    again = RunFolder.reopen(tmp_path / "run")
    assert again.commit_record["draws"] == 13
    assert write_blocks(again, [10], begin=13) == 23
    again.release()
    assert_holds(tmp_path / "run", 23)


@pytest.mark.parametrize("dies_at", checked(range(12), 0, 5))
def test_a_crash_at_any_write_loses_nothing_committed(tmp_path, monkeypatch, dies_at):
    """Die before the n-th file is renamed into place, then continue from the last commit."""
    run = RunFolder.create(tmp_path / "run", CONFIG)
    write_blocks(run, [5])
    count = 0
    rename = os.replace

    def replace(source, target):
        nonlocal count
        count += 1
        if count > dies_at:
            raise Crash
        rename(source, target)

    monkeypatch.setattr(files.os, "replace", replace)
    try:
        write_blocks(run, [9, 10, 8], 5)
    except Crash:
        pass
    monkeypatch.setattr(files.os, "replace", rename)
    run.release()
    committed = json.loads((run.path / "commit.json").read_text())["draws"]
    assert committed in (5, 14, 24, 32)
    assert_holds(run.path, committed)
    again = RunFolder.reopen(run.path)
    assert again.load_state()["state"] == committed
    done = write_blocks(again, [11, 17], committed)
    assert_holds(run.path, done)
    again.release()


def test_a_second_writer_is_refused(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    write_blocks(run, [5])
    code = (
        "import sys\nfrom pathlib import Path\nfrom bayesnn_ppl.storage import RunFolder\n"
        "try:\n    RunFolder.reopen(Path(sys.argv[1]))\n"
        "except BlockingIOError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", code, str(run.path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"Another process (number {os.getpid()}) is writing" in told
    run.release()
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == ""


def test_a_writer_waits_for_a_reader_who_looks_whether_there_is_one(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    write_blocks(run, [5])
    run.release()
    reader = os.open(run.path / "lock", os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_SH)
    threading.Timer(0.02, os.close, [reader]).start()
    again = RunFolder.reopen(run.path)
    assert storage.is_written_to(run.path)
    again.release()
    assert not storage.is_written_to(run.path)


def test_a_used_folder_is_never_written_over(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="never written over"):
        RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(FileNotFoundError, match="no posterior at"):
        RunFolder.reopen(tmp_path)


@pytest.mark.parametrize("address", ["s3://bucket/run", "gs://bucket/run", "memory://run"])
def test_an_address_made_a_path_is_not_taken_for_a_folder(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="was an address.*Give the address as a text"):
        RunFolder.create(Path(address), CONFIG)
    assert not list(tmp_path.iterdir())


def test_a_run_in_its_warm_up_has_no_draws(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.commit({"state": np.array([3])}, phase="warmup", done=3)
    with pytest.raises(ValueError, match="still in its warm-up"):
        storage.read(run.path)
    assert storage.is_written_to(run.path)
    run.release()
    assert not storage.is_written_to(run.path)
    with pytest.raises(ValueError, match=r"it stopped in its warm-up .*bayesnn_ppl.resume\("):
        storage.read(run.path)
    (run.path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match=f"`bayesnn resume {run.path}` continues it"):
        storage.read(run.path)
    again = RunFolder.reopen(run.path)
    assert again.commit_record["phase"] == "warmup" and again.load_state()["state"] == 3
    assert_holds(run.path, write_blocks(again, [20]))
    again.release()


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


DAMAGES = {
    "deleted chunk": (lambda p: (p / STORE / "posterior/w/c/0/1/0").unlink(), "missing", 16),
    "torn chunk": (lambda p: flip(p / STORE / "posterior/s/c/0/0"), "damaged", 0),
    "deleted journal": (lambda p: next((p / "journal").iterdir()).unlink(), "is missing", 32),
    "torn journal": (lambda p: flip(next((p / "journal").iterdir())), "checksum", 32),
    "torn checkpoint": (
        lambda p: flip(next((p / "checkpoint").iterdir())),
        "cannot be resumed",
        40,
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_is_found_told_and_repaired(tmp_path, case):
    damage, words, whole = DAMAGES[case]
    run = RunFolder.create(tmp_path / "run", CONFIG)
    write_blocks(run, [20, 20])
    run.release()
    assert storage.check(run.path) == []
    damage(run.path)
    found = storage.check(run.path)
    assert len(found) == 1 and words in found[0]
    if not whole:
        with pytest.raises(ValueError, match="No draw .* is whole"):
            storage.repair(run.path)
        return
    if case.startswith("deleted"):
        with pytest.raises(ValueError, match="missing"):
            storage.read(run.path)["posterior"]["w"].values  # noqa: B018
    assert storage.repair(run.path) == whole
    assert storage.check(run.path) == []
    assert_holds(run.path, whole)


def test_a_file_that_goes_away_after_opening_does_not_read_as_numbers(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    done = write_blocks(run, [16, 16])
    run.commit(None, phase="sample", done=done, complete=True)
    run.release()
    tree = storage.read(run.path)
    shutil.rmtree(run.path)
    with pytest.raises(ChunkNotFoundError, match=r"posterior\.zarr/posterior/w"):
        tree["posterior"]["w"].values  # noqa: B018 - reading is what fails


@pytest.mark.parametrize("longer", ["posterior/w", "posterior/draw", "sample_stats/lp"])
def test_arrays_that_a_writer_is_just_making_longer_are_read(tmp_path, monkeypatch, longer):
    """Or that one was killed at: they have unlike lengths, and what is committed is whole."""
    import zarr

    monkeypatch.setattr("bayesnn_ppl.storage.zarr_store._MOST_CHUNK_DRAWS", 4)
    folder = RunFolder.create(tmp_path / "run", CONFIG)

    def block(seed):
        values = np.random.default_rng(seed).normal(size=(2, 6))
        w = np.stack([values, -values], axis=-1)
        return {"posterior": {"w": w, "b": values + 1}, "sample_stats": {"lp": values}}

    folder.append(block(0))
    folder.commit({"s": np.arange(2)}, phase="sample", done=6)
    folder.release()
    assert storage.read_commit(tmp_path / "run")["in_store"] == 4
    before = storage.read(tmp_path / "run").load()
    array = zarr.open_group(tmp_path / "run" / "posterior.zarr", mode="r+")[longer]
    array.resize((8, *array.shape[1:]) if array.ndim == 1 else (2, 8, *array.shape[2:]))
    after = storage.read(tmp_path / "run")
    for group in ("posterior", "sample_stats"):
        for name, values in before[group].data_vars.items():
            assert after[group][name].dims == values.dims
            np.testing.assert_array_equal(after[group][name].values, values.values)
        assert list(after[group]["draw"].values) == list(range(6))
    again = RunFolder.reopen(tmp_path / "run")  # and the run continues
    again.append(block(1))
    again.commit({"s": np.arange(2)}, phase="sample", done=12, complete=True)
    again.release()
    expected = np.concatenate([block(s)["posterior"]["w"] for s in (0, 1)], axis=1)
    np.testing.assert_array_equal(storage.read(tmp_path / "run")["posterior"]["w"], expected)
    assert storage.check(tmp_path / "run") == []
