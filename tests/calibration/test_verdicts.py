"""The verdict on replications: thinning by effective sample size, words, one budget."""

import json

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.calibration.record import CalibrationFolder
from bayesnn_ppl.calibration.replicator import Replicator
from bayesnn_ppl.calibration.result import judged

CONFIG = {
    "method": "NUTS",
    "independent": False,
    "false_alarm": 0.01,
    "replications": 200,
    "around_data": False,
}


class Chains:
    independent = False


def chain(generator, correlation, draws, start):
    """A stationary AR(1) chain of N(0, 1), as two chains of half the length."""
    noise = generator.normal(size=(2, draws // 2)) * np.sqrt(1 - correlation**2)
    values = np.empty_like(noise)
    state = start
    for i in range(draws // 2):
        state = correlation * state + noise[:, i]
        values[:, i] = state
    return values


def found(correlation=0.0, *, shift=0.0, spread=1.0, draws=400, name="slope", config=CONFIG):
    """The verdict on 200 replications of a chain around truths that are N(0, 1)."""
    generator, replicator = np.random.default_rng(0), Replicator(Chains(), None, None, 0)
    lines = []
    for r in range(200):
        truth = generator.normal()
        values = shift + spread * chain(generator, correlation, draws, generator.normal(size=2))
        line = {"replication": r, "failed": None, "stopped": 0, "divergences": 0, "seconds": 0.1}
        line |= {
            "ranks": {name: replicator._rank(values, truth, generator)},
            "compile_seconds": 0.0,
        }
        lines.append(line | {"ess": {name: replicator._ess(values)}})
    return judged(config, lines, interrupted=False)


def test_autocorrelated_draws_are_thinned_and_not_called_narrow():
    fast, slow, stuck = found(0.0), found(0.9, draws=1000), found(0.99, draws=200)
    assert fast.calibrated and fast.quantities[0].among == 127
    assert slow.calibrated and slow.quantities[0].among in (7, 15, 31)
    assert stuck.status == "not judged"
    assert not stuck.calibrated
    assert "slow mixing alone would make the ranks look too narrow" in stuck.verdict
    with pytest.raises(ValueError, match="No quantity was judged"):
        stuck.plot()


def test_without_thinning_the_same_chain_would_be_called_narrow(monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.calibration.judging._ESS_PER_DRAW", 0.0)
    assert found(0.97, draws=400).status == "too narrow"


@pytest.mark.parametrize(
    ("draws", "status", "words"),
    [
        ({"spread": 0.7}, "too narrow", "of the right sd"),
        ({"spread": 1.4}, "too wide", "of the right sd"),
        ({"shift": 0.5}, "shifted", "`slope` is too high, by 0."),
        ({"shift": -0.5}, "shifted", "`slope` is too low, by 0."),
        ({"shift": 9.0, "spread": 0.5}, "shifted", "posterior sd or more"),
    ],
)
def test_what_is_wrong_is_said_in_words(draws, status, words):
    calibration = found(**draws)
    assert calibration.status == status
    assert words in calibration.verdict
    assert calibration.p_value < 1e-3
    assert f"Calibration: {status}" in str(calibration)
    assert all(len(line) <= 88 for line in str(calibration).splitlines())


def test_a_log_density_that_is_higher_at_the_draws_means_too_narrow():
    assert found(shift=1.0, name="log joint").status == "too narrow"
    wide = found(shift=-1.0, name="log likelihood")
    assert wide.status == "too wide"
    assert "draws fit the data worse than the parameters that made the data" in wide.verdict


def test_a_result_is_complete_as_json_html_and_figure():
    calibration = found(spread=0.7)
    values = json.loads(calibration.to_json())
    assert values["status"] == "too narrow"
    assert len(values["quantities"][0]["ranks"]) == 200
    assert ">slope</td>" in calibration._repr_html_()
    figure = calibration.plot()
    left, right = figure.axes
    heights = left.patches[1].get_data().values
    assert heights.sum() == 200
    ranks = calibration.ranks["slope"]
    shares = [np.mean(ranks < j) - j / 128 for j in range(1, 128)]
    np.testing.assert_allclose(right.lines[1].get_ydata()[1:-1], shares)
    assert "200 replications from the prior" in figure._supxlabel.get_text()
    assert right.get_title(loc="left").startswith("too narrow, p ")


def test_a_quantity_that_is_not_finite_is_said():
    generator, replicator = np.random.default_rng(0), Replicator(Chains(), None, None, 0)
    lines = []
    for r in range(40):
        ok = r % 2 == 0
        ranks = replicator._rank(generator.normal(size=(2, 100)), 0.0, generator) if ok else None
        line = {"replication": r, "failed": None, "stopped": 1, "divergences": 0, "seconds": 0.1}
        line |= {"ess": {"a": 200.0}, "ranks": {"a": ranks}, "compile_seconds": 0.0}
        lines.append(line)
    calibration = judged(CONFIG, lines, interrupted=False)
    assert calibration.status == "not judged"
    assert "`a`: not finite in up to 20 replications" in calibration.verdict
    assert "a chain stopped" in calibration.verdict


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty, and holds no calibration"):
        CalibrationFolder(tmp_path, CONFIG)
    with pytest.raises(FileNotFoundError, match="holds no calibration"):
        bnn.Calibration.load(tmp_path)
