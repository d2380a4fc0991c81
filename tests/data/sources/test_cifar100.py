"""CIFAR-100 as it is downloaded: the archive, its unpacked folder, and what is refused."""

import hashlib
import io
import os
import tarfile

import numpy as np
import pytest
from tensorflow_datasets.core.download import checksums
from tensorflow_datasets.image_classification import cifar

from bayesnn_ppl.data import load, ood_pair
from bayesnn_ppl.data.common.pixels import tfds_order
from bayesnn_ppl.data.sources import cifar100, images

ROWS = {"train": 220, "test": 110}
NAMES = (("fine", cifar100.FINE), ("coarse", cifar100.COARSE))


def contents():
    """Small files in the published layout, and what they hold by part."""
    generator = np.random.default_rng(0)
    files, expected = {}, {}
    for part, rows in ROWS.items():
        pixels = generator.integers(0, 256, (rows, 32, 32, 3)).astype(np.uint8)
        fine = (np.arange(rows) % 100).astype(np.uint8)
        coarse = (fine // 5).astype(np.uint8)
        planes = pixels.transpose(0, 3, 1, 2).reshape(rows, -1)
        files[f"{part}.bin"] = np.column_stack([coarse, fine, planes]).tobytes()
        expected[part] = pixels, fine, coarse
    return files, expected


FILES, EXPECTED = contents()


def pack(path, files):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-100-binary/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for the data, where the sums of the small files stand for the published ones."""
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    sums = {name: hashlib.sha1(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(cifar100, "CHECKSUMS", sums)
    return tmp_path


def unpacked(folder):
    (folder / "cifar-100-binary").mkdir()
    for name, content in FILES.items():
        (folder / "cifar-100-binary" / name).write_bytes(content)


def packed(folder):
    pack(folder / "cifar-100-binary.tar.gz", {"fine_label_names.txt": b"apple\n", **FILES})


@pytest.mark.parametrize("lay", [packed, unpacked])
def test_both_labels_and_both_orders(folder, lay):
    lay(folder)
    dataset = load("CIFAR-100")
    assert dataset.train.x.shape == (220, 32, 32, 3) and dataset.train.x.dtype == np.float32
    assert dataset.target_name == "label" and dataset.classes == 100
    pixels, fine, coarse = EXPECTED["test"]
    np.testing.assert_array_equal(dataset.test.y, fine)
    expected = (pixels / 255 - [0.49, 0.48, 0.44]) / 0.2
    np.testing.assert_allclose(dataset.test.x, expected, atol=1e-5)
    assert dataset.class_names[0] == "apple" and dataset.class_names[99] == "worm"
    broad = load("cifar100", target="coarse_label", order="tfds", subset=50)
    order = tfds_order("train", 220)[:50]
    np.testing.assert_array_equal(broad.train.y, EXPECTED["train"][2][order])
    np.testing.assert_array_equal(broad.test.y, coarse[tfds_order("test", 110)])
    np.testing.assert_array_equal(broad.train.x, dataset.train.x[order])
    assert broad.target_name == "coarse_label" and broad.classes == 20
    assert broad.class_names[19] == "vehicles_2" and broad.sha256 == dataset.sha256
    raw = load("cifar100", standardise=False)
    assert raw.train.x.min() == 0 and raw.train.x.max() == 1


def test_what_is_not_the_published_file_is_refused(folder, monkeypatch):
    path = folder / "cifar-100-binary.tar.gz"
    swapped = {"train.bin": FILES["train.bin"][::-1], "test.bin": FILES["test.bin"]}
    pack(path, swapped)
    with pytest.raises(ValueError, match="`train.bin` of .* not have the published checksum"):
        load("cifar100")
    pack(path, {"train.bin": FILES["train.bin"]})
    with pytest.raises(ValueError, match="lacks the file `cifar-100-binary/test.bin`"):
        load("cifar100")
    packed(folder)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(ValueError, match="is not a readable archive .*fresh copy"):
        load("cifar100")
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="is not a readable archive"):
        load("cifar100")


def test_pickles_are_not_read_and_what_is_missing_is_told(folder):
    (folder / "cifar-100-python").mkdir()
    (folder / "cifar-100-python" / "train").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(FileNotFoundError, match="(?s)cifar-100-binary.tar.gz.*it is a pickle"):
        load("cifar100")
    unpacked(folder)
    (folder / "cifar-100-binary" / "test.bin").unlink()
    with pytest.raises(FileNotFoundError, match="test.bin` does not exist"):
        load("cifar100")


def test_options(folder):
    packed(folder)
    with pytest.raises(ValueError, match="`target` must be 'label' or 'coarse_label', but is 'f"):
        load("cifar100", target="fine")
    with pytest.raises(ValueError, match="`target` cannot be chosen for the data set `mnist`"):
        load("mnist", target="label")
    with pytest.raises(ValueError, match="from 1 to the 220 of the data set `cifar100`"):
        load("cifar100", subset=221)


@pytest.mark.skipif(not os.environ.get("BAYESNN_DATA"), reason="BAYESNN_DATA is not set")
def test_cifar10_is_the_pair_of_cifar100(tmp_path, monkeypatch):
    """Real images of CIFAR-10 beside the small files."""
    packed(tmp_path)
    sums = {name: hashlib.sha1(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(cifar100, "CHECKSUMS", sums)
    monkeypatch.setattr(cifar100, "files", lambda: [tmp_path / "cifar-100-binary.tar.gz"])
    dataset, foreign = ood_pair("cifar100", standardise=False)
    assert dataset.name == "cifar100" and foreign.shape == (10000, 32, 32, 3)
    stored = images.stored_arrays("cifar10")["x_test"]
    np.testing.assert_array_equal(foreign[::500], (stored[::500] / 255).astype(np.float32))


def test_the_builder_of_tfds_gives_both_labels(folder, monkeypatch):
    files = {f"{kind}_label_names.txt": "\n".join(names).encode() + b"\n" for kind, names in NAMES}
    pack(folder / "cifar-100-binary.tar.gz", files | FILES)
    url, info = next(iter(cifar.Cifar100.url_infos.items()))
    assert info.checksum.startswith("58a81ae1")
    info = checksums.compute_url_info(folder / "cifar-100-binary.tar.gz")
    monkeypatch.setattr(cifar.Cifar100, "url_infos", {url: info})
    where = {"data_dir": folder / "tfds", "manual_dir": folder}
    prepared = load("tfds:cifar100", **where)
    broad = load("tfds:cifar100", target="coarse_label", **where)
    own = load("cifar100", order="tfds")
    for part in ("train", "test"):
        np.testing.assert_array_equal(getattr(prepared, part).x, getattr(own, part).x)
        np.testing.assert_array_equal(getattr(prepared, part).y, getattr(own, part).y)
    assert prepared.class_names == own.class_names and broad.class_names == cifar100.COARSE
    np.testing.assert_array_equal(
        broad.train.y, load("cifar100", order="tfds", target="coarse_label").train.y
    )
