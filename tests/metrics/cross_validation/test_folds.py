"""K folds and single refits, with posteriors in closed form as the fits."""

import numpy as np
import pytest

from bayesnn_ppl.core.folds import deal
from bayesnn_ppl.data import Standardisation
from bayesnn_ppl.data.common.target import StandardisedTarget
from bayesnn_ppl.metrics import k_fold, loo
from tests.metrics.linear_draws import exact_posterior, log_scores, without_each_row


def tempered(x, y, seed):
    return exact_posterior(x, y, likelihood=0.25, seed=seed)


def test_every_row_is_scored_by_a_posterior_that_never_saw_it(regression):
    x, y = regression
    seen = []

    def fit(x, y, seed):
        seen.append((len(x), seed))
        return tempered(x, y, seed)

    found = k_fold(fit, x, y, folds=4, seed=3)
    assert seen == [(30, 3), (30, 4), (30, 5), (30, 6)]
    member = deal(y, 4, 3)
    truth = np.empty(len(y))
    for fold in range(4):
        out = member == fold
        truth[out] = log_scores(x[out], y[out], x[~out], y[~out], likelihood=0.25)
    # Of 4000 draws, whose mean densities differ by a percent or so; twice that for forty rows.
    assert np.abs(found.log_scores - truth).max() < 0.03
    assert found.elpd == found.log_scores.sum() and found.rows == 40
    assert "4-fold" in str(found) and "75 %" in found.sentence
    again = k_fold(tempered, x, y, folds=4, seed=3)
    np.testing.assert_array_equal(found.log_scores, again.log_scores)
    other = k_fold(tempered, x, y, folds=4, seed=4)
    assert np.abs(other.log_scores - found.log_scores).max() > 0.03
    # The negative control: scores with the rows learned from are higher.
    inside = tempered(x, y, 0).predict(x).log_prob(y)
    assert inside.sum() > truth.sum() + 1


def test_as_many_folds_as_rows_are_leave_one_out(regression):
    x, y = regression[0][:6], regression[1][:6]
    found = k_fold(tempered, x, y, folds=6)
    assert found.log_scores == pytest.approx(without_each_row(x, y, likelihood=0.25), abs=0.1)


def test_bad_rows_are_refitted_and_no_others(regression):
    x, y = (a.copy() for a in regression)
    x[7], y[7] = (9.0, -9.0), -1.0
    estimate = loo(tempered(x, y, 0), x, y)
    assert estimate.bad_rows.tolist() == [7]
    left = []

    def fit(x, y, seed):
        left.append((len(y), -1.0 in y, seed))
        return tempered(x, y, seed)

    found = k_fold(fit, x, y, loo=estimate, seed=100)
    assert left == [(39, False, 107)] and found.refitted.tolist() == [7]
    truth = without_each_row(x, y, likelihood=0.25)
    assert np.abs(estimate.log_scores - truth).max() > 2
    assert np.abs(found.log_scores - truth).max() < 0.2
    np.testing.assert_array_equal(
        np.delete(found.log_scores, [7]), np.delete(estimate.log_scores, [7])
    )
    assert found.bad_rows.size == 0 and np.isnan(found.pareto_k[7])
    assert "1 by exact refits" in str(found)
    assert k_fold(fit, x, y, loo=found) is found and len(left) == 1


def test_labels_aredealt_evenly_and_others_at_random():
    y = np.repeat([0, 1, 2], [30, 7, 3])
    member = deal(y, 3, 0)
    for label, count in ((0, 10), (1, 2), (2, 1)):
        dealt = np.bincount(member[y == label], minlength=3)
        assert dealt.min() >= count and dealt.max() <= count + 1
    assert np.bincount(deal(np.linspace(0, 1, 11), 4, 0)).tolist() == [3, 3, 3, 2]
    assert (deal(y, 3, 0) != deal(y, 3, 1)).any()


def test_rows_keep_their_units(regression):
    x, y = regression
    units = Standardisation.fit(x, 5 + 2 * y, "regression")
    target = StandardisedTarget(y, units)
    seen = []

    def fit(x, y, seed):
        seen.append(y.standardisation)
        return tempered(x, np.asarray(y), seed)

    k_fold(fit, x, target, folds=2)
    assert seen == [units, units]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"folds": 41}, ValueError, "must be below 41"),
        ({"folds": 1}, ValueError, "must be at least 2"),
        ({"folds": 2, "loo": "given"}, ValueError, "not both"),
        ({"loo": "given", "rows": 39}, ValueError, "is of 40 rows, but `y` has 39"),
        ({"fit": "a posterior"}, TypeError, "must be a function"),
        ({"fit": lambda x, y, seed: None}, TypeError, "returned NoneType"),
    ],
)
def test_refusals(regression, settings, error, message):
    x, y = regression
    rows = settings.pop("rows", 40)
    if "loo" in settings:
        settings["loo"] = loo(tempered(x, y, 0), x, y)
    with pytest.raises(error, match=message):
        k_fold(settings.pop("fit", tempered), x[:rows], y[:rows], **settings)
    with pytest.raises(ValueError, match="must be equal"):
        k_fold(tempered, x, y[:-1])
