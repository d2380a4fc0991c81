"""Scores by corruption: the table agrees with `evaluate`, and bad batches are refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayesnn_ppl.metrics import by_severity, evaluate

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, size=90)
CLEAN = 3 * np.eye(3)[Y] + RNG.normal(size=(90, 3))
NOISE = RNG.normal(size=(90, 3))


def predict(x):
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    zeros = np.zeros(len(x))
    return SimpleNamespace(
        task="classification", probabilities=p, entropy=zeros, mutual_information=zeros
    )


POSTERIOR = SimpleNamespace(predict=predict)
BATCHES = {("clean", 0): CLEAN} | {("noise", s): CLEAN + 2 * s * NOISE for s in (1, 3)}


def test_labels_as_evaluate_scores_them():
    table = by_severity(POSTERIOR, BATCHES, Y)
    assert list(table.columns) == ["kind", "severity", "accuracy", "nll", "ece_bnn_hmc"]
    assert list(zip(table["kind"], table["severity"], strict=True)) == list(BATCHES)
    for (_, row), x in zip(table.iterrows(), BATCHES.values(), strict=True):
        expected = evaluate(POSTERIOR, x, Y)
        for name in ("accuracy", "nll", "ece_bnn_hmc"):
            assert row[name] == expected[name]
    assert table["accuracy"].is_monotonic_decreasing and table["nll"].is_monotonic_increasing
    other = by_severity(POSTERIOR, BATCHES, Y, variant="tfp")
    assert other["ece_tfp"][1] == evaluate(POSTERIOR, BATCHES["noise", 1], Y)["ece_tfp"]


def test_numbers_in_data_units():
    y = RNG.normal(size=50)

    def numbers(x):
        return SimpleNamespace(
            task="regression",
            mean=10 * x[:, 0],
            y=lambda y: 10 * y,
            log_prob=lambda y: -np.abs(10 * (y - x[:, 0])),
        )

    batches = {("shift", s): (y + s)[:, None] for s in (0, 2)}
    table = by_severity(SimpleNamespace(predict=numbers), batches, y)
    assert list(table.columns) == ["kind", "severity", "rmse", "nll_mixture"]
    np.testing.assert_allclose(table["rmse"], [0, 20], atol=1e-12)
    np.testing.assert_allclose(table["nll_mixture"], [0, 20], atol=1e-12)


def test_missing_targets_have_no_error():
    y, known = RNG.normal(size=50), np.arange(50) % 2 == 0

    def numbers(x):
        return SimpleNamespace(
            task="regression",
            mean=x[:, 0],
            y=np.asarray,
            exact=lambda y: known,
            log_prob=lambda y: np.where(known, -np.abs(y - x[:, 0]), 0.0),
        )

    masked = np.where(known, y, 1e6)
    table = by_severity(SimpleNamespace(predict=numbers), {("shift", 2): (y + 2)[:, None]}, masked)
    np.testing.assert_allclose(table["rmse"], [2], atol=1e-12)
    np.testing.assert_allclose(table["nll_mixture"], [2], atol=1e-12)


def test_refusals():
    def never(x):
        raise AssertionError("predicted before the refusal")

    unused = SimpleNamespace(predict=never)
    with pytest.raises(TypeError, match=r"key 'noise'.*for example \('blur', 3\)"):
        by_severity(unused, BATCHES | {"noise": CLEAN}, Y)
    with pytest.raises(TypeError, match="severity"):
        by_severity(unused, {("noise", 1.5): CLEAN}, Y)
    with pytest.raises(ValueError, match=r"\('noise', 1\) has 80 rows and `y` has 90"):
        by_severity(unused, {("noise", 1): CLEAN[:80]}, Y)
    with pytest.raises(ValueError, match="nothing to score"):
        by_severity(unused, {}, Y)
    with pytest.raises(ValueError, match="'best', but must be one of bnn_hmc"):
        by_severity(unused, BATCHES, Y, variant="best")
    with pytest.raises(ValueError, match="twice"):
        by_severity(POSTERIOR, [(("noise", 1), CLEAN), (("noise", np.int64(1)), CLEAN)], Y)
