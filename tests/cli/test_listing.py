"""`bayesnn data` and `bayesnn models`."""

import json

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from tests.cli.conftest import MODEL


def shown_json(capsys, *argv):
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_data_lists_every_set(capsys):
    assert shown_json(capsys, "data") == bnn.data.names()
    assert main(["data"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in bnn.data.names())
    assert max(map(len, out.splitlines())) <= 88


def test_data_describes_one(capsys):
    facts = shown_json(capsys, "data", "wine")
    data = bnn.data.load("wine")
    assert facts["classes"] == list(data.class_names)
    assert facts["training_rows"] == len(data.train.x) and facts["sha256"] == data.sha256
    assert main(["data", "wine"]) == 0
    out = capsys.readouterr().out
    assert "alcohol" in out and "class_2" in out
    assert max(map(len, out.splitlines())) <= 88


def test_data_of_a_file(here, capsys):
    facts = shown_json(capsys, "data", "my.csv", "--target", "price", "--test-fraction", "0.5")
    assert facts["features"] == ["size", "age"] and facts["test_rows"] == 20


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("mlp_regression_small", "--inputs 8", 552),
        ("mlp_regression", "--inputs 8", 11_202),
        ("mlp_classification", "--inputs 784 --classes 10", 269_322),
        ("logistic", "--inputs 784 --classes 10", 7_850),
        ("linear", "--data diabetes", 11),
        ("lenet", "", 91_946),
        ("resnet20_frn", "", 274_042),
        ("cnn_lstm", "", 2_700_098),
        ("mlp", "--inputs 3 --classes 2", (3 * 50 + 50) + (50 * 50 + 50) + (50 * 2 + 2)),
    ],
)
def test_parameter_counts(name, shape, expected, capsys):
    (entry,) = shown_json(capsys, "models", name, *shape.split())
    assert entry["parameters"] == expected


def test_models_lists_the_zoo(capsys):
    entries = shown_json(capsys, "models")
    assert [entry["name"] for entry in entries] == list(bnn.models.__all__)
    assert all(entry["parameters"] > 0 and entry["description"] for entry in entries)
    assert main(["models"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 88


def test_models_for_labels_leave_out_the_others(capsys):
    entries = {e["name"]: e for e in shown_json(capsys, "models", "--data", "wine")}
    assert entries["logistic"]["parameters"] == 3 * 14
    assert entries["mlp_regression"]["parameters"] is None


def test_models_for_images_and_tokens_are_not_for_tables(capsys):
    entries = {e["name"]: e for e in shown_json(capsys, "models", "--data", "digits")}
    assert entries["lenet"]["parameters"] is None
    assert entries["lenet"]["counted_for"] == "for images only"
    assert entries["transformer"]["counted_for"] == "for tokens only"
    for line in ("models lenet --data digits", "models lenet --inputs 64"):
        assert main(line.split()) == 1
        shown = capsys.readouterr().err
        assert "`lenet` is for images, but the data are tables" in shown and "`mlp`" in shown
    assert main("models cnn_lstm --data digits".split()) == 1
    assert "`cnn_lstm` is for tokens" in capsys.readouterr().err


def test_a_model_of_ones_own(here, capsys):
    (here / "my_model.py").write_text(MODEL)
    argv = ("models", "my_model.py", "--data", "my.csv", "--target", "price")
    (entry,) = shown_json(capsys, *argv)
    assert entry["parameters"] == 2 and entry["description"] == "A plane with unit noise."


def test_one_model_shows_its_settings(capsys):
    assert main(["models", "mlp"]) == 0
    assert "activation: str = 'tanh'" in capsys.readouterr().out
