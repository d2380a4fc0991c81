"""Coverage is the level, within what chance allows; and it is not where it should not be.

Of m exchangeable new rows the number covered is exactly beta-binomial: the k-th smallest of n
scores has a uniform rank, so the coverage given the calibration rows is Beta(k, n + 1 - k). Every
test counts rows and asks for the probability of a count as far out, with one false-alarm budget.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes

from bayesnn_ppl import conformal
from tests.conformal.stand_ins import CENTRE, SCALE, classes, linear, numbers

REPETITIONS, LEVEL, CALIBRATION = 10, 0.9, 120
SETS = ("diabetes", "heteroscedastic", "wrong model")
SCORES = {
    "quantile": conformal.Quantile(),
    "residual": conformal.Residual(),
    "scaled": conformal.Residual(scaled=True),
}
# 60 tests of intervals and 20 of sets share it.
BUDGET = 1e-3 / 80


def problem(name, seed):
    """A posterior, calibration rows and new rows, of another draw or split for each seed."""
    rng = np.random.default_rng(seed)
    if name == "diabetes":
        x, y = load_diabetes(return_X_y=True)
        order = rng.permutation(len(y))
        x, y = 20 * x[order], (y[order] - 150) / 77
        posterior = linear(x[:200], y[:200], noise=0.7)
        x, y = x[200:], y[200:]
    else:
        x = rng.uniform(-2, 2, size=(400, 1))
        if name == "heteroscedastic":

            def sd(x):
                return 0.1 + 0.5 * np.abs(x[:, 0])

            posterior = numbers(lambda x: np.sin(x[:, 0]), sd)
            y = np.sin(x[:, 0]) + sd(x) * rng.normal(size=400)
        else:  # a line with a noise of 0.3, where the truth is a parabola with heavy tails
            y = x[:, 0] ** 2 + 0.3 * rng.standard_t(3, size=400)
            posterior = linear(x[:100], y[:100], noise=0.3)
            x, y = x[100:], y[100:]
    return posterior, (x[:CALIBRATION], y[:CALIBRATION]), (x[CALIBRATION:], y[CALIBRATION:])


def covered(ends, y):
    """How many targets, in the data's units, lie inside."""
    y = CENTRE + SCALE * y
    return int(((ends[:, 0] <= y) & (y <= ends[:, 1])).sum())


def p_value(count, rows, calibration=CALIBRATION):
    """Two-sided probability of a count as far out, by its exact distribution."""
    rank = math.ceil((calibration + 1) * LEVEL)
    chance = stats.betabinom(rows, rank, calibration + 1 - rank)
    return min(1.0, 2 * min(chance.cdf(count), chance.sf(count - 1)))


@pytest.fixture(scope="module")
def problems():
    return {name: [problem(name, seed) for seed in range(REPETITIONS)] for name in SETS}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("score", SCORES)
def test_intervals_hold_whatever_the_model(problems, name, score):
    values = []
    for posterior, calibration, (x, y) in problems[name]:
        found = conformal.split(posterior, *calibration, score=SCORES[score])
        values.append(p_value(covered(found.interval(x, LEVEL), y), len(y)))
    assert min(values) > BUDGET
    assert stats.combine_pvalues(values).pvalue > BUDGET, "all repetitions together"


def test_without_calibration_a_wrong_model_is_caught(problems):
    """Negative control: the same counts of the posterior's own intervals."""
    for name, fails in zip(SETS, (False, False, True), strict=True):
        values = []
        for posterior, _, (x, y) in problems[name]:
            ends = posterior.predict(x).quantile([[(1 - LEVEL) / 2], [(1 + LEVEL) / 2]]).T
            values.append(stats.binomtest(covered(ends, y), len(y), LEVEL).pvalue)
        assert (max(values) < BUDGET) == fails, name
        if name == "heteroscedastic":
            assert min(values) > BUDGET, "this one is right without calibration"


@pytest.mark.parametrize("name", SETS)
def test_rows_of_another_source_are_caught(problems, name):
    """Negative control: calibration rows that are easier than the new ones."""
    values = []
    for posterior, (x_easy, y_easy), (x, y) in problems[name]:
        centre = (posterior.predict(x_easy).mean - CENTRE) / SCALE
        found = conformal.split(posterior, x_easy, centre + 0.4 * (y_easy - centre))
        values.append(p_value(covered(found.interval(x, LEVEL), y), len(y)))
    assert stats.combine_pvalues(values).pvalue < BUDGET


def test_a_naive_quantile_is_caught():
    """Negative control of the rank: without its (n + 1) few rows cover too little."""
    posterior = numbers(lambda x: np.zeros(len(x)), lambda x: 1.0)
    y = np.random.default_rng(0).normal(size=(20_000, 10))
    residuals = np.sort(np.abs(y[:, :9]), axis=1)
    ours, naive = residuals[:, math.ceil(10 * 0.8) - 1], np.quantile(residuals, 0.8, axis=1)
    for some in range(3):
        found = conformal.split(
            posterior, np.zeros((9, 1)), y[some, :9], score=conformal.Residual()
        )
        edge = found.interval(np.zeros((1, 1)), 0.8)[0, 1]
        assert edge == pytest.approx(CENTRE + SCALE * ours[some])
    for edges, fails in ((ours, False), (naive, True)):
        inside = int((np.abs(y[:, 9]) <= edges).sum())
        assert (stats.binomtest(inside, 20_000, 0.8).pvalue < BUDGET) == fails


def labelled(seed, sharpness):
    """Labels from p, and a posterior that predicts p to a power: too sure, or not sure enough."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(0.4 * np.ones(5), size=400)
    y = np.array([rng.choice(5, p=row) for row in p])
    powers = (p + 1e-9) ** sharpness
    powers /= powers.sum(axis=1, keepdims=True)
    return classes(lambda x: powers[x[:, 0]]), np.arange(400)[:, None], y


@pytest.mark.parametrize("sharpness", [1.0, 3.0])
@pytest.mark.parametrize("penalty", [0.0, 0.05])
def test_sets_hold_whatever_the_probabilities(sharpness, penalty):
    values, plain = [], []
    for seed in range(REPETITIONS):
        posterior, x, y = labelled(seed, sharpness)
        for seeded, into in ((seed, values), (None, plain)):
            score = conformal.AdaptiveSets(penalty=penalty, seed=seeded)
            found = conformal.split(posterior, x[:CALIBRATION], y[:CALIBRATION], score=score)
            new = found.sets(x[CALIBRATION:], LEVEL)
            count = int(new[np.arange(280), y[CALIBRATION:]].sum())
            into.append(p_value(count, 280))
            if seeded is None:
                assert new.any(axis=1).all()
    assert min(values) > BUDGET and stats.combine_pvalues(values).pvalue > BUDGET
    assert min(plain) > BUDGET, "this model is less accurate than the level, so nothing is lost"
    # Negative control: sets of 90 % of the mass, of probabilities that are too sure.
    scores = [conformal.AdaptiveSets().scores(posterior.predict(x).probabilities, np.zeros(400))]
    inside = int((scores[0][np.arange(400), y] <= LEVEL).sum())
    assert (stats.binomtest(inside, 400, LEVEL).pvalue < BUDGET) == (sharpness == 3.0)


def test_without_a_seed_coverage_is_the_accuracy_where_that_is_larger():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=4000)
    p = np.where(np.arange(3) == y[:, None], 0.9, 0.05)
    wrong = rng.uniform(size=4000) < 0.02
    p[wrong] = np.roll(p[wrong], 1, axis=1)
    x = np.arange(4000)[:, None]
    posterior = classes(lambda x: p[x[:, 0]])
    plain, random = (
        conformal.split(
            posterior, x[:2000], y[:2000], score=conformal.AdaptiveSets(seed=seed)
        ).sets(x[2000:], LEVEL)
        for seed in (None, 0)
    )
    assert (plain.sum(axis=1) == 1).all()
    assert plain[np.arange(2000), y[2000:]].mean() == pytest.approx(1 - wrong[2000:].mean())
    assert random[np.arange(2000), y[2000:]].mean() == pytest.approx(LEVEL, abs=0.03)
    assert (random.sum(axis=1) == 0).mean() > 0.05
