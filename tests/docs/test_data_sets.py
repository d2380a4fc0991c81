"""What the page of the data sets makes from published files, and which recipes need it."""

import csv
import gzip
import io
import json
import os
import re
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image

import bayesnn_ppl as bnn
from bayesnn_ppl.data.common.pixels import tfds_order
from bayesnn_ppl.experiments.recipe import load_recipe, recipe_names
from tests.docs.reading import ROOT, blocks

PAGE = ROOT / "docs" / "how_to" / "data_sets.md"
WITH_DATA = pytest.mark.skipif(
    not os.environ.get("BAYESNN_DATA"), reason="BAYESNN_DATA, the folder of the files, is not set"
)
PIXELS = np.random.default_rng(0)


@pytest.fixture(scope="module")
def make():
    """The functions of the page by name."""
    names = {}
    for _, text in blocks(PAGE, "python"):
        exec(compile(text, str(PAGE), "exec"), names)
    return names


def add(archive, name, content):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def write_idx(folder, arrays):
    """The four files in which MNIST is published."""
    folder.mkdir()
    for name, array in arrays.items():
        content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        file = f"{name}-idx{array.ndim}-ubyte.gz"
        (folder / file).write_bytes(gzip.compress(content + array.tobytes(), 1))


def test_mnist(make, tmp_path):
    given = {
        "x_train": PIXELS.integers(0, 256, (60, 28, 28), np.uint8),
        "y_train": PIXELS.integers(0, 10, 60, np.uint8),
        "x_test": PIXELS.integers(0, 256, (10, 28, 28), np.uint8),
        "y_test": PIXELS.integers(0, 10, 10, np.uint8),
    }
    files = ("train-images", "train-labels", "t10k-images", "t10k-labels")
    write_idx(tmp_path / "mnist", dict(zip(files, given.values(), strict=True)))
    make["make_mnist"](tmp_path / "mnist", tmp_path / "mnist.npz")
    with np.load(tmp_path / "mnist.npz") as made:
        assert set(made) == set(given)
        assert all(np.array_equal(made[name], given[name]) for name in given)


def write_cifar10(archive, images, labels):
    """The published archive, of 500 training and 500 test images."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
            rows = slice(100 * k, 100 * k + 100) if k < 5 else slice(500, 1000)
            planes = images[rows].transpose(0, 3, 1, 2).reshape(-1, 3072)
            content = np.concatenate([labels[rows, None], planes], axis=1).tobytes()
            add(tar, f"cifar-10-batches-bin/{name}.bin", content)


def test_cifar10(make, tmp_path):
    images = PIXELS.integers(0, 256, (1000, 32, 32, 3), np.uint8)
    labels = PIXELS.integers(0, 10, 1000, np.uint8)
    write_cifar10(tmp_path / "cifar.tar.gz", images, labels)
    make["make_cifar10"](tmp_path / "cifar.tar.gz", tmp_path / "cifar10")
    for name, rows in (("train", slice(500)), ("test", slice(500, None))):
        with Image.open(tmp_path / "cifar10" / f"x_{name}_000.webp") as strip:
            pixels = np.asarray(strip.convert("RGB")).reshape(-1, 32, 32, 3)
        assert np.array_equal(pixels, images[rows])
        with np.load(tmp_path / "cifar10" / "labels.npz") as made:
            assert np.array_equal(made[f"y_{name}"], labels[rows])


def write_reviews(archive, texts):
    with tarfile.open(archive, "w:gz") as tar:
        add(tar, "aclImdb/README", b"of the archive")
        for name, text in texts.items():
            add(tar, f"aclImdb/{name}", text.encode())


def test_imdb(make, tmp_path):
    texts = {
        "train/pos/10_9.txt": "A fine film, fine-grained!<br />It's good.",
        "train/pos/2_7.txt": "GOOD acting\tÉtonnant film",
        "train/neg/0_1.txt": "not good",
        "train/unsup/0_0.txt": "no label",
        "test/neg/1_3.txt": "a film",
        "test/pos/0_10.txt": "unheard-of",
    }
    words = "a good film fine not it's br acting grained Étonnant".split()
    ranks = {word: rank for rank, word in enumerate(words, 1)}
    write_reviews(tmp_path / "reviews.tar.gz", texts)
    (tmp_path / "index.json").write_text(json.dumps(ranks))
    make["make_imdb"](tmp_path / "reviews.tar.gz", tmp_path / "index.json", tmp_path / "imdb.npz")
    with np.load(tmp_path / "imdb.npz") as made:
        arrays = dict(made)
    assert arrays["y_train"].tolist() == [1, 1, 0] and arrays["y_test"].tolist() == [1, 0]
    assert arrays["review_id_train"].tolist() == [10, 2, 0]
    assert arrays["rating_train"].tolist() == [9, 7, 1] and arrays["rating_test"][0] == 10
    assert arrays["offsets_test"].tolist() == [0, 0, 2]
    for part in ("train", "test"):
        names = sorted((n for n in texts if n.startswith(part)), key=lambda n: ("neg" in n, n))
        kept = [n for n in names if "unsup" not in n]
        for i, name in enumerate(kept):
            begin, end = arrays[f"offsets_{part}"][i : i + 2]
            (ids,) = bnn.data.encode_texts([texts[name]], ranks, num_words=100, length=20)
            assert arrays[f"tokens_{part}"][begin:end].tolist() == (ids[ids > 3] - 3).tolist()


def test_uci_and_tables(make, tmp_path):
    table = PIXELS.normal(size=(40, 4))
    train, test = bnn.data.uci_split_indices(40)
    folder = tmp_path / "yacht" / "data"
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", table, fmt="%.17g")
    np.savetxt(folder / "index_features.txt", [0, 1, 2], fmt="%d")
    np.savetxt(folder / "index_target.txt", [3], fmt="%d")
    for k in range(20):
        np.savetxt(folder / f"index_train_{k}.txt", train[k], fmt="%.18e")
        np.savetxt(folder / f"index_test_{k}.txt", test[k], fmt="%.18e")
    make["make_uci"](tmp_path / "yacht", tmp_path / "uci" / "yacht.npz")
    make["make_table"](table[:, :3], table[:, 3], tmp_path / "uci" / "own.npz")
    for name in ("yacht", "own"):
        with np.load(tmp_path / "uci" / f"{name}.npz") as made:
            assert np.array_equal(made["X"], table[:, :3]) and np.array_equal(
                made["y"], table[:, 3]
            )
            assert np.array_equal(made["train_idx"], train)
            assert np.array_equal(made["test_idx"], test)


@WITH_DATA
@pytest.mark.parametrize("name", ["airfoil", "bikesharing"])
def test_tables_without_published_splits(name, make, tmp_path):
    with np.load(f"{os.environ['BAYESNN_DATA']}/uci/{name}.npz") as stored:
        x, y, train = stored["X"], stored["y"], stored["train_idx"]
    file = tmp_path / "downloaded"
    if name == "airfoil":
        np.savetxt(file, np.column_stack([x, y]), fmt="%.17g", delimiter="\t")
    else:
        columns = "season yr mnth hr holiday weekday workingday weathersit temp atemp hum windspeed"
        with file.open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(["instant", "dteday", *columns.split(), "casual", "registered", "cnt"])
            writer.writerows([0, "", *row, 0, 0, t] for row, t in zip(x, y, strict=True))
    make[f"make_{name}"](file, tmp_path / "made.npz")
    with np.load(tmp_path / "made.npz") as made:
        assert np.array_equal(made["X"], x) and np.array_equal(made["y"], y)
        assert np.array_equal(made["train_idx"], train)


@WITH_DATA
def test_a_set_that_is_made_is_read(make, tmp_path, monkeypatch):
    with np.load(f"{os.environ['BAYESNN_DATA']}/mnist.npz") as stored:
        arrays = [stored[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    files = ("train-images", "train-labels", "t10k-images", "t10k-labels")
    write_idx(tmp_path / "downloads", dict(zip(files, arrays, strict=True)))
    make["make_mnist"](tmp_path / "downloads", tmp_path / "mnist.npz")
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    assert bnn.data.load("mnist").train.x.shape == (60_000, 28, 28, 1)


def test_the_reference(make, tmp_path):
    probabilities = PIXELS.dirichlet(np.ones(10), 40).astype(np.float32)
    sentiments = PIXELS.dirichlet(np.ones(2), 20).astype(np.float32)
    order, keras = tfds_order("test", 40), PIXELS.permutation(20).astype(np.int32)
    for name, array in (("cifar10", probabilities[order]), ("imdb", sentiments[keras])):
        np.savetxt(tmp_path / f"{name}.csv", array, delimiter=",", fmt="%.9g")
    np.savez(tmp_path / "imdb.npz", keras_perm_test=keras)
    places = (tmp_path / name for name in ("cifar10.csv", "imdb.csv", "imdb.npz", "made.npz"))
    make["make_reference"](*places)
    with np.load(tmp_path / "made.npz") as made:
        assert np.array_equal(made["cifar10_probs"], probabilities[made["cifar10_rows"]])
        assert np.array_equal(made["imdb_probs"], sentiments[made["imdb_rows"]])
        assert made["cifar10_rows"].shape == (20,) and made["imdb_rows"].dtype == np.int32


FILES = {"mnist": "mnist.npz", "cifar10": "cifar10/", "imdb": "imdb.npz"}
FILES |= {"cifar100": "cifar-100-binary.tar.gz", "fashion_mnist": "fashion_mnist.npz"}


def test_the_table_of_recipes():
    rows = re.findall(r"^\| `([^`]+)` \| (`[^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    told = {file: set(re.findall(r"`([^`]+)`", cell)) for file, cell in rows}
    needed = {}
    for name in recipe_names():
        for scale in ("full", "cpu"):
            data = load_recipe(name).at(scale)["data"]
            file = FILES.get(data, f"uci/{data}.npz")
            needed.setdefault(scale, {}).setdefault(file, set()).add(name)
        assert "needs BAYESNN_DATA" not in bnn.data.names()[load_recipe(name).at("tiny")["data"]]
    for scale in ("full", "cpu"):
        assert needed[scale] == {file: told.get(file) for file in needed[scale]}
    assert set(told) == set(needed["full"])
