"""Every score against an independent formula, a numerical integral or brute force."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bayesnn_ppl import metrics


@pytest.fixture
def classified():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(4), size=60), rng.integers(0, 4, size=60)


def test_rmse():
    assert metrics.rmse([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [3.0, 4.0]]) == pytest.approx(1.0)


def test_classification_scores_by_loops(classified):
    p, y = classified
    hits, squares, logs = [], [], []
    for row, label in zip(p, y, strict=True):
        hits.append(max(range(4), key=lambda k, row=row: row[k]) == label)
        squares.append(sum((row[k] - (k == label)) ** 2 for k in range(4)))
        logs.append(-np.log(row[label]))
    assert metrics.accuracy(p, y) == pytest.approx(np.mean(hits))
    assert metrics.brier(p, y) == pytest.approx(np.mean(squares))
    assert metrics.nll_probabilities(p, y) == pytest.approx(np.mean(logs))


def test_brier_is_the_sum_form():
    """0 when right and sure, 2 when wrong and sure."""
    sure = np.eye(3)
    assert metrics.brier(sure, [0, 1, 2]) == 0.0
    assert metrics.brier(sure, [1, 2, 0]) == 2.0


def test_impossible_label_costs_infinity():
    assert metrics.nll_probabilities([[1.0, 0.0]], [1]) == np.inf


def test_nll_mixture():
    rng = np.random.default_rng(1)
    mean, sd, y = rng.normal(size=(7, 20)), rng.uniform(0.3, 2.0, size=(7, 20)), rng.normal(size=20)
    densities = stats.norm.pdf(y, mean, sd)
    expected = -np.mean(np.log(densities.mean(axis=0)))
    assert metrics.nll_mixture(np.log(densities)) == pytest.approx(expected)
    # Negative control: the mean of the logs is another number, and a larger one.
    assert expected < -np.mean(np.log(densities)) - 0.01
    # Log densities far below the smallest double.
    far = np.log(densities) - 2000.0
    assert metrics.nll_mixture(far) == pytest.approx(expected + 2000.0)


def test_standardised_nll_differs_by_log_of_the_scale():
    rng = np.random.default_rng(2)
    mean, y, scale = rng.normal(size=(5, 30)), rng.normal(size=30), 3.7
    standard = metrics.nll_mixture(stats.norm.logpdf(y, mean, 0.5))
    original = metrics.nll_mixture(stats.norm.logpdf(scale * y, scale * mean, scale * 0.5))
    assert original == pytest.approx(standard + np.log(scale))


def test_nll_moment_matched():
    rng = np.random.default_rng(3)
    m, v, y = rng.normal(size=9), rng.uniform(0.2, 3.0, size=9), rng.normal(size=9)
    expected = -stats.norm.logpdf(y, m, np.sqrt(v)).mean()
    assert metrics.nll_moment_matched(m, v, y) == pytest.approx(expected)
    with pytest.raises(ValueError, match="must be positive"):
        metrics.nll_moment_matched(m, 0 * v, y)


def test_crps_samples_is_the_fair_double_sum():
    rng = np.random.default_rng(4)
    x, y = 1e4 + rng.normal(size=(9, 3, 2)), 1e4 + rng.normal(size=(3, 2))
    pairs = np.abs(x[:, None] - x[None]).sum(axis=(0, 1)) / (2 * 9 * 8)
    expected = np.mean(np.abs(x - y).mean(axis=0) - pairs)
    assert metrics.crps_samples(x, y) == pytest.approx(expected, rel=1e-9)


def mixture_crps_by_integral(means, sds, y):
    def cdf(t):
        return stats.norm.cdf(t, means, sds).mean()

    below = quad(lambda t: cdf(t) ** 2, -40, y, limit=200, points=sorted({*means, y - 1}))[0]
    above = quad(lambda t: (1 - cdf(t)) ** 2, y, 40, limit=200, points=[y + 1])[0]
    return below + above


def test_crps_gaussian_mixture_is_the_integral(monkeypatch):
    rng = np.random.default_rng(6)
    means, sds = rng.normal(scale=2.0, size=(4, 3)), rng.uniform(0.3, 2.0, size=(4, 3))
    y = np.array([-1.0, 0.3, 4.0])
    expected = np.mean([mixture_crps_by_integral(means[:, n], sds[:, n], y[n]) for n in range(3)])
    assert metrics.crps_gaussian_mixture(means, sds, y) == pytest.approx(expected, rel=1e-5)
    # Blocks smaller than the mixture change nothing.
    monkeypatch.setattr("bayesnn_ppl.metrics.scores._PAIRS", 9)
    assert metrics.crps_gaussian_mixture(means, sds, y) == pytest.approx(expected, rel=1e-5)


def test_crps_of_one_gaussian_and_of_points():
    """The textbook formula, and the absolute error for a point mass."""
    m, s, y = 0.7, 1.3, -0.4
    z = (y - m) / s
    expected = s * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert metrics.crps_gaussian_mixture([[m]], [[s]], [y]) == pytest.approx(expected)
    assert metrics.crps_gaussian_mixture([[m]], [[0.0]], [y]) == pytest.approx(1.1)


def test_intervals():
    low, high, y = np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.5, 0.0])
    assert metrics.interval_coverage(low, high, y) == pytest.approx(2 / 3)
    assert metrics.interval_width(low, high) == pytest.approx(4 / 3)
    with pytest.raises(ValueError, match="Exchange"):
        metrics.interval_coverage(high, low, y)


def test_pinball_is_least_at_the_quantile():
    y = np.random.default_rng(8).normal(size=20_000)
    grid = np.linspace(-2.0, 2.0, 81)
    losses = [metrics.pinball(np.full_like(y, q), y, level=0.8) for q in grid]
    assert grid[np.argmin(losses)] == pytest.approx(stats.norm.ppf(0.8), abs=0.06)
    assert metrics.pinball([0.0], [2.0], level=0.8) == pytest.approx(1.6)
    assert metrics.pinball([2.0], [0.0], level=0.8) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="inside"):
        metrics.pinball([0.0], [1.0], level=80)


def test_nothing_broadcasts():
    """(N, 1) against (N,) would give an (N, N) mean without an error."""
    column, row = np.zeros((5, 1)), np.zeros(5)
    for call in (
        lambda: metrics.rmse(column, row),
        lambda: metrics.nll_moment_matched(row, row + 1, column),
        lambda: metrics.interval_coverage(row, row, column),
        lambda: metrics.crps_samples(np.zeros((3, 5, 1)), row),
        lambda: metrics.crps_gaussian_mixture(np.zeros((3, 5)), np.ones((3, 4)), row),
        lambda: metrics.pinball(row, column, level=0.5),
        lambda: metrics.total_variation(np.eye(3), np.eye(3)[:1]),
    ):
        with pytest.raises(ValueError, match="shape"):
            call()


def test_refusals(classified):
    p, y = classified
    with pytest.raises(ValueError, match="not logits"):
        metrics.brier(np.log(p), y)
    with pytest.raises(ValueError, match="numbered 0 to 3"):
        metrics.accuracy(p, y + 1)
    with pytest.raises(ValueError, match="one-hot"):
        metrics.accuracy(p, np.eye(4)[y])
    with pytest.raises(TypeError, match="not integers"):
        metrics.accuracy(p, y + 0.5)
    with pytest.raises(ValueError, match="binary"):
        metrics.accuracy(p[:, 0], y)
    with pytest.raises(ValueError, match="two or more"):
        metrics.crps_samples([[0.0]], [0.0])
    with pytest.raises(ValueError, match="one row a draw"):
        metrics.nll_mixture([0.0])
    with pytest.raises(ValueError, match="empty"):
        metrics.rmse([], [])
    with pytest.raises(ValueError, match="negative"):
        metrics.crps_gaussian_mixture([[0.0]], [[-1.0]], [0.0])
    with pytest.raises(TypeError, match="real numbers"):
        metrics.rmse(["a"], ["b"])


def test_nan_predictions_never_give_a_number(classified):
    p, y = classified
    p[3] = np.nan
    for score in (metrics.accuracy, metrics.brier, metrics.nll_probabilities):
        assert np.isnan(score(p, y))
    assert np.isnan(metrics.ece_equal_mass(p, y)) and np.isnan(metrics.agreement(p, p))
    z = np.array([0.0, np.nan])
    one = np.ones(2)
    assert np.isnan(metrics.rmse(z, one)) and np.isnan(metrics.interval_coverage(z, one, one))
    assert np.isnan(metrics.crps_samples(np.stack([z, one]), one))
