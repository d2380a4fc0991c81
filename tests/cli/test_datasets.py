"""The data of a run: their options, and a name that brings them back from anywhere."""

import json

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.settings.datasets import load_data
from tests.cli.conftest import parsed


@pytest.mark.parametrize("name", ["my.csv", "my.npz", "diabetes", "toy"])
def test_the_name_brings_the_data_back(name, here, monkeypatch):
    generator = np.random.default_rng(0)
    arrays = {"x": generator.normal(size=(20, 2)), "y": generator.normal(size=20)}
    np.savez(here / "my.npz", **arrays)
    for folder in ("diabetes", "toy"):  # the first is the name of a data set, the second is not
        (here / folder).mkdir()
        for key, array in arrays.items():
            np.save(here / folder / f"{key}.npy", array)
    dataset, stored = load_data(
        parsed(f"sample --data {name}" + " --target price" * (name == "my.csv"))[1]["data"]
    )
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert bnn.data.load(**json.loads(json.dumps(stored))).sha256 == dataset.sha256
    assert len(dataset.train.x) == (398 if name == "diabetes" else 36 if name == "my.csv" else 18)


def test_options_of_texts_reach_the_loader(here, monkeypatch):
    asked = {}

    def load(name, **options):
        asked.update(options, name=name)
        raise ValueError("No texts here.")

    monkeypatch.setattr("bayesnn_ppl.data.load", load)
    line = (
        "sample cnn_lstm --data tfds:imdb_reviews --num-words 500 --length 20 --vocabulary v.json"
    )
    assert main(line.split()) == 1
    assert asked == {
        "name": "tfds:imdb_reviews",
        "split": 0,
        "num_words": 500,
        "length": 20,
        "vocabulary": str(here / "v.json"),
    }
