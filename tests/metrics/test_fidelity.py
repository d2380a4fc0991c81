"""Agreement and total variation by loops, Wasserstein against SciPy and known values."""

import numpy as np
import pytest
from scipy.stats import norm, wasserstein_distance

from bayesnn_ppl import metrics


def test_by_loops():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(3), size=(2, 40))
    same = [np.argmax(a) == np.argmax(b) for a, b in zip(p, q, strict=True)]
    # Total variation is also the largest difference of probability over all events.
    events = np.array([[i >> k & 1 for k in range(3)] for i in range(8)])
    distance = np.abs(events @ (p - q).T).max(axis=0)
    assert metrics.agreement(p, q) == pytest.approx(np.mean(same))
    assert metrics.total_variation(p, q) == pytest.approx(distance.mean())


def test_limits():
    p = np.eye(3)
    assert metrics.agreement(p, p) == 1.0 and metrics.total_variation(p, p) == 0.0
    assert metrics.agreement(p, p[[1, 2, 0]]) == 0.0
    assert metrics.total_variation(p, p[[1, 2, 0]]) == 1.0


def test_wasserstein_equals_scipy_element_by_element():
    rng = np.random.default_rng(1)
    for first, second in ((30, 30), (30, 45), (7, 12), (1, 9)):
        x, z = rng.normal(size=(first, 6)), np.round(rng.normal(1, 2, size=(second, 6)), 1)
        each = [wasserstein_distance(x[:, n], z[:, n]) for n in range(6)]
        assert metrics.wasserstein(x, z) == pytest.approx(np.mean(each), rel=1e-12)
        images = metrics.wasserstein(x.reshape(-1, 3, 2), z.reshape(-1, 3, 2))
        assert images == pytest.approx(np.mean(each), rel=1e-12)


def test_wasserstein_of_known_distributions():
    """A shift by d costs d, a rescaling of N(0, 1) by c costs (c - 1) E|Z|."""
    z = norm.ppf((np.arange(4000) + 0.5) / 4000)[:, None]
    assert metrics.wasserstein(z + 3, z) == pytest.approx(3)
    assert metrics.wasserstein(2.5 * z, z) == pytest.approx(1.5 * np.sqrt(2 / np.pi), rel=1e-3)
    assert metrics.wasserstein(np.repeat(z, 3, axis=0), z) == pytest.approx(0, abs=1e-15)
    assert metrics.wasserstein(z, -z) == pytest.approx(0, abs=1e-12)
    # What its docstring calls the distance of independent samples of one distribution.
    x, y = np.random.default_rng(2).normal(size=(2, 400, 500))
    assert metrics.wasserstein(x, y) == pytest.approx(1.82 / np.sqrt(400), rel=0.05)


def test_wasserstein_refuses_and_carries_nan():
    x = np.zeros((5, 4))
    x[2, 1] = np.nan
    assert np.isnan(metrics.wasserstein(x, np.zeros((5, 4))))
    assert np.isnan(metrics.wasserstein(x, np.zeros((6, 4))))
    with pytest.raises(ValueError, match=r"samples \(S, N\) and reference \(S', N\)"):
        metrics.wasserstein(np.zeros((5, 4)), np.zeros((5, 3)))
    with pytest.raises(ValueError, match="`samples` is empty"):
        metrics.wasserstein(np.zeros((0, 4)), np.zeros((5, 4)))
