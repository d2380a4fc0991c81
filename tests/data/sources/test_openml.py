import gzip
import hashlib
import json
import urllib.error

import numpy as np
import pytest

from bayesnn_ppl.data import load, uci_split_indices

ROWS = 40
GENERATOR = np.random.default_rng(0)
SIZE = GENERATOR.normal(size=ROWS).round(3)
COLOUR = np.array(["red", "blue"])[np.arange(ROWS) % 2]
KIND = np.array(["b", "a", "c"])[np.arange(ROWS) % 3]
PRICE = (SIZE * 2 + 1).round(3)


def feature(index, name, kind, *, target=False):
    return {
        "index": str(index),
        "name": name,
        "data_type": kind,
        "is_target": str(target).lower(),
        "is_ignore": "false",
        "is_row_identifier": "false",
        "number_of_missing_values": "0",
    }


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Answers of OpenML in the cache of scikit-learn; the network is out of reach."""

    def unreachable(*_, **__):
        raise urllib.error.URLError("no network in this test")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", unreachable)
    folder = tmp_path / "openml" / "openml.org"

    def lay(place, content):
        path = folder / (place + ".gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content))

    header = "@relation shop\n@attribute size numeric\n@attribute colour {red,blue,green}\n"
    header += "@attribute kind {a,b,c}\n@attribute price numeric\n@data\n"
    rows = zip(SIZE, COLOUR, KIND, PRICE, strict=True)
    arff = (header + "".join(f"{s},{c},{k},{p}\n" for s, c, k, p in rows)).encode()
    lay("data/v1/download/7/shop.arff", arff)
    listed = [{"did": 7, "name": "shop", "version": 1, "status": "active", "format": "ARFF"}]
    for name, found in {"shop": listed, "many": [*listed, {**listed[0], "version": 2}]}.items():
        lay(
            f"api/v1/json/data/list/data_name/{name}/limit/2/status/active/",
            json.dumps({"data": {"dataset": found}}).encode(),
        )
    features = [
        feature(0, "size", "numeric"),
        feature(1, "colour", "nominal"),
        feature(2, "kind", "nominal", target=True),
        feature(3, "price", "numeric"),
    ]
    description = {
        "id": "7",
        "name": "shop",
        "version": "1",
        "format": "ARFF",
        "description": "A shop.",
        "url": "https://www.openml.org/data/v1/download/7/shop.arff",
        "status": "active",
        "md5_checksum": hashlib.md5(arff, usedforsecurity=False).hexdigest(),
    }
    qualities = [{"name": "NumberOfInstances", "value": str(ROWS)}]
    for place, content in {
        "api/v1/json/data/7": {"data_set_description": description},
        "api/v1/json/data/features/7": {"data_features": {"feature": features}},
        "api/v1/json/data/qualities/7": {"data_qualities": {"quality": qualities}},
    }.items():
        lay(place, json.dumps(content).encode())
    return tmp_path


@pytest.mark.parametrize("name", ["openml:shop", "openml:7"])
def test_a_table_of_openml(cache, name):
    dataset = load(name, data_dir=cache, standardise=False, split=2)
    assert dataset.name == "openml:shop" and dataset.task == "classification"
    assert dataset.feature_names == ("size", "colour=blue", "colour=red", "price")
    assert dataset.class_names == ("a", "b", "c")
    test = uci_split_indices(ROWS, 3)[1][2]
    expected = np.c_[SIZE, COLOUR == "blue", COLOUR == "red", PRICE]
    np.testing.assert_allclose(dataset.test.x, expected[test], rtol=1e-6)
    assert [dataset.class_names[label] for label in dataset.test.y] == KIND[test].tolist()
    assert "Data set 7 of OpenML" in dataset.description


def test_another_target(cache):
    dataset = load("openml:7", data_dir=cache, target="price")
    assert dataset.task == "regression" and len(dataset.feature_names) == 6
    np.testing.assert_allclose(dataset.train.y.std(), 1, rtol=1e-5)
    with pytest.raises(ValueError, match="no column `prise`.*Did you mean `price`"):
        load("openml:7", data_dir=cache, target="prise")


def test_what_cannot_be_had_is_refused(cache):
    with pytest.raises(FileNotFoundError, match="could not be reached.*`data_dir`; or save"):
        load("openml:absent", data_dir=cache)
    with pytest.raises(ValueError, match="several versions.*openml:NUMBER.*version 2"):
        load("openml:many", data_dir=cache)
    with pytest.raises(ValueError, match="`order` cannot be chosen for the OpenML data set"):
        load("openml:7", order="tfds")
