"""Acquisition: what is not known is chosen, and what cannot be known is not."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayesnn_ppl.metrics import acquisition, highest, mutual_information, predictive_entropy

# Draws of p(1) for rows that are sure, noisy (all draws say a half), and undecided (draws differ).
ONE = np.array([[0.99, 0.5, 0.02], [0.99, 0.5, 0.98], [0.98, 0.5, 0.03], [0.99, 0.5, 0.97]])
P = np.stack([1 - ONE, ONE], axis=-1)
LABELS = SimpleNamespace(
    task="classification",
    mean=P.mean(axis=0),
    probabilities=P.mean(axis=0),
    entropy=predictive_entropy(P),
    mutual_information=mutual_information(P),
    epistemic=P.var(axis=0),
)


def test_bald_takes_the_row_that_the_draws_disagree_on_and_not_the_noisy_one():
    scores = acquisition(LABELS)
    np.testing.assert_allclose(scores, mutual_information(P))
    assert scores.argmax() == 2 and scores[1] < 1e-12
    assert acquisition(LABELS, "epistemic").argmax() == 2
    # The control: what looks at the averaged probabilities alone cannot tell the two apart.
    for rule in ("entropy", "max_probability"):
        sure, noisy, undecided = acquisition(LABELS, rule)
        assert noisy == pytest.approx(undecided, rel=1e-3) and sure < noisy


def test_numbers_have_the_information_of_a_gaussian():
    # Linear regression: with v = x'Sx and noise s², I(y; w) = ½ log |S| / |S'| = ½ log(1 + v/s²).
    covariance, noise = np.array([[0.5, 0.2], [0.2, 0.3]]), 0.1
    x = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    v = np.einsum("ni,ij,nj->n", x, covariance, x)
    numbers = SimpleNamespace(
        task="regression", mean=x[:, 0], epistemic=v, aleatoric=np.full(3, noise)
    )
    after = [np.linalg.inv(np.linalg.inv(covariance) + np.outer(r, r) / noise) for r in x]
    gained = [np.log(np.linalg.det(covariance) / np.linalg.det(one)) / 2 for one in after]
    np.testing.assert_allclose(acquisition(numbers), gained, rtol=1e-9)
    assert acquisition(numbers, "epistemic").argmax() == 2
    # Where the noise is large there is little to learn, though the variance is the largest.
    numbers.aleatoric = np.array([noise, noise, 1e3])
    assert acquisition(numbers).argmax() == 0
    numbers.aleatoric = np.zeros(3)
    with pytest.raises(ValueError, match="without noise is infinite"):
        acquisition(numbers)


def test_the_highest_scores_are_chosen():
    assert highest([0.1, 0.5, 0.5, 0.7], 3).tolist() == [3, 1, 2]
    with pytest.raises(ValueError, match="but 3 rows of a vector"):
        highest([0.1, 0.2], 3)
    with pytest.raises(ValueError, match="1 NaN entries"):
        highest([0.1, np.nan], 1)
    with pytest.raises(ValueError, match="'bald', but an acquisition is one of mutual_information"):
        acquisition(LABELS, "bald")
    numbers = SimpleNamespace(task="regression", mean=np.zeros(2), epistemic=np.ones(2))
    with pytest.raises(ValueError, match="predicts numbers"):
        acquisition(numbers, "entropy")
