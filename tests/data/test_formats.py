"""Parquet and NPZ files, folders of arrays and of images."""

import numpy as np
import pandas
import pytest
from PIL import Image

from bayesnn_ppl.data import load, load_table, read_features, uci_split_indices
from bayesnn_ppl.data.tables.table_files import read_table

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(3.0, 2.0, (40, 3)).astype(np.float32)
Y = X[:, 0] - X[:, 2] + 1
LABELS = np.arange(40) % 3


def parquet(path, **columns):
    table = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "price": Y, **columns})
    table.to_parquet(path)
    return path


def test_parquet_is_read_as_csv_is(tmp_path):
    path = parquet(tmp_path / "prices.parquet")
    dataset = load(path, target="price", split=1, test_fraction=0.25)
    pandas.read_parquet(path).to_csv(tmp_path / "prices.csv", index=False)
    same = load(tmp_path / "prices.csv", target="price", split=1, test_fraction=0.25)
    for a, b in zip((*dataset.train, *dataset.test), (*same.train, *same.test), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert dataset.feature_names == ("a", "b") and dataset.name == "prices"
    np.testing.assert_allclose(read_features(path, ["b", "a"]), X[:, [1, 0]], rtol=1e-6)
    kinds = parquet(tmp_path / "kinds.parquet", price=[f"k{label}" for label in LABELS])
    assert load(kinds, target="price").class_names == ("k0", "k1", "k2")


def test_bad_parquet_files_are_refused(tmp_path, monkeypatch):
    text = parquet(tmp_path / "text.parquet", b=["x"] + ["1", "2", "3"] * 13)
    with pytest.raises(ValueError, match="`b` .'x' at row 0.; the first row is row 0"):
        load(text, target="price")
    gap = parquet(tmp_path / "gap.parquet", a=[1.0, None, 2.0, 5.0] * 10)
    assert load(gap, target="price").feature_names == ("a", "a is missing", "b")
    with pytest.raises(ValueError, match="no column `prise`.*Did you mean `price`"):
        load(gap, target="prise")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        load(tmp_path / "torn.parquet", target="price")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_table(tmp_path / "none.parquet", target="price")

    def absent(*_, **__):
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pandas, "read_parquet", absent)
    with pytest.raises(ImportError, match=r"bayesnn_ppl\[parquet\]"):
        load(gap, target="price")


def test_npz_is_split_by_the_rule(tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y, notes=np.array(["ignored"]))
    dataset = load(tmp_path / "mine.npz", split=2, standardise=False)
    test = uci_split_indices(40, 3)[1][2]
    np.testing.assert_array_equal(dataset.test.x, X[test])
    np.testing.assert_allclose(dataset.test.y, Y[test])
    assert dataset.task == "regression" and dataset.name == "mine"
    np.savez(tmp_path / "mine.npz", X=X, kind=LABELS)
    named = load(tmp_path / "mine.npz", target="kind", task="classification")
    assert named.classes == 3 and named.target_name == "kind"


def parts(x_dtype=np.float32, **changes):
    arrays = {"x_train": X[:30].astype(x_dtype), "y_train": Y[:30]}
    return arrays | {"x_test": X[30:].astype(x_dtype), "y_test": Y[30:]} | changes


def lay(folder, arrays):
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_a_given_parts_is_kept(tmp_path, kind, monkeypatch):
    from bayesnn_ppl.data.common import given_parts

    # Several blocks of rows, as large files have.
    monkeypatch.setattr(given_parts, "_BLOCK_BYTES", 8 * 3 * 7)
    path = tmp_path / "mine.npz"
    np.savez(path, **parts())
    path = path if kind == "npz" else lay(tmp_path / "folder", parts())
    dataset = load(path)
    np.testing.assert_allclose(
        dataset.test.x, (X[30:] - X[:30].mean(0)) / X[:30].std(0), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(dataset.train.y.std(), 1, rtol=1e-5)
    np.testing.assert_allclose(dataset.standardisation.undo_y(dataset.test.y), Y[30:], rtol=1e-5)
    raw = load(path, standardise=False)
    np.testing.assert_array_equal(raw.train.x, X[:30])
    assert raw.sha256 == dataset.sha256
    labels = {"y_train": LABELS[:30], "y_test": LABELS[30:]}
    np.savez(tmp_path / "labels.npz", **parts(**labels))
    dataset = load(tmp_path / "labels.npz", task="classification")
    assert dataset.class_names == ("0", "1", "2") and dataset.test.y.dtype == np.int32


def test_arrays_of_a_folder_are_memory_mapped(tmp_path, monkeypatch):
    opened = []
    load_array = np.load
    monkeypatch.setattr(
        np, "load", lambda *a, **k: opened.append(load_array(*a, **k)) or opened[-1]
    )
    load(lay(tmp_path / "folder", parts()))
    assert len(opened) == 4 and all(isinstance(array, np.memmap) for array in opened)


BROKEN = {
    "objects": ({"x": X.astype(object), "y": Y}, {}, "Python objects.*could run code"),
    "no y": ({"x": X, "target": Y}, {}, "lacks the array `y`.*its arrays are `x`, `target`"),
    "NaN": (parts(x_test=X[30:] * np.nan), {}, "The test part of the .* row 0"),
    "NaN target": (parts(y_test=Y[30:] * np.nan), {}, "target of the test part .* in 10 of 10"),
    "other width": (parts(x_test=X[30:, :2]), {}, r"x of shape \(30, 3\).*test part.*\(10, 2\)"),
    "rows": (parts(y_test=Y[29:]), {}, "In the test part of .*`x` has 10 rows"),
    "empty": (parts(x_test=X[:0], y_test=Y[:0]), {}, "In the test part .*has no rows"),
    "split": (parts(), {"split": 1}, "split of its own"),
    "fraction": (parts(), {"test_fraction": 0.2}, "split of its own"),
    "unseen": (
        parts(y_train=LABELS[:30] % 2, y_test=LABELS[30:]),
        {"task": "classification"},
        "labels in its test part that never occur in its train part: 2",
    ),
    "single class": (
        parts(y_train=LABELS[:30] * 0, y_test=LABELS[30:] * 0),
        {"task": "classification"},
        "a single class",
    ),
    "fractions": (
        parts(y_train=LABELS[:30], y_test=LABELS[30:] + 0.5),
        {"task": "classification"},
        "In the test part .* labels must be integers",
    ),
    "ambiguous": (parts(y_train=LABELS[:30]), {}, "In the train part of .*labels or counts"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_bad_archives_are_refused(tmp_path, case):
    arrays, options, message = BROKEN[case]
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "mine.npz", **options)


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.npz` does not exist"):
        load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(ValueError, match="not a readable NumPy archive"):
        load(tmp_path / "text.npz")
    folder = lay(tmp_path / "folder", {"x": X, "y": Y.astype(object)})
    with pytest.raises(ValueError, match="y.npy` is not a readable array of numbers"):
        load(folder)


def pictures(folder, classes=("cat", "dog"), count=8, mode="RGB", size=(6, 5), ending="png"):
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            shape = (size[1], size[0]) + ((3,) if mode == "RGB" else ())
            pixels = GENERATOR.integers(100 * label, 100 * label + 100, shape).astype(np.uint8)
            options = {"lossless": True} if ending == "webp" else {}
            Image.fromarray(pixels).save(folder / name / f"{index}.{ending}", **options)
    return folder


def pixels_of(folder, name, index, ending="png"):
    with Image.open(folder / name / f"{index}.{ending}") as image:
        return np.asarray(image)


@pytest.mark.parametrize("ending", ["png", "webp", "jpg"])
def test_folders_of_images(tmp_path, ending):
    folder = pictures(tmp_path / "pets", ending=ending)
    dataset = load(folder, split=1, standardise=False, test_fraction=0.25)
    assert dataset.class_names == ("cat", "dog") and dataset.feature_names[0] == "red"
    test = uci_split_indices(16, 2, test_fraction=0.25)[1][1]
    np.testing.assert_array_equal(dataset.test.y, test // 8)
    first = pixels_of(folder, ("cat", "dog")[test[0] // 8], test[0] % 8, ending)
    np.testing.assert_array_equal(dataset.test.x[0], (first / 255).astype(np.float32))
    standardised = load(folder, split=1, test_fraction=0.25).train.x
    np.testing.assert_allclose(standardised.mean((0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(standardised.std((0, 1, 2)), 1, atol=1e-5)


def test_folders_of_images_with_a_split(tmp_path):
    pictures(tmp_path / "train", mode="L")
    pictures(tmp_path / "test", mode="L", count=2)
    dataset = load(tmp_path, standardise=False)
    assert dataset.train.x.shape == (16, 5, 6, 1) and dataset.test.y.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(
        dataset.test.x[2, :, :, 0], (pixels_of(tmp_path / "test", "dog", 0) / 255).astype("f4")
    )
    with pytest.raises(ValueError, match="split of its own"):
        load(tmp_path, split=2)
    pictures(tmp_path / "test", classes=("emu",), mode="L")
    with pytest.raises(ValueError, match="classes that the folder `train` lacks: `emu`"):
        load(tmp_path)


def test_bad_folders_of_images_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has 1 class folders"):
        load(pictures(tmp_path / "one", classes=("cat",)))
    with pytest.raises(ValueError, match="has 4 rows of data"):
        load(pictures(tmp_path / "few", count=2))
    folder = pictures(tmp_path / "sizes")
    Image.new("RGB", (9, 9)).save(folder / "dog" / "9.png")
    with pytest.raises(ValueError, match="9.png` is 9x9 pixels .*0.png` is 6x5"):
        load(folder)
    (folder / "dog" / "9.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="9.png` is not a readable image"):
        load(folder)


def test_grey_and_coloured_images_together_are_coloured(tmp_path):
    folder = pictures(tmp_path / "mixed")
    Image.new("L", (6, 5), 51).save(folder / "cat" / "0.png")
    dataset = load(folder, standardise=False)
    grey = [x for x in (*dataset.train.x, *dataset.test.x) if np.allclose(x, 0.2)]
    assert len(grey) == 1 and grey[0].shape == (5, 6, 3)
    assert len(dataset.train.x) == 14


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_that_the_memory_does_not_hold_is_refused_before_it_is_read(
    tmp_path, monkeypatch, kind
):
    path = tmp_path / "prices.parquet"
    pandas.DataFrame({"same": [1.0] * 50_000, "price": [2.0] * 50_000}).to_parquet(path)
    needed = 8 * 50_000 * 2
    if kind == "csv":
        pandas.read_parquet(path).to_csv(tmp_path / "prices.csv", index=False)
        path = tmp_path / "prices.csv"
        needed = 4 * path.stat().st_size
    else:
        assert path.stat().st_size < needed / 20  # packed, so that its size says nothing
    monkeypatch.setattr("bayesnn_ppl.data.tables.csv_files.memory_limit", lambda: needed)
    assert len(read_table(path)) == 50_000
    monkeypatch.setattr("bayesnn_ppl.data.tables.csv_files.memory_limit", lambda: needed - 1)
    monkeypatch.setattr(pandas, f"read_{kind}", lambda *a, **k: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=rf"prices\.{kind}` would take about .* GiB.*data\.stream"):
        read_table(path)


@pytest.mark.parametrize("name", ["table.csv.zip", "table.csv.gz", "table.xz"])
def test_a_packed_table_is_not_unpacked_by_its_name(tmp_path, name):
    """A few bytes of it could ask for all the memory."""
    path = tmp_path / name
    pandas.DataFrame({"a": [1.0, 2.0], "price": [3.0, 4.0]}).to_csv(path, index=False)
    with pytest.raises(ValueError, match="is not (UTF-8 text|a regular table)"):
        read_table(path)
    path.write_text("a,price\n1,2\n")  # plain text of that name is a table
    assert list(read_table(path)["price"]) == [2]
