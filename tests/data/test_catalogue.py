import io
import os
import pickle

import numpy as np
import pytest

from bayesnn_ppl import data
from bayesnn_ppl.data import Labels
from bayesnn_ppl.data.sources import synthetic, uci

OFFLINE = [name for name, line in data.names().items() if "BAYESNN_DATA" not in line]
FILED = list(uci.SETS)
needs_files = pytest.mark.skipif(
    not os.environ.get("BAYESNN_DATA"),
    reason="BAYESNN_DATA, the folder of the UCI files, is not set",
)


def check_dataset(dataset):
    """What every data set promises, whatever it is."""
    features = dataset.train.x.shape[1:]
    assert len(dataset.feature_names) == features[-1]
    for x, y in (dataset.train, dataset.test):
        assert x.dtype == np.float32 and x.shape[1:] == features and np.isfinite(x).all()
        assert len(x) == len(y) > 0 and np.isfinite(y).all()
        assert not x.flags.writeable and not y.flags.writeable
        if dataset.task == "regression":
            assert y.dtype == np.float32 and y.standardisation == dataset.standardisation
            assert dataset.class_names is None and dataset.classes is None
        else:
            assert isinstance(y, Labels) and y.dtype == np.int32
            assert set(y) <= set(range(dataset.classes))
    assert len(dataset.sha256) == 64 and len(dataset.description) > 10
    assert len(repr(dataset)) < 200 and dataset.name in repr(dataset)


@pytest.mark.parametrize("name", OFFLINE)
def test_offline_sets(name):
    dataset = data.load(name)
    check_dataset(dataset)
    mean, deviation = dataset.train.x.mean(0), dataset.train.x.std(0)
    np.testing.assert_allclose(mean, 0, atol=1e-5)
    assert np.all(np.isclose(deviation, 1, atol=1e-4) | (deviation == 0))
    raw = data.load(name, standardise=False)
    assert raw.sha256 == dataset.sha256 and raw.standardisation.is_identity
    np.testing.assert_allclose(
        dataset.standardisation.apply_x(raw.test.x), dataset.test.x, rtol=1e-4, atol=1e-4
    )
    if dataset.task == "regression":
        np.testing.assert_allclose(dataset.train.y.std(), 1, rtol=1e-4)
        back = dataset.test.y.standardisation.undo_y(dataset.test.y)
        np.testing.assert_allclose(back, raw.test.y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", OFFLINE)
def test_a_split_repeats_and_another_differs(name):
    first, second, other = data.load(name, split=3), data.load(name, split=3), data.load(name)
    for a, b in zip((*first.train, *first.test), (*second.train, *second.test), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.train.x, other.train.x)


@pytest.mark.parametrize("name", ["diabetes", "breast_cancer", "wine", "digits"])
def test_no_row_is_in_both_parts(name):
    dataset = data.load(name, split=1, standardise=False)
    parts = [np.column_stack([*part]) for part in (dataset.train, dataset.test)]
    from sklearn import datasets

    options = {"scaled": False} if name == "diabetes" else {}
    bunch = getattr(datasets, f"load_{name}")(**options)
    table = np.column_stack([bunch.data, bunch.target]).astype(np.float32)
    rows = np.concatenate(parts)
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], table[np.lexsort(table.T)])


def test_nuclei_are_means_and_one_extreme_of_the_biopsies():
    from sklearn import datasets

    frame = datasets.load_breast_cancer(as_frame=True).data
    dataset = data.load("nuclei", standardise=False)
    assert dataset.train.x.shape == (398, 8) and dataset.test.x.shape == (171, 8)
    assert not {"mean perimeter", "mean area"} & set(dataset.feature_names)
    x, y = (np.concatenate(parts) for parts in zip(dataset.train, dataset.test, strict=True))
    columns = frame[[*dataset.feature_names, "worst concavity"]].to_numpy(np.float32)
    rows = np.column_stack([x, y])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], columns[np.lexsort(columns.T)])


def test_known_values_of_the_default_set():
    dataset = data.load("diabetes", standardise=False)
    assert dataset.train.x.shape == (398, 10) and dataset.test.x.shape == (44, 10)
    both = np.concatenate([dataset.train.y, dataset.test.y])
    assert both.mean() == pytest.approx(152.1335, abs=1e-3)
    x, y = dataset.train
    assert x is dataset.train.x and y is dataset.train.y
    assert data.load("wine").class_names == ("class_0", "class_1", "class_2")
    assert data.load("digits").classes == 10
    kept = pickle.loads(pickle.dumps(data.load("diabetes")))
    assert kept.train.y.standardisation == kept.standardisation


def test_the_gap_is_empty_in_training_only():
    dataset = data.load("gap", split=2, standardise=False)
    assert np.abs(dataset.train.x).min() >= 1 > np.abs(dataset.test.x).min()
    x, y = (np.concatenate(parts) for parts in zip(dataset.train, dataset.test, strict=True))
    residual = y - np.sin(2 * x[:, 0]) - x[:, 0] / 3
    assert np.std(residual) == pytest.approx(synthetic.NOISE, rel=0.2)


def test_the_drawn_network_has_the_stated_noise():
    dataset = data.load("mlp_prior", split=5, standardise=False)
    generator = np.random.default_rng(5)
    x = generator.standard_normal((400, 4))
    y = np.concatenate([dataset.train.y, dataset.test.y])
    residual = y - synthetic.mlp_function(x, generator)
    assert np.std(residual) == pytest.approx(synthetic.NOISE, rel=0.15)
    assert abs(residual.mean()) < 0.02 and np.std(y) > 0.3


@pytest.mark.parametrize("split", [20, -1, 1.5, True, "0"])
def test_splits_that_do_not_exist_are_refused(split):
    with pytest.raises(ValueError, match="from 0 to 19, but is"):
        data.load("diabetes", split=split)


@needs_files
@pytest.mark.parametrize("name", FILED)
def test_uci_sets(name):
    dataset = data.load(name, split=4)
    check_dataset(dataset)
    if name == "naval-propulsion-plant":
        assert [dataset.feature_names[c] for c in (8, 11)] == ["T1", "P1"]
        assert np.all(dataset.train.x[:, [8, 11]] == 0)
    if name == "ionosphere":
        labels = np.concatenate([dataset.train.y, dataset.test.y])
        assert np.bincount(labels).tolist() == [126, 225]
    if name == "protein-tertiary-structure":
        with pytest.raises(ValueError, match="from 0 to 4, but is 5"):
            data.load(name, split=5)


@needs_files
@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("boston", "bostonHousing"),
        ("Boston Housing", "bostonHousing"),
        ("NAVAL", "naval-propulsion-plant"),
        ("power", "power-plant"),
        ("power_plant", "power-plant"),
        ("wine_quality_red", "wine-quality-red"),
        ("Yacht", "yacht"),
    ],
)
def test_forgiving_names(alias, name):
    assert data.load(alias).name == name


def write_yacht(folder, **changes):
    (folder / "uci").mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    train, test = data.uci_split_indices(308)
    arrays = {
        "X": generator.normal(size=(308, 6)),
        "y": generator.normal(size=308),
        "train_idx": train,
        "test_idx": test,
    } | changes
    path = folder / "uci" / "yacht.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return arrays


def test_a_file_is_read_with_its_own_splits(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    train, test = data.uci_split_indices(308)
    arrays = write_yacht(tmp_path, train_idx=train[::-1], test_idx=test[::-1])
    monkeypatch.delitem(uci._ROWS, "yacht")
    dataset = data.load("yacht", split=2, standardise=False)
    check_dataset(dataset)
    np.testing.assert_array_equal(dataset.train.x, arrays["X"][train[17]].astype(np.float32))
    np.testing.assert_array_equal(dataset.test.y, arrays["y"][test[17]].astype(np.float32))
    assert "none is published" in dataset.description


def test_other_rows_than_the_published_ones_have_no_standard_split(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    write_yacht(tmp_path)
    with pytest.raises(ValueError, match="not those of the published .* is not the standard one"):
        data.load("yacht")


@needs_files
def test_standard_splits_are_proved(tmp_path, monkeypatch):
    assert "Standard split 3, proved" in data.load("yacht", split=3).description
    with np.load(f"{os.environ['BAYESNN_DATA']}/uci/yacht.npz") as stored:
        arrays = dict(stored)
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    path = tmp_path / "uci" / "yacht.npz"
    np.savez(path, **arrays)
    data.load("yacht")
    order = np.r_[1, 0, np.arange(2, 308)]
    np.savez(path, **{**arrays, "X": arrays["X"][order], "y": arrays["y"][order]})
    with pytest.raises(ValueError, match="not the standard one"):
        data.load("yacht")
    np.savez(path, **{**arrays, "train_idx": arrays["train_idx"][::-1]})
    with pytest.raises(ValueError, match="both the training and the test|not the published split"):
        data.load("yacht")
    swapped = {key: arrays[key][::-1] for key in ("train_idx", "test_idx")}
    np.savez(path, **{**arrays, **swapped})
    with pytest.raises(ValueError, match="`train_idx` or `test_idx` differ"):
        data.load("yacht")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "`y` of shape .308,., but has no such array"),
        ({"X": np.zeros((308, 5))}, r"`X` of shape \(308, 6\), but has \(308, 5\)"),
        ({"test_idx": np.full((20, 31), 308)}, r"`test_idx` .* rows outside 0..307"),
        ({"test_idx": data.uci_split_indices(308)[0][:, :31]}, "both the training and the test"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, monkeypatch, changes, message):
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    write_yacht(tmp_path, **changes)
    monkeypatch.delitem(uci._ROWS, "yacht")
    with pytest.raises(ValueError, match=message):
        data.load("yacht")


def test_a_file_that_is_no_archive_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    single = io.BytesIO()
    np.save(single, np.zeros(3))
    for content in (b"", b"text", b"PK\x03\x04 cut off", single.getvalue()):
        (tmp_path / "uci" / "yacht.npz").write_bytes(content)
        with pytest.raises(ValueError, match="not a readable NumPy archive"):
            data.load("yacht")


def test_a_missing_file_says_what_to_lay_where(tmp_path, monkeypatch):
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="BAYESNN_DATA is not set.*<folder>/uci/yacht.npz"):
        data.load("yacht")
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        data.load("boston")
    assert str(tmp_path / "uci" / "bostonHousing.npz") in str(error.value)
    assert "`X` (506, 13)" in str(error.value)


def test_unknown_names_get_the_nearest_ones():
    with pytest.raises(ValueError, match=r"Did you mean `diabetes`\?.*Known are diabetes, breast"):
        data.load("diabetis")
    with pytest.raises(ValueError, match="There is no data set `zzz`. Known are"):
        data.load("zzz")


def test_options_are_for_the_data_that_take_them(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="`order` cannot be chosen .*options `split`, `standard"):
        data.load("yacht", order="tfds")
    with pytest.raises(ValueError, match="`subset` cannot be chosen for the file .*`task`"):
        data.load("table.npz", subset=3)
    for name in ("mnist", "imdb"):
        with pytest.raises(ValueError, match="one published split, number 0, but `split` is 1"):
            data.load(name, split=1)
    with pytest.raises(ValueError, match="write `tfds:NAME`"):
        data.load("tfds:")
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist").mkdir()
    with pytest.raises(FileNotFoundError, match="BAYESNN_DATA is not set"):
        data.load("mnist")
    with pytest.raises(ValueError, match="The folder `mnist` holds neither"):
        data.load("./mnist")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="neither arrays nor images. Lay `x.npy`"):
        data.load(tmp_path / "empty")
    with pytest.raises(ValueError, match="`target` and `test_fraction` cannot be chosen"):
        data.load("diabetes", target="age", test_fraction=0.2)
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(20)))
    dataset = data.load(path, target="b", test_fraction=0.25)
    assert dataset.name == "table" and dataset.test.x.shape == (5, 1)
