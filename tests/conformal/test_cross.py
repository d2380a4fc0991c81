"""Cross-conformal prediction: its ends by the formula of the paper, and its coverage."""

import numpy as np
import pytest
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl import conformal
from tests.conformal.stand_ins import CENTRE, SCALE, classes, linear


@pytest.fixture(scope="module")
def few():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 1))
    return x, x[:, 0] ** 2 + 0.3 * rng.normal(size=24)


def refit(x, y, seed):
    return linear(x, y, noise=0.3)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("folds", [24, 4])
def test_the_ends_are_those_of_the_paper(few, folds, scaled):
    """Barber et al. (2021), section 4: ranks of mu_-k(i)(x) -+ R_i, here one by one in a loop."""
    x, y = few
    seen = []

    def fit(x_left, y_left, seed):
        seen.append((len(y_left), seed))
        return refit(x_left, y_left, seed)

    found = conformal.cross(fit, x, y, folds=folds, seed=7, score=conformal.Residual(scaled=scaled))
    assert seen == [(24 - 24 // folds, 7 + k) for k in range(folds)]
    assert found.rows == 24 and len(found.parts) == folds
    new = np.linspace(-2, 2, 5)[:, None]
    low, high = [], []
    for part in found.parts:
        at_new = part.posterior.predict(new)
        residuals = np.abs(part.y - part.prediction.mean)
        for i, residual in enumerate(residuals):
            size = residual * np.ones(5)
            if scaled:
                size = size / np.sqrt(part.prediction.variance[i]) * np.sqrt(at_new.variance)
            low.append(at_new.mean - size)
            high.append(at_new.mean + size)
    # alpha = 0.2: floor(0.2 · 25) = 5th smallest, and ceil(0.8 · 25) = 20th smallest.
    ends = np.stack([np.sort(low, axis=0)[4], np.sort(high, axis=0)[19]], axis=-1)
    assert found.interval(new, 0.8) == pytest.approx(ends)


def test_rows_of_a_fold_did_not_train_its_posterior(few):
    x, y = few
    found = conformal.cross(refit, x, y, folds=4, seed=1)
    together = np.sort(np.concatenate([part.y for part in found.parts]))
    assert together == pytest.approx(np.sort(CENTRE + SCALE * y))
    for part in found.parts:
        left = ~np.isin(CENTRE + SCALE * y, part.y)
        expected = linear(x[left], y[left], noise=0.3).predict(x[~left]).mean
        assert np.sort(part.prediction.mean) == pytest.approx(np.sort(expected))


def test_large_tables_are_computed_in_blocks(few, monkeypatch):
    from bayesnn_ppl.conformal import calibrated

    found = conformal.cross(refit, *few, folds=4)
    new = np.linspace(-2, 2, 7)[:, None]
    whole = found.interval(new, 0.8)
    monkeypatch.setattr(calibrated, "_VALUES", 50)  # two rows at a time
    assert (found.interval(new, 0.8) == whole).all()


def test_coverage_of_few_rows_and_the_control(few):
    """30 rows, 60 new ones and 40 repetitions, where the model is wrong.

    Rows of a repetition share their calibration, so repetitions are compared and not rows. Twice
    the noncoverage is the guarantee; about the level is what is found. The control is the model's
    own interval, which covers half of it.
    """
    rng = np.random.default_rng(1)
    ours, own = [], []
    for _ in range(40):
        x = rng.normal(size=(90, 1))
        y = x[:, 0] ** 2 + 0.3 * rng.normal(size=90)
        found = conformal.cross(refit, x[:30], y[:30], folds=5)
        prediction = refit(x[:30], y[:30], 0).predict(x[30:])
        for ends, into in (
            (found.interval(x[30:], 0.8), ours),
            (prediction.quantile([[0.1], [0.9]]).T, own),
        ):
            target = CENTRE + SCALE * y[30:]
            into.append(((ends[:, 0] <= target) & (target <= ends[:, 1])).mean())
    error = np.std(ours, ddof=1) / np.sqrt(40)
    assert 0.8 - 4 * error < np.mean(ours) < 0.88
    assert stats.ttest_1samp(own, 0.8).pvalue < 1e-6 and np.mean(own) < 0.6


def test_sets_of_folds_count_the_rows_that_are_less_unusual():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 1))
    y = (x[:, 0] + rng.normal(size=60) > 0).astype(int)

    def fit(x_left, y_left, seed):
        share = y_left.mean()  # differs from fold to fold

        def probabilities(new):
            odds = share * np.exp(2 * new[:, 0])
            return np.column_stack([1 / (1 + odds), odds / (1 + odds)])

        return classes(probabilities)

    found = conformal.cross(fit, x, y, folds=5)
    assert {int(part.y.sum()) for part in found.parts} <= {5, 6, 7}, "labels are dealt evenly"
    new = np.linspace(-1, 1, 11)[:, None]
    zeros = np.zeros(60)
    counts = np.zeros((11, 2))
    for part in found.parts:
        own = found.score.scores(part.prediction.probabilities, zeros[:12])
        at_new = found.score.scores(part.posterior.predict(new).probabilities, zeros[:11])
        for i, label in enumerate(part.y):
            counts += own[i, label] < at_new
    expected = counts < np.ceil(0.9 * 61)
    assert (found.sets(new, 0.9) == expected).all() and 11 < expected.sum() < 22


def test_a_score_of_the_other_task_is_refused_after_one_fit(few):
    seen = []

    def fit(x, y, seed):
        seen.append(seed)
        return refit(x, y, seed)

    with pytest.raises(ValueError, match=r"for classification.*Use `Quantile\(\)`"):
        conformal.cross(fit, *few, folds=4, score=conformal.AdaptiveSets())
    assert seen == [0]


def test_targets_of_a_data_set_keep_their_units():
    data = bnn.data.load("diabetes", standardise=True)
    seen = []

    def fit(x, y, seed):
        seen.append(type(y).__name__)
        return linear(np.asarray(x), np.asarray(y), noise=0.7)

    conformal.cross(fit, data.test.x, data.test.y, folds=2)
    assert seen == ["StandardisedTarget"] * 2
