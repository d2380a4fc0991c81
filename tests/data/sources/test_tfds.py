"""TensorFlow Datasets without TensorFlow: own builders, and the builder of MNIST."""

import gzip
import importlib.util
import io
import os
import struct
import sys
import tarfile

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums
from tensorflow_datasets.core.utils import lazy_imports_utils
from tensorflow_datasets.image_classification import cifar, mnist

from bayesnn_ppl.data import load, uci_split_indices
from bayesnn_ppl.data.common.pixels import tfds_order
from bayesnn_ppl.data.sources import images

ROWS = {"train": 30, "validation": 6, "test": 8}


def row(index):
    """Features that the position determines, so that the order can be read off."""
    return {
        "features": np.array([index, index**2 % 7, -index], np.float32),
        "price": np.float32(index / 2),
        "kind": index % 3,
        "note": f"row {index}",
    }


class OwnTable(tfds.core.GeneratorBasedBuilder):
    """Thirty rows and their kind."""

    VERSION = tfds.core.Version("1.0.0")
    PARTS = ("train", "validation", "test")

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "features": tfds.features.Tensor(shape=(3,), dtype=np.float32),
                    "price": np.float32,
                    "kind": tfds.features.ClassLabel(names=["x", "y", "z"]),
                    "note": tfds.features.Text(),
                }
            ),
            supervised_keys=("features", "kind"),
        )

    def _split_generators(self, dl_manager):
        return {part: self._generate_examples(ROWS[part]) for part in self.PARTS}

    def _generate_examples(self, rows):
        for index in range(rows):
            yield index, row(index)


class OwnUnsplitTable(OwnTable):
    """The training rows alone."""

    PARTS = ("train",)


class OwnImages(tfds.core.GeneratorBasedBuilder):
    """Colour images that are to be downloaded by hand."""

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Ask the author for pixels.npy."

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(4, 5, 3)),
                    "label": tfds.features.ClassLabel(num_classes=2),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        pixels = np.load(dl_manager.manual_dir / "pixels.npy")
        return {
            "train": self._generate_examples(pixels[:20]),
            "test": self._generate_examples(pixels[20:]),
        }

    def _generate_examples(self, pixels):
        for index, image in enumerate(pixels):
            yield index, {"image": image, "label": index % 2}


class OwnPhotographs(tfds.core.GeneratorBasedBuilder):
    """Arrays that are to be stored with a loss."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(4, 5, 3), encoding_format="jpeg"),
                    "label": tfds.features.ClassLabel(num_classes=2),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        yield 0, {"image": np.zeros((4, 5, 3), np.uint8), "label": 0}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder in which the sets of this file are prepared once."""
    return tmp_path_factory.mktemp("tfds")


def test_a_table_of_an_own_builder(prepared, capsys):
    dataset = load("tfds:own_table", data_dir=prepared, standardise=False)
    assert dataset.name == "tfds:own_table" and dataset.class_names == ("x", "y", "z")
    order = tfds_order("train", 30)
    np.testing.assert_array_equal(dataset.train.x, [row(int(i))["features"] for i in order])
    np.testing.assert_array_equal(dataset.train.y, order % 3)
    assert len(dataset.test.x) == 8 and len(dataset.validation.y) == 6
    assert capsys.readouterr().out == ""
    priced = load("tfds:own_table", data_dir=prepared, target="price", subset=12)
    assert priced.task == "regression" and len(priced.train.x) == 12
    back = priced.standardisation.undo_y(priced.train.y)
    np.testing.assert_allclose(back, order[:12] / 2, atol=1e-5)
    assert (prepared / "own_table" / "1.0.0").is_dir()
    if importlib.util.find_spec("tensorflow") is None:
        assert "tensorflow" not in sys.modules
        # The stand-in is gone after use.
        assert "_module" not in vars(lazy_imports_utils.tensorflow)


def test_a_set_without_a_test_part_is_split_by_the_rule(prepared):
    dataset = load("tfds:own_unsplit_table", data_dir=prepared, split=1, standardise=False)
    test = uci_split_indices(30, 2)[1][1]
    expected = tfds_order("train", 30)[test]
    np.testing.assert_array_equal(dataset.test.x[:, 0], expected)
    assert dataset.validation is None


def test_images_of_an_own_builder(prepared, tmp_path):
    with pytest.raises(FileNotFoundError, match="Lay the files of .*Ask the author.*`manual_dir`"):
        load("tfds:own_images", data_dir=prepared)
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        load("tfds:own_images", data_dir=prepared, manual_dir=tmp_path / "nowhere")
    pixels = np.random.default_rng(0).integers(0, 256, (26, 4, 5, 3)).astype(np.uint8)
    np.save(tmp_path / "pixels.npy", pixels)
    raw = load("tfds:own_images", data_dir=prepared, manual_dir=tmp_path, standardise=False)
    train, test = tfds_order("train", 20), tfds_order("test", 6)
    np.testing.assert_array_equal(raw.train.x, (pixels[train] / 255).astype(np.float32))
    np.testing.assert_array_equal(raw.test.x, (pixels[20 + test] / 255).astype(np.float32))
    np.testing.assert_array_equal(raw.test.y, test % 2)
    dataset = load("tfds:own_images", data_dir=prepared)
    np.testing.assert_allclose(dataset.train.x.mean((0, 1, 2)), 0, atol=1e-5)
    assert dataset.feature_names == ("red", "green", "blue") and dataset.sha256 == raw.sha256


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is not None, reason="TensorFlow stores these arrays"
)
def test_arrays_are_not_stored_with_the_losses_of_another_encoder(prepared):
    with pytest.raises(ImportError, match="`own_photographs` cannot .* to store arrays as jpeg"):
        load("tfds:own_photographs", data_dir=prepared)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "prise"}, "has no feature `prise`.*`features`, `price`, `kind`, `note`"),
        ({"target": "note"}, "feature `note` of type .* and only numbers targets"),
        ({"num_words": 9, "length": 5}, "`num_words` and `length` cannot be .* `features` is none"),
        ({"split": 1}, "a split of its own"),
        ({"test_fraction": 0.3}, "a split of its own"),
        ({"subset": 31}, "from 1 to the 30 of the data set `own_table`"),
    ],
)
def test_options_that_do_not_fit_are_refused(prepared, options, message):
    with pytest.raises(ValueError, match=message):
        load("tfds:own_table", data_dir=prepared, **options)


def test_unknown_names_are_refused(prepared):
    with pytest.raises(ValueError, match="no data set `own_tabel`. Did you mean `own_table`"):
        load("tfds:own_tabel", data_dir=prepared)


def test_what_cannot_be_downloaded_says_what_to_lay_where(tmp_path, monkeypatch):
    def unreachable(*_, **__):
        raise ConnectionError("no network in this test")

    monkeypatch.setattr("requests.Session.get", unreachable)
    with pytest.raises(FileNotFoundError) as error:
        load("tfds:mnist", data_dir=tmp_path)
    said = str(error.value)
    assert "no network in this test" in said and "pass it as `manual_dir`" in said
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        assert f"`{stem}-ubyte.gz` (from http" in said


def lay_mnist(folder, arrays):
    """The four archives, as they are downloaded from the address that TFDS knows."""
    for stem, part in (("train", "train"), ("t10k", "test")):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        for name, array in ((f"{stem}-images-idx3", x), (f"{stem}-labels-idx1", y)):
            header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            path = folder / f"{name}-ubyte.gz"
            path.write_bytes(gzip.compress(header + array.tobytes(), 1))


def allow(monkeypatch, folder, builder=mnist.MNIST):
    """Take the sums of the archives at hand for the published ones: gzip is not unique."""
    infos = {
        url: checksums.compute_url_info(folder / info.filename)
        for url, info in builder.url_infos.items()
    }
    monkeypatch.setattr(builder, "url_infos", infos)


def test_the_builder_of_mnist_takes_archives_laid_by_hand(tmp_path, monkeypatch):
    """The first rows only, because all 70000 take half a minute; see the test below."""
    generator = np.random.default_rng(0)
    arrays = {
        "x_train": generator.integers(0, 256, (60, 28, 28)).astype(np.uint8),
        "y_train": (np.arange(60) % 10).astype(np.uint8),
        "x_test": generator.integers(0, 256, (20, 28, 28)).astype(np.uint8),
        "y_test": (np.arange(20) % 10).astype(np.uint8),
    }
    if os.environ.get("BAYESNN_DATA"):
        stored = images.stored_arrays("mnist")
        arrays = {key: stored[key][: len(arrays[key])].squeeze() for key in arrays}
    monkeypatch.setattr(mnist, "_TRAIN_EXAMPLES", 60)
    monkeypatch.setattr(mnist, "_TEST_EXAMPLES", 20)
    lay_mnist(tmp_path, arrays)
    with pytest.raises(ValueError, match="is not the published one.*wrong checksum"):
        load("tfds:mnist", data_dir=tmp_path / "data", manual_dir=tmp_path)
    allow(monkeypatch, tmp_path)
    dataset = load("tfds:mnist", data_dir=tmp_path / "data", manual_dir=tmp_path)
    assert dataset.train.x.shape == (60, 28, 28, 1) and dataset.validation is None
    np.testing.assert_array_equal(dataset.train.y, arrays["y_train"][tfds_order("train", 60)])
    expected = (arrays["x_test"][tfds_order("test", 20)] / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(dataset.test.x[..., 0], expected, atol=1e-5)


def test_the_builder_of_cifar_takes_an_archive_laid_by_hand(tmp_path, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3)).astype(np.uint8)
    labels = (np.arange(24) % 10).astype(np.uint8)
    batches = [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]
    contents = {"batches.meta.txt": "\n".join(images.SETS["cifar10"].class_names).encode()}
    for k, batch in enumerate(batches):
        rows = slice(4 * k, 4 * k + 4)
        planes = pixels[rows].transpose(0, 3, 1, 2).reshape(4, -1)
        contents[batch] = np.column_stack([labels[rows], planes]).tobytes()
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    allow(monkeypatch, tmp_path, cifar.Cifar10)
    dataset = load("tfds:cifar10", data_dir=tmp_path / "data", manual_dir=tmp_path)
    train, test = tfds_order("train", 20), tfds_order("test", 4)
    np.testing.assert_array_equal(dataset.train.y, labels[train])
    expected = (pixels[20 + test] / 255 - [0.49, 0.48, 0.44]) / 0.2
    np.testing.assert_allclose(dataset.test.x, expected, atol=1e-5)
    assert dataset.class_names[9] == "truck"


@pytest.mark.skipif(
    not (os.environ.get("BAYESNN_DATA") and os.environ.get("BAYESNN_SLOW_TESTS")),
    reason="BAYESNN_DATA and BAYESNN_SLOW_TESTS are not set; all of MNIST takes half a minute",
)
def test_all_of_mnist_from_archives_laid_by_hand(tmp_path, monkeypatch):
    stored = images.stored_arrays("mnist")
    lay_mnist(tmp_path, {key: stored[key].squeeze() for key in stored})
    allow(monkeypatch, tmp_path)
    prepared = load("tfds:mnist", data_dir=tmp_path / "data", manual_dir=tmp_path)
    dataset = load("mnist", order="tfds")
    for a, b in zip(
        (*prepared.train, *prepared.test), (*dataset.train, *dataset.test), strict=True
    ):
        np.testing.assert_array_equal(a, b)
