"""A run from anywhere: nothing outside it is read, nothing foreign decoded, nothing executed."""

import io
import json
import zipfile
import zlib

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.core import npz
from bayesnn_ppl.storage import RunFolder, zarr_store
from bayesnn_ppl.storage.files import write_arrays
from bayesnn_ppl.storage.hostile import _unpacked_by_zstd
from bayesnn_ppl.storage.zarr_store import STORE


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr_store, "_MOST_CHUNK_DRAWS", 8)
    made = RunFolder.create(tmp_path / "run", {"kernel": "none", "site_names": {"w": "w"}})
    draws = np.random.default_rng(0).normal(size=(2, 20))
    made.append({"posterior": {"w": draws}, "sample_stats": {"lp": draws}})
    made.commit({"z": np.zeros(2)}, phase="sample", done=20)
    made.release()
    assert storage.check(made.path) == []
    return made.path


def change(file, *way, to):
    value = inner = json.loads(file.read_text())
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = to
    file.write_text(json.dumps(value))


PLACES = ["../secret.npz", "/etc/passwd", "journal/../../secret.npz", "journal/x.npz\n", "a.json"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", ["journal", "checkpoint"])
def test_a_record_names_nothing_outside_its_folder(run, place, what):
    secret = {"posterior/w": np.zeros((2, 4)), "sample_stats/lp": np.zeros((2, 4))}
    checksum = write_arrays(run.parent / "secret.npz", secret)
    change(run / "commit.json", what, 0, "crc32", to=checksum)
    change(run / "commit.json", what, 0, "file", to=place)
    with pytest.raises(ValueError, match="which is not a place of a run"):
        bnn.load(run)


@pytest.mark.parametrize("seconds", ["an hour", -1.0, True, float("nan"), 1e300])
def test_times_are_numbers(run, seconds):
    change(run / "commit.json", "seconds", to=seconds)
    with pytest.raises(ValueError, match="commit.json` is damaged: `seconds` is"):
        bnn.load(run)


def test_a_link_out_of_the_run_is_not_followed(run):
    journal = next((run / "journal").iterdir())
    outside = run.parent / "outside.npz"
    journal.rename(outside)
    journal.symlink_to(outside)
    with pytest.raises(ValueError, match="is a link"):
        bnn.load(run)
    journal.unlink()
    outside.rename(journal)
    (run / STORE / "posterior" / "w").rename(run.parent / "w")
    (run / STORE / "posterior" / "w").symlink_to(run.parent / "w")
    with pytest.raises(ValueError, match="is a link"):
        bnn.load(run)


FOREIGN = [
    (("data_type",), "variable_length_bytes", "and not a number's"),
    (("data_type",), {"name": "numpy.object"}, "and not a number's"),
    (("codecs", 1, "name"), "numcodecs.pickle", "packed by"),
    (("chunk_grid", "configuration", "chunk_shape"), [2, 2**50], "would take"),
    (("chunk_grid", "configuration", "chunk_shape"), [1, 8], "do not fit its shape"),
    (("shape",), [2, -1], "is not a shape"),
    (("zarr_format",), 2, "array metadata are not of zarr's format 3"),
    (("storage_transformers",), [{"name": "x"}], "storage transformers"),
]


@pytest.mark.parametrize(("way", "to", "words"), FOREIGN)
def test_an_array_of_another_kind_is_refused_before_it_is_opened(run, way, to, words):
    change(run / STORE / "posterior" / "w" / "zarr.json", *way, to=to)
    with pytest.raises(ValueError, match=words):
        bnn.load(run)
    with pytest.raises(ValueError, match=words):
        storage.check(run)


def test_a_chunk_that_would_unpack_to_more_is_not_unpacked(run):
    chunk = run / STORE / "posterior" / "w" / "c" / "0" / "0"
    # Magic number, a header of 8 bytes for the content's size, and nothing behind it.
    chunk.write_bytes(b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + bytes(8))
    with pytest.raises(ValueError, match=f"unpacks to {2**40} bytes"):
        bnn.load(run)
    assert any(f"unpacks to {2**40} bytes" in problem for problem in storage.check(run))


@pytest.mark.parametrize("size", [0, 17, 255, 256, 70_000, 2**21])
def test_the_size_in_a_frame_is_what_the_packer_wrote(size):
    from numcodecs.zstd import Zstd

    assert _unpacked_by_zstd(Zstd(level=1).encode(bytes(size))) == (size or 0)
    assert _unpacked_by_zstd(b"nothing of the kind") == -1


def packed(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return io.BytesIO(buffer.getvalue())


def npy(shape, body, descr="<f8"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header = header.ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy((10**12,), b""), "8000000000000 bytes, but the file holds 0"),
        (npy((2,), bytes(24)), "16 bytes, but the file holds 24"),
        (npy((-2,), bytes(16)), "has the shape"),
        (npy((1,), bytes(8), "|O"), "Object arrays are not read"),
        (npy((1,), bytes(4), "|V4"), "and not of numbers"),
    ],
)
def test_an_array_that_lies_about_itself_is_refused(content, words):
    with pytest.raises(ValueError, match=words):
        npz.read_npz(packed(x=content))


def test_an_archive_larger_than_the_limit_is_not_unpacked():
    small = packed(x=npy((2**20,), bytes(2**23)))
    assert len(small.getvalue()) < 2**14, "a bomb is small"
    with pytest.raises(ValueError, match="at most 0.0 GiB are read"):
        npz.read_npz(small, limit=2**22)
    assert npz.read_npz(small, limit=2**24)["x"].shape == (2**20,)


def test_a_damaged_journal_with_a_right_checksum_is_told(run):
    """Who makes a run up makes up its checksums too."""
    entry = json.loads((run / "commit.json").read_text())["journal"][0]
    file = run / entry["file"]
    names = ["posterior/w", "sample_stats/lp"]
    for content in (b"", b"{}\nPK", b'["a"]\n' + packed(a0=npy((1,), bytes(8), "|O")).getvalue()):
        file.write_bytes(content)
        change(run / "commit.json", "journal", 0, "crc32", to=zlib.crc32(content))
        with pytest.raises(ValueError, match="is damaged"):
            bnn.load(run)
    checksum = write_arrays(file, {name: np.zeros((2, 3)) for name in names})
    change(run / "commit.json", "journal", 0, "crc32", to=checksum)
    with pytest.raises(ValueError, match="does not hold the draws 16 to 20"):
        bnn.load(run)
