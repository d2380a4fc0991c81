"""The short form of the campaign that measures the verdict's error rates, and its parts."""

import numpy as np
import pytest

from benchmarks.verdicts.verdict_chains import (
    NORMAL,
    autoregressive,
    independent,
    lognormal,
    modes,
    pausing,
    reflected_walk,
    student,
)
from benchmarks.verdicts.verdict_metropolis import student_walk
from benchmarks.verdicts.verdict_models import MODELS
from benchmarks.verdicts.verdict_runs import wrong
from benchmarks.verdicts.verdict_tables import rates
from benchmarks.verdicts.verdicts import beyond_bounds, short_rows

pytestmark = pytest.mark.check


def test_the_verdict_keeps_its_bounds():
    rows = short_rows()
    assert not beyond_bounds(rows)
    # The situations must be able to fail: some of their runs are wrong.
    assert sum(rates(row, "seen").wrong for row in rows.values()) > 100
    assert sum(rates(row, "few").wrong for row in rows.values()) > 30


def test_a_careless_verdict_breaks_them():
    broken = beyond_bounds(short_rows(lambda values, starts: ("converged", [])))
    assert any("converged though wrong" in line for line in broken)
    assert any("runs are called converged" in line for line in broken)


def test_a_verdict_that_is_never_satisfied_breaks_them():
    broken = beyond_bounds(short_rows(lambda values, starts: ("doubtful", ["mixing"])))
    assert len([line for line in broken if "withheld though right" in line]) == 4


@pytest.mark.parametrize(
    "source",
    [
        independent(NORMAL, 2),
        independent(student(8)),
        independent(lognormal(0.5)),
        autoregressive(0.9),
        reflected_walk(0.3),
        pausing(20),
        modes((-5.0, 5.0), (0.7, 0.3), dwell=5, outputs=3),
        student_walk(8, 4.0, 3),
    ],
)
def test_the_truth_of_a_source(source):
    """Means and variances of 400 chains, each of which is an independent sample."""
    made = source(np.random.default_rng(0), (100, 4, 400))
    assert made.values.shape == (100, 4, 400, len(made.mean))
    assert made.starts.shape == (100, 4, len(made.mean))
    standard = ((made.values - made.mean) / made.sd).reshape(400, 400, -1)
    for moment, expected in ((standard, 0), (standard**2, 1)):
        by_chain = moment.mean(axis=1)
        error = by_chain.std(axis=0) / 20
        assert (np.abs(by_chain.mean(axis=0) - expected) < 4.5 * error).all()
        # A truth that is 10 % off would be seen.
        assert (np.abs(by_chain.mean(axis=0) - expected - 0.1) > 2 * error).all()


def test_modes_that_no_chain_has_seen():
    never = modes((-5.0, 5.0), (0.5, 0.5), dwell=np.inf)
    made = never(np.random.default_rng(0), (2000, 4, 20))
    assert abs((~made.complete).mean() - 0.125) < 0.03
    alone = (made.values < 0).all(axis=(1, 2, 3)) | (made.values > 0).all(axis=(1, 2, 3))
    np.testing.assert_array_equal(alone, ~made.complete)


def test_what_is_wrong():
    values = np.random.default_rng(0).normal(size=(4, 5000, 2))
    truth = np.zeros(2), np.ones(2)
    assert not wrong(values, *truth)
    assert wrong(values + [0, 0.25], *truth)
    assert wrong(values * [1, 1.25], *truth)
    assert wrong(values * [0.75, 1], *truth)
    values[0, 0, 0] = np.nan
    assert wrong(values, *truth)


def test_truths_of_the_models():
    network, linear = MODELS["network"](), MODELS["linear"]()
    # Importance sampling from the prior, in place of the grid.
    a, b = np.random.default_rng(0).normal(size=(2, 400_000))
    misfit = network.y - a[:, None] * np.tanh(b[:, None] * network.x[:, 0])
    weight = np.exp(-0.5 * ((misfit / 0.3) ** 2).sum(axis=1))
    said = a[:, None] * np.tanh(b[:, None] * network.probe[:, 0])
    mean = (weight @ said) / weight.sum()
    sd = np.sqrt(weight @ (said - mean) ** 2 / weight.sum())
    np.testing.assert_allclose(mean, network.mean, atol=0.1 * network.sd.min())
    np.testing.assert_allclose(sd, network.sd, rtol=0.1)
    # Ridge regression by least squares with the prior as rows.
    rows = np.column_stack([linear.x, np.ones(100)]) / 0.5
    stacked = np.concatenate([rows, np.eye(2)])
    theta = np.linalg.lstsq(stacked, np.concatenate([linear.y / 0.5, [0, 0]]), rcond=None)[0]
    at = np.column_stack([linear.probe, np.ones(3)])
    np.testing.assert_allclose(at @ theta, linear.mean, rtol=1e-5)
