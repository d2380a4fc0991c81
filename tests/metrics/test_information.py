"""Entropies against closed forms and an independent formula."""

import numpy as np
import pytest
from scipy.stats import entropy

from bayesnn_ppl import metrics


def test_by_an_independent_formula():
    """Mutual information is the mean divergence of a draw from the average."""
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=(6, 10))
    average = p.mean(axis=0)
    np.testing.assert_allclose(metrics.predictive_entropy(p), entropy(average, axis=-1))
    np.testing.assert_allclose(metrics.predictive_entropy(average), entropy(average, axis=-1))
    divergence = np.mean([entropy(draw, average, axis=-1) for draw in p], axis=0)
    np.testing.assert_allclose(metrics.mutual_information(p), divergence, rtol=1e-9)


def test_limits():
    """Draws that agree know all they can; sure draws that disagree carry log 2."""
    same = np.broadcast_to([0.1, 0.9], (5, 3, 2))
    np.testing.assert_allclose(metrics.mutual_information(same), 0.0, atol=1e-15)
    assert (metrics.mutual_information(same) >= 0).all()
    split = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    np.testing.assert_allclose(metrics.mutual_information(split), np.log(2))
    np.testing.assert_allclose(metrics.predictive_entropy(split), np.log(2))
    np.testing.assert_allclose(metrics.predictive_entropy(np.full((1, 10), 0.1)), np.log(10))


def test_pixels():
    p = np.random.default_rng(1).dirichlet(np.ones(3), size=(4, 5, 2, 2))
    assert metrics.mutual_information(p).shape == (5, 2, 2)
    assert metrics.predictive_entropy(p, averaged=False).shape == (5, 2, 2)
    assert metrics.predictive_entropy(p[0], averaged=True).shape == (5, 2, 2)
    with pytest.raises(ValueError, match="averaged=True"):
        metrics.predictive_entropy(p)


def test_averaged_probabilities_have_no_mutual_information():
    with pytest.raises(ValueError, match="no longer say"):
        metrics.mutual_information(np.full((3, 2), 0.5))
