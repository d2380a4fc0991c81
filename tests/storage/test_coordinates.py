"""Coordinates have no checksum: their numbers show what is damaged, and no reader meets it."""

import json
import shutil

import numpy as np
import pytest
import zarr

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.storage import RunFolder, zarr_store
from bayesnn_ppl.storage.zarr_store import STORE

TOTAL = 20
DRAWS = np.random.default_rng(0).normal(size=(2, TOTAL, 3))


def append(run, begin, end):
    numbers = DRAWS[:, begin:end, 0]
    run.append(
        {"posterior": {"w": DRAWS[:, begin:end], "b": numbers}, "sample_stats": {"lp": numbers}}
    )
    run.commit({"z": np.array([end])}, phase="sample", done=end)


@pytest.fixture(params=[1, 4])
def run(tmp_path, monkeypatch, request):
    """16 draws in the store, in two chunks, and two in the journal; of weights every k-th."""
    monkeypatch.setattr(zarr_store, "_MOST_CHUNK_DRAWS", 8)
    config = {"kernel": "none", "site_names": {"w": "w", "b": "b"}}
    folder = RunFolder.create(tmp_path / "run", config, every={"posterior": request.param})
    append(folder, 0, 18)
    folder.release()
    assert folder.commit_record["in_store"] == 16 and storage.check(folder.path) == []
    return folder.path


def overwrite(run, array):
    """Two bytes of a coordinate, from its last number that counts."""
    file = run / STORE / array / "c" / "0"
    content = bytearray(file.read_bytes())
    content[-8:-6] = b"\x07\x07"
    file.write_bytes(bytes(content))


def other_numbers(run, array):
    """A whole chunk, whose numbers are not those."""
    stored = zarr.open_group(run / STORE, mode="r+")[array]
    stored[1:2] = 77


def other_length(run, array):
    stored = zarr.open_group(run / STORE, mode="r+")[array]
    stored.resize((stored.shape[0] - 1,))


def no_chunk(run, array):
    shutil.rmtree(run / STORE / array / "c")


DAMAGES = [overwrite, other_numbers, other_length, no_chunk]
ARRAYS = ["posterior/draw", "posterior/w_dim_0", "posterior/chain", "sample_stats/draw"]


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_coordinate_is_found_and_written_again(run, damage, array):
    before = storage.read(run).load()
    damage(run, array)
    group, name = array.split("/")
    (found,) = storage.check(run)
    assert found.startswith(f"The coordinate `{name}` of `{group}` is damaged: ")
    assert "The draws are not touched; `bayesnn check --repair` writes it again." in found
    assert storage.read(run).load().identical(before), "a reader does not meet the damage"
    thinned = storage.read(run, thin=4)["posterior"]
    np.testing.assert_array_equal(thinned["w"].values, DRAWS[:, 3:16:4])
    assert storage.repair(run) == 18
    assert storage.check(run) == [] and storage.read(run).load().equals(before)
    assert json.loads((run / "config.json").read_text())["repaired"] == [found]
    again = RunFolder.reopen(run)
    assert again.load_state()["z"] == 18, "no draw is lost, so the run can be resumed"
    append(again, 18, TOTAL)
    again.release()
    assert storage.check(run) == []
    assert storage.read(run)["sample_stats"]["draw"].values.tolist() == list(range(TOTAL))


def test_the_number_that_is_wrong_is_told(run):
    other_numbers(run, "sample_stats/draw")
    assert "`sample_stats` is damaged: its number 1 is 77, not 1. " in storage.check(run)[0]


def test_coordinates_and_draws_that_are_damaged_are_both_repaired(run):
    other_numbers(run, "sample_stats/draw")
    (run / STORE / "sample_stats" / "lp" / "c" / "0" / "1").unlink()
    assert len(storage.check(run)) == 2
    assert storage.repair(run) == 8
    assert storage.check(run) == [] and storage.read(run)["sample_stats"].sizes["draw"] == 8


def test_draws_that_a_store_lacks_are_told(run):
    array = zarr.open_group(run / STORE, mode="r+")["sample_stats/lp"]
    array.resize((2, 15))
    with pytest.raises(ValueError, match="holds 15 of the 16 draws of `sample_stats`"):
        storage.read(run)


@pytest.mark.parametrize("complete", [True, False])
def test_a_damaged_chunk_is_told_with_its_run_and_what_to_do(run, complete):
    """A complete run is read when its draws are used; store and journal when it is opened."""
    if complete:
        folder = RunFolder.reopen(run)
        folder.commit(None, phase="sample", done=18, complete=True)
        folder.release()
    file = run / STORE / "posterior" / "w" / "c" / "0" / "0" / "0"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    sentence = (
        rf"`posterior/w` of the run `{run}` cannot be read: .*checksum.*`bayesnn check {run}` says "
        "which chunks are damaged, .* Or restore the run from a copy, or sample again"
    )
    if not complete:
        with pytest.raises(ValueError, match=sentence):
            bnn.load(run)
        return
    posterior = bnn.load(run)
    for reading in (
        lambda: posterior.draws,
        lambda: posterior.samples(),
        lambda: posterior.save(run.with_name("copy")),
    ):
        with pytest.raises(ValueError, match=sentence):
            reading()
    assert set(posterior.statistics) == {"lp"}, "the others are read"
