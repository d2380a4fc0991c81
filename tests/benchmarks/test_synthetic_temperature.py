"""The synthetic data sets, and the paired differences that the table shows."""

import json

import numpy as np
import pytest

from benchmarks import synthetic_temperature
from benchmarks.synthetic_temperature import MODEL, SETTINGS, dataset, kernel_at, paired


def test_data_sets_are_the_same_at_all_times_and_differ():
    first, again, other = dataset(3), dataset(3), dataset(4)
    for a, b in zip((*first[0], *first[1]), (*again[0], *again[1]), strict=True):
        np.testing.assert_array_equal(a, b)
    (x, y), (test_x, test_y) = first
    assert x.shape == (100, 5) and test_x.shape == (2000, 5) and test_y.shape == (2000,)
    assert set(np.unique(y)) == {0, 1, 2}
    assert (x != other[0][0]).all()


def test_training_and_test_rows_are_of_one_network():
    """The nearest of many training rows tell the label of a test row better than chance."""
    train, test = dataset(3, rows=2000)
    counts = np.bincount(train[1], minlength=3) / 2000
    near = ((test[0][:300, None] - train[0]) ** 2).sum(-1).argsort(axis=1)[:, :15]
    votes = np.stack([(train[1][near] == k).mean(axis=1) for k in range(3)], axis=1)
    accuracy = (votes.argmax(axis=1) == test[1][:300]).mean()
    assert accuracy > counts.max() + 0.1


def row(number, temperature, nll):
    return {
        "dataset": number,
        "temperature": temperature,
        "nll": nll,
        "accuracy": 0.5,
        "arrays": ["right", "not known"],
        "function_rhat": 1.0 + nll / 100,
        "function_ess": 100 * nll,
    }


def test_paired():
    runs = [row(0, 1.0, 0.5), row(0, 10.0, 0.7), row(1, 1.0, 0.8), row(1, 10.0, 0.9)]
    table = paired([*runs, row(2, 10.0, 5.0)])  # data set 2 has no T = 1 yet
    hot = table["10"]
    assert hot["datasets"] == 2 and hot["worse_on"] == 2
    assert hot["difference"] == pytest.approx(0.15)
    assert hot["standard_error"] == pytest.approx(0.05)
    assert hot["arrays"] == {"not known": 2, "right": 2}
    assert hot["function_rhat"] == pytest.approx(1.009) and hot["function_ess"] == 70
    assert table["1"]["difference"] == 0


def test_above_one_the_step_is_smaller():
    assert kernel_at(10.0, SETTINGS).step_size < kernel_at(1.0, SETTINGS).step_size
    assert kernel_at(0.1, SETTINGS).posterior_temperature == 0.1
    assert kernel_at(0.1, SETTINGS).model is MODEL


def test_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    made = []

    def run(number, temperature, settings):
        made.append((number, temperature))
        return {**row(number, temperature, 0.5), "thermometers": {"status": "right"}, "seconds": 1}

    monkeypatch.setattr(synthetic_temperature, "run", run)
    command = ["x", "--datasets", "2", "--out", str(tmp_path), "--minutes"]
    monkeypatch.setattr("sys.argv", [*command, "0"])
    synthetic_temperature.main()
    assert made == [(0, 0.1)] and "5 runs are left" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", [*command, "10"])
    synthetic_temperature.main()
    assert len(made) == len(set(made)) == 6
    stored = json.loads((tmp_path / "synthetic_temperature.json").read_text())
    assert stored["summary"]["0.1"]["datasets"] == 2
    assert (tmp_path / "synthetic_temperature.png").stat().st_size > 5000
    monkeypatch.setattr(synthetic_temperature, "SETTINGS", SETTINGS | {"chains": 1})
    with pytest.raises(SystemExit, match="runs of other settings"):
        synthetic_temperature.main()
