"""Agreement and total variation by loops."""

import numpy as np
import pytest

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
