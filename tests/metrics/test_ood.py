"""Detection of outliers: pairs by loops, sweeps over thresholds, and `evaluate_ood`."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from bayesnn_ppl import metrics
from bayesnn_ppl.metrics import aupr, auroc, evaluate_ood, fpr_at_95_tpr


def scores(rounding):
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=80), rounding), np.round(rng.normal(1, 1.5, 50), rounding)


@pytest.mark.parametrize("rounding", [8, 1, 0])
def test_auroc_counts_pairs_and_half_of_ties(rounding):
    inside, outside = scores(rounding)
    above = (outside[:, None] > inside).mean() + 0.5 * (outside[:, None] == inside).mean()
    assert auroc(inside, outside) == pytest.approx(above, rel=1e-12)
    u = mannwhitneyu(outside, inside).statistic
    assert auroc(inside, outside) == pytest.approx(u / (80 * 50), rel=1e-12)
    assert auroc(outside, inside) == pytest.approx(1 - above, rel=1e-12)


@pytest.mark.parametrize("rounding", [8, 1, 0])
def test_aupr_and_fpr_by_a_sweep_over_thresholds(rounding):
    inside, outside = scores(rounding)
    total, recall_before, false_rate = 0.0, 0.0, None
    for threshold in np.unique(np.concatenate((inside, outside)))[::-1]:
        hits, false = np.sum(outside >= threshold), np.sum(inside >= threshold)
        total += (hits / 50 - recall_before) * hits / (hits + false)
        recall_before = hits / 50
        if false_rate is None and 100 * hits >= 95 * 50:
            false_rate = false / 80
    assert aupr(inside, outside) == pytest.approx(total, rel=1e-12)
    assert fpr_at_95_tpr(inside, outside) == false_rate


def test_limits():
    low, high = np.arange(20.0), np.arange(100.0, 160.0)
    assert (auroc(low, high), aupr(low, high), fpr_at_95_tpr(low, high)) == (1.0, 1.0, 0.0)
    assert (auroc(high, low), fpr_at_95_tpr(high, low)) == (0.0, 1.0)
    same = np.zeros(20), np.zeros(60)
    assert (auroc(*same), aupr(*same), fpr_at_95_tpr(*same)) == (0.5, 0.75, 1.0)
    # 57 of 60 outliers are the 95 %: three may be missed, a fourth may not.
    assert fpr_at_95_tpr(np.full(4, 5.0), np.repeat([1.0, 9.0], [3, 57])) == 0.0
    assert fpr_at_95_tpr(np.full(4, 5.0), np.repeat([1.0, 9.0], [4, 56])) == 1.0
    assert auroc([0.0, 1.0], [np.inf, -np.inf]) == 0.5
    for measure in (auroc, aupr, fpr_at_95_tpr):
        assert np.isnan(measure([0.0, 1.0], [0.5, np.nan]))
        with pytest.raises(ValueError, match="`scores_out` is empty"):
            measure([0.0], [])
        with pytest.raises(ValueError, match="one score for each input"):
            measure([[0.0]], [1.0])


def classifier(x):
    """More evenly spread probabilities, and draws further apart, the larger |x|."""
    rng = np.random.default_rng(len(x))
    logits = rng.normal(size=(6, len(x), 3)) * np.abs(x[:, :1]) / 3 + [4.0, 0.0, 0.0]
    draws = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return SimpleNamespace(
        task="classification",
        probabilities=draws.mean(axis=0),
        epistemic=draws.var(axis=0),
        entropy=metrics.predictive_entropy(draws),
        mutual_information=metrics.mutual_information(draws),
    )


INSIDE, OUTSIDE = np.full((70, 2), 0.5), np.full((50, 2), 9.0)
POSTERIOR = SimpleNamespace(predict=classifier)


@pytest.mark.parametrize("score", ["entropy", "mutual_information", "max_probability", "epistemic"])
def test_every_score_of_labels_points_the_right_way(score):
    found = evaluate_ood(POSTERIOR, INSIDE, OUTSIDE, score=score)
    assert list(found) == ["auroc", "aupr", "fpr_at_95_tpr", "mean_in", "mean_out"]
    assert found["auroc"] > 0.9 and found["aupr"] > 0.9 and found["fpr_at_95_tpr"] < 0.3
    assert 0 <= found["mean_in"] < found["mean_out"]
    assert evaluate_ood(POSTERIOR, OUTSIDE, INSIDE, score=score)["auroc"] < 0.1
    assert str(found).startswith(f"Out-of-distribution by {score}, 120 rows\n")
    assert max(map(len, str(found).splitlines())) <= 88


def test_regression_by_its_epistemic_variance():
    def predict(x):
        variance = np.stack([x[:, 0] ** 2, np.ones(len(x))], axis=1)
        return SimpleNamespace(task="regression", epistemic=variance)

    x = np.random.default_rng(1).normal(size=(60, 1))
    found = evaluate_ood(SimpleNamespace(predict=predict), x[:40], 2 * x[40:], score="epistemic")
    assert found["auroc"] == auroc(x[:40, 0] ** 2, 4 * x[40:, 0] ** 2)
    assert found["mean_in"] == pytest.approx((1 + (x[:40] ** 2).mean()) / 2)
    with pytest.raises(ValueError, match="Use score='epistemic'"):
        evaluate_ood(SimpleNamespace(predict=predict), x, x)


def test_refusals():
    with pytest.raises(ValueError, match="'variance', but must be one of 'entropy'"):
        evaluate_ood(POSTERIOR, INSIDE, OUTSIDE, score="variance")
    with pytest.raises(ValueError, match="rows of one shape"):
        evaluate_ood(POSTERIOR, INSIDE, OUTSIDE[:, :1])
    with pytest.raises(ValueError, match="at least one row"):
        evaluate_ood(POSTERIOR, INSIDE, OUTSIDE[:0])
