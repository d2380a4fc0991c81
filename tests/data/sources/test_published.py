"""MNIST, Fashion-MNIST, CIFAR and IMDB: as published, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bayesnn_ppl.data import corrupt_dataset, load, load_imdb, names, ood_pair
from bayesnn_ppl.data.common.pixels import channel_moments, scaled, tfds_order
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.data.sources import images, imdb

FOLDER = os.environ.get("BAYESNN_DATA")
needs_files = pytest.mark.skipif(
    not FOLDER, reason="BAYESNN_DATA, the folder of the image and text files, is not set"
)
# The first ids of the first training review, as published with num_words=10000.
FIRST_REVIEW = [1, 14, 22, 16, 43, 530, 973, 1622, 1385, 65, 458, 4468, 66, 3941, 4, 173, 36, 256]
FIRST_REVIEW += [5, 25, 100]


@pytest.fixture(scope="module")
def fashion():
    """Fashion-MNIST beside MNIST, loaded once: the pair of both."""
    return ood_pair("mnist", subset=160)


@needs_files
def test_mnist(fashion):
    dataset, _ = fashion
    assert dataset.train.x.shape == (160, 28, 28, 1) and dataset.test.x.shape == (10000, 28, 28, 1)
    assert dataset.train.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert dataset.feature_names == ("grey",) and dataset.classes == 10
    stored = images.stored_arrays("mnist")
    assert np.bincount(stored["y_train"]).tolist() == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    ]
    moments = channel_moments(stored["x_train"])
    np.testing.assert_allclose([moments.x_mean, moments.x_scale], [[0.1307], [0.3081]], atol=5e-5)
    raw = load("mnist", standardise=False, subset=160)
    assert raw.train.x.min() == 0 and raw.train.x.max() == 1 and raw.sha256 == dataset.sha256
    np.testing.assert_allclose(dataset.train.x, (raw.train.x - 0.1307) / 0.3081, atol=2e-6)
    moved = load("MNIST", order="tfds", subset=7)
    np.testing.assert_array_equal(moved.train.y, stored["y_train"][tfds_order("train", 60000)[:7]])
    again = images.stored_arrays("mnist")
    assert again is stored


@needs_files
def test_pairs_in_both_directions(fashion):
    dataset, foreign = fashion
    clothes, digits = ood_pair("fashion_mnist", standardise=False, subset=10)
    assert clothes.train.y.tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    np.testing.assert_allclose(
        foreign, dataset.standardisation.apply_x(clothes.test.x), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        digits, dataset.test.x * np.float32(0.3081) + np.float32(0.1307), atol=1e-5
    )
    changed = corrupt_dataset(clothes, "brightness", 5)
    assert changed.test.x.mean() > clothes.test.x.mean() + 0.2


@needs_files
def test_cifar():
    # Loading verifies the SHA-256 of all arrays; here that it does, and against which sums.
    sums = images.SETS["cifar10"].checksums
    published = Path(FOLDER, "README.md")
    if published.is_file():
        assert all(value in published.read_text() for value in sums.values())
    dataset, foreign = ood_pair("cifar10", subset=40960)
    assert dataset.train.x.shape == (40960, 32, 32, 3) and dataset.test.x.shape[0] == 10000
    assert foreign.shape == (5000, 32, 32, 3) and foreign.dtype == np.float32
    assert dataset.class_names[dataset.train.y[0]] == "frog" and dataset.train.y[1] == 9
    stored = images.stored_arrays("cifar10")
    moments = channel_moments(stored["x_train"])
    np.testing.assert_allclose(moments.x_mean, [0.49139968, 0.48215841, 0.44653091], atol=1e-7)
    np.testing.assert_allclose(moments.x_scale, [0.24703223, 0.24348513, 0.26158784], atol=1e-7)
    expected = (stored["x_train"][40959] / 255 - [0.49, 0.48, 0.44]) / 0.2
    np.testing.assert_allclose(dataset.train.x[-1], expected, atol=1e-5)
    with np.load(Path(FOLDER, "cifar10", "labels.npz")) as labels:
        for part, n in (("train", 50000), ("test", 10000)):
            np.testing.assert_array_equal(tfds_order(part, n), labels[f"tfds_order_{part}"])
    alone = load("cifar100_ood")
    assert "not the CIFAR-100 test set" in alone.description and len(alone.train.x) == 0
    np.testing.assert_array_equal(alone.test.x, foreign)
    assert np.bincount(alone.test.y).tolist() == [50] * 100
    with pytest.raises(ValueError, match="no training part"):
        load("cifar100_ood", subset=10)


@needs_files
def test_imdb_reviews_have_the_published_ids():
    dataset = load("imdb", num_words=10000, length=218)
    first = dataset.train.x[0]
    assert first[:21].tolist() == FIRST_REVIEW and first[-1] == 32 and dataset.train.y[0] == 1
    dataset = load("imdb")
    parts = (dataset.train, dataset.validation, dataset.test)
    assert [x.shape for x, _ in parts] == [(20000, 100), (5000, 100), (25000, 100)]
    assert {x.dtype for x, _ in parts} == {np.dtype(np.int32)}
    np.testing.assert_array_equal(
        dataset.train.x[0], np.where(first[-100:] == 2, dataset.train.x[0], first[-100:])
    )
    lengths = np.count_nonzero(dataset.train.x, axis=1)
    short = np.argmin(lengths)
    assert dataset.train.x[short, -lengths[short]] == 1
    assert not dataset.train.x[short, : -lengths[short]].any()
    assert 10_000 < dataset.train.x.max() < 20_000 and dataset.class_names[0] == "negative"
    subset = load_imdb(subset=50, order="original")
    # Of both classes, though the file begins with the positive ones: the same reviews in its order.
    positive = int(dataset.train.y[:50].sum())
    assert 0 < positive < 50
    assert subset.train.y.tolist() == [1] * positive + [0] * (50 - positive)
    reviews = {row.tobytes() for row in subset.train.x}
    assert reviews == {row.tobytes() for row in dataset.train.x[:50]}
    assert subset.test.y.tolist() == [1] * 12500 + [0] * 12500
    with np.load(Path(FOLDER, "imdb.npz")) as stored:
        order = stored["keras_perm_test"]
    np.testing.assert_array_equal(subset.test.x[order], dataset.test.x)


@needs_files
@pytest.mark.parametrize("name", ["mnist", "imdb"])
def test_a_reference_of_another_order_is_not_taken_for_the_published_one(
    name, tmp_path, monkeypatch
):
    with np.load(Path(FOLDER, f"{name}.npz")) as stored:
        arrays = {key: stored[key] for key in stored.files if "train" in key or name == "mnist"}
    arrays["y_train"] = arrays["y_train"][::-1]
    np.savez(tmp_path / f"{name}.npz", **arrays)
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="`y_train`.* does not have the published checksum.*order"):
        load(name)


def test_bytes_are_scaled_by_channel():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 3)).astype(np.uint8)
    units = Standardisation(np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 0.7]), 0.0, 1.0)
    expected = units.apply_x(pixels / 255).astype(np.float32)
    np.testing.assert_array_equal(scaled(pixels, units), expected)
    moments = channel_moments(pixels)
    np.testing.assert_allclose(moments.x_mean, (pixels / 255).mean((0, 1, 2)))
    np.testing.assert_allclose(moments.x_scale, (pixels / 255).std((0, 1, 2)))


def test_missing_files_say_what_to_lay_where(tmp_path, monkeypatch):
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    for name, file in {
        "mnist": "mnist.npz",
        "fashion-mnist": "fashion_mnist.npz",
        "cifar10": "cifar10/labels.npz",
        "cifar100_ood": "cifar100_ood/labels.npz",
        "cifar100": "cifar-100-binary.tar.gz",
        "imdb": "imdb.npz",
    }.items():
        with pytest.raises(FileNotFoundError, match=f"not set. Lay the file at `<folder>/{file}`"):
            load(name)
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    np.savez(tmp_path / "cifar10" / "labels.npz", y_train=np.zeros(50000, np.uint8))
    with pytest.raises(FileNotFoundError, match=r"x_train_000.webp` does not exist.*WebP strip"):
        load("cifar10")


def test_damaged_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros((3, 28, 28), np.uint8))
    with pytest.raises(ValueError, match="`x_train` .* does not have the published checksum"):
        load("mnist")
    np.savez(tmp_path / "fashion_mnist.npz", other=np.zeros(3))
    with pytest.raises(ValueError, match="must hold the array `x_train`"):
        load("fashion_mnist")
    np.savez(tmp_path / "imdb.npz", other=np.zeros(3))
    with pytest.raises(ValueError, match="must hold the array `tokens_train`"):
        load("imdb")
    folder = tmp_path / "cifar100_ood"
    folder.mkdir()
    np.savez(folder / "labels.npz", y_fine=np.zeros(5000, np.uint8))
    for k in range(10):
        Image.new("RGB", (32, 64)).save(folder / f"x_{k:03d}.webp", lossless=True)
    with pytest.raises(ValueError, match="x_000.webp` is not a readable strip of 500 images"):
        load("cifar100_ood")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "size"}, "`order` must be 'keras' or 'original' or 'tfds', but is 'size'"),
        ({"num_words": 3}, "`num_words` must be an integer of at least 4, but is 3"),
        ({"length": 0}, "`length` must be an integer of at least 1, but is 0"),
        ({"length": True}, "`length` must be an integer"),
    ],
)
def test_options_of_imdb_are_checked_before_reading(options, message, monkeypatch):
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    with pytest.raises(ValueError, match=message):
        load("imdb", **options)


@needs_files
@pytest.mark.parametrize("subset", [0, 60001, 1.5, True])
def test_subsets_that_do_not_exist_are_refused(subset):
    with pytest.raises(ValueError, match="from 1 to the 60000 of the data set `mnist`, but is"):
        load("mnist", subset=subset)


def test_other_refusals(monkeypatch):
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    with pytest.raises(ValueError, match="`order` must be 'original' or 'tfds', but is 'keras'"):
        load("mnist", order="keras")
    with pytest.raises(ValueError, match="no pair for `cifar100_ood`. Known are `cifar10`"):
        ood_pair("cifar100_ood")
    assert names()["imdb"] == imdb.SETS["imdb"] and "BAYESNN_DATA" in imdb.SETS["imdb"]
