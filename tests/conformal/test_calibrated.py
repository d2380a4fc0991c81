"""Intervals and sets by hand, in the data's units; what they refuse, and when."""

from types import SimpleNamespace

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import conformal
from tests.conformal.stand_ins import CENTRE, SCALE, classes, numbers
from tests.metrics.linear_draws import exact_posterior

ZERO = numbers(lambda x: np.zeros(len(x)), lambda x: 1.0 + np.abs(x[:, 0]))
X = np.zeros((9, 1))
Y = np.array([0.5, -1.0, 2.0, -3.0, 0.1, 0.0, 1.5, -0.7, 4.0])  # |y|: 0 .1 .5 .7 1 1.5 2 3 4


def test_absolute_residuals_by_hand():
    """k = ceil(10 · 0.7) = 7: the 7th smallest of nine residuals is 2."""
    found = conformal.split(ZERO, X, Y, score=conformal.Residual())
    new = np.array([[0.0], [3.0]])
    expected = np.array([[CENTRE - 2 * SCALE, CENTRE + 2 * SCALE]] * 2)
    assert found.interval(new, 0.7) == pytest.approx(expected)
    assert found.interval(new, 0.65) == pytest.approx(expected), "ceil(6.5) is 7"
    assert found.interval(new, 0.9)[0, 1] == pytest.approx(CENTRE + 4 * SCALE)
    assert found.rows == 9 and found.highest_level == 0.9


def test_a_level_that_is_a_whole_rank_is_not_rounded_up():
    """99 rows: 100 · 0.55 is 55.000000000000007 in floating point, and the rank is 55."""
    y = np.arange(1.0, 100.0)
    found = conformal.split(ZERO, np.zeros((99, 1)), y, score=conformal.Residual())
    assert found.interval(X[:1], 0.55)[0, 1] == pytest.approx(CENTRE + 55 * SCALE)


def test_scaled_residuals_follow_the_predictive_sd():
    x = np.arange(9.0)[:, None]
    found = conformal.split(ZERO, x, 2 * (1 + x[:, 0]), score=conformal.Residual(scaled=True))
    new = np.array([[0.0], [3.0]])
    ends = found.interval(new, 0.9)
    assert ends[:, 1] == pytest.approx(CENTRE + SCALE * np.array([2.0, 8.0]))
    assert ends.sum(axis=1) == pytest.approx(2 * CENTRE)


def test_quantile_intervals_are_widened_and_narrowed():
    """Score max(low - y, y - high); its 7th smallest of nine is added to both sides."""
    found = conformal.split(ZERO, X, Y)
    assert found.score == conformal.Quantile()
    half = 1.0364333894937896  # of the 70 % interval of N(0, 1)
    assert found.interval(X[:1], 0.7)[0] == pytest.approx([CENTRE - 2 * SCALE, CENTRE + 2 * SCALE])
    wide = found.interval(np.array([[4.0]]), 0.7)[0]
    assert wide == pytest.approx(CENTRE + SCALE * np.array([-1, 1]) * (5 * half + 2 - half))
    narrow = conformal.split(ZERO, X, Y / 100).interval(X[:1], 0.7)[0]
    assert narrow == pytest.approx(CENTRE + SCALE * np.array([-1, 1]) * 0.02)
    # Of an input with a narrow prediction the ends would cross: both are in their middle.
    sure = numbers(lambda x: np.zeros(len(x)), lambda x: x[:, 0])
    crossed = conformal.split(sure, X + 1, 0 * Y).interval(np.array([[0.1]]), 0.7)[0]
    assert crossed == pytest.approx([CENTRE, CENTRE])


def test_several_outputs_are_calibrated_one_by_one():
    two = numbers(lambda x: np.zeros((len(x), 2)), lambda x: 1.0)
    y = np.column_stack([Y, 10 * Y])
    ends = conformal.split(two, X, y, score=conformal.Residual()).interval(X[:3], 0.7)
    assert ends.shape == (3, 2, 2)
    assert ends[:, :, 1] == pytest.approx(CENTRE + SCALE * np.array([[2.0, 20.0]] * 3))


P = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.6, 0.05, 0.35], [0.2, 0.2, 0.6]])


def test_the_score_of_a_class_is_the_mass_before_it():
    zero, one = np.zeros(4), np.ones(4)
    before = [[0, 0.5, 0.8], [0.8, 0, 0.9], [0, 0.95, 0.6], [0.6, 0.8, 0]]
    assert conformal.AdaptiveSets().scores(P, zero) == pytest.approx(np.array(before))
    assert conformal.AdaptiveSets().scores(P, one) == pytest.approx(np.array(before) + P)
    raps = conformal.AdaptiveSets(penalty=0.5, free=2).scores(P, zero)
    assert raps[2] == pytest.approx([0, 0.95 + 0.5, 0.6])
    assert raps[0] == pytest.approx([0, 0.5, 0.8 + 0.5])


def test_sets_by_hand():
    """Scores of the labels are 0.8, 0, 0.95, 0.6; level 0.6 takes the 3rd smallest, 0.8."""
    posterior = classes(lambda x: P[x[:, 0].astype(int)])
    rows = np.arange(4)[:, None]
    found = conformal.split(posterior, rows, np.array([2, 1, 1, 0]))
    expected = [[1, 1, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1]]
    assert found.sets(rows, 0.6).tolist() == np.array(expected, bool).tolist()
    assert found.sets(rows, 0.2).sum(axis=1).tolist() == [1, 1, 1, 1], "never empty"
    tail = conformal.split(
        posterior,
        rows,
        np.array([2, 1, 1, 0]),
        score=conformal.AdaptiveSets(penalty=10.0),
    )
    assert (tail.sets(rows, 0.6).sum(axis=1) <= found.sets(rows, 0.6).sum(axis=1)).all()


def test_random_sets_repeat_with_their_seed():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=200)
    posterior = classes(lambda x: p[x[:, 0]])
    x, y = np.arange(200)[:, None], np.array([rng.choice(4, p=row) for row in p])
    one, same, other = (
        conformal.split(posterior, x, y, score=conformal.AdaptiveSets(seed=seed)).sets(x)
        for seed in (1, 1, 2)
    )
    assert (one == same).all() and (one != other).any()


class TestRefusals:
    def test_too_few_rows_for_a_level(self):
        found = conformal.split(ZERO, X, Y)
        with pytest.raises(ValueError, match=r"9 calibration rows.*fewer than 19.*at most 0\.9\."):
            found.interval(X, 0.95)
        for level in (0.0, 1.0, 90):
            with pytest.raises(ValueError, match=r"write 0\.9 for 90 %"):
                found.interval(X, level)

    def test_the_other_task(self):
        labels = conformal.split(classes(lambda x: P), np.zeros((4, 1)), np.arange(4) % 3)
        with pytest.raises(ValueError, match=r"\.sets\(x, level\)"):
            labels.interval(X, 0.5)
        with pytest.raises(ValueError, match=r"\.interval\(x, level\)"):
            conformal.split(ZERO, X, Y).sets(X, 0.5)
        with pytest.raises(ValueError, match=r"for classification.*Use `Quantile\(\)`"):
            conformal.split(ZERO, X, Y, score=conformal.AdaptiveSets())

    @pytest.mark.parametrize(
        ("call", "error", "words"),
        [
            (lambda: conformal.split(ZERO, X, Y[1:]), ValueError, "every input needs one target"),
            (lambda: conformal.split(ZERO, X, None), ValueError, "inputs and targets"),
            (lambda: conformal.split(ZERO, X, Y[:, None]), ValueError, "shape it had in training"),
            (lambda: conformal.split(ZERO, X, Y, score="cqr"), TypeError, r"`Quantile\(\)`"),
            (lambda: conformal.split(3, X, Y), TypeError, "int has no `predict"),
            (lambda: conformal.AdaptiveSets(penalty=-1), ValueError, "at least 0 and finite"),
            (lambda: conformal.AdaptiveSets(free=3), ValueError, "Give `penalty=` too"),
            (lambda: conformal.AdaptiveSets(seed=-1), ValueError, "`seed` must be at least 0"),
            (lambda: conformal.cross(ZERO, X, Y), TypeError, "is for `split`"),
            (lambda: conformal.cross(lambda *a: ZERO, X, Y, folds=10), ValueError, "below 10"),
        ],
    )
    def test_what_is_given(self, call, error, words):
        with pytest.raises(error, match=words):
            call()

    def test_predictions_without_order(self):
        nan = numbers(lambda x: np.full(len(x), np.nan), lambda x: 1.0)
        with pytest.raises(ValueError, match="not finite.*diagnosis"):
            conformal.split(nan, X, Y).interval(X, 0.5)
        sure = numbers(lambda x: np.zeros(len(x)), lambda x: 0.0)
        with pytest.raises(ValueError, match=r"Give the likelihood a noise, or use `Residual\(\)`"):
            conformal.split(sure, X, Y, score=conformal.Residual(scaled=True)).interval(X, 0.5)

    def test_targets_that_are_bounds(self):
        prediction = SimpleNamespace(**vars(ZERO.predict(X)), exact=lambda y: np.arange(9) > 1)
        with pytest.raises(ValueError, match="2 calibration targets are censored or masked"):
            conformal.split(SimpleNamespace(predict=lambda x: prediction), X, Y)

    def test_pixels(self):
        pixels = classes(lambda x: np.full((4, 2, 2), 0.5))
        with pytest.raises(ValueError, match="rows of one label"):
            conformal.split(pixels, np.zeros((4, 1)), np.zeros((4, 2), int))


class TestTrainingRows:
    """They must not calibrate: in this process they are known, and a loaded run has their hash."""

    def test_of_this_process(self, regression):
        x, y = regression
        posterior = exact_posterior(x[:20], y[:20], shape=(1, 50))
        posterior.data = (x[:20], y[:20])
        for some in (slice(0, 20), slice(5, 20), slice(3, 33)):
            with pytest.raises(ValueError, match=r"calibration rows trained.*or use `cross`"):
                conformal.split(posterior, x[some], y[some])
        found = conformal.split(posterior, x[15:], y[15:])  # five of them are, of 25
        assert found.interval(x[:2], 0.9).shape == (2, 2)

    def test_of_a_loaded_run(self, regression, tmp_path):
        x, y = regression
        exact_posterior(x[:20], y[:20], shape=(1, 50)).save(tmp_path / "run")
        posterior = bnn.load(tmp_path / "run")
        with pytest.raises(ValueError, match="The 20 calibration rows are those that trained"):
            conformal.split(posterior, x[:20], y[:20])

    def test_rows_that_repeat_by_chance_are_no_evidence(self):
        x, y = np.tile([[0.0], [1.0]], (10, 1)), np.tile([0.0, 1.0], 10)
        posterior = SimpleNamespace(predict=ZERO.predict, data=(x, y))
        assert conformal.split(posterior, x, y).rows == 20


def test_a_posterior_s_intervals_are_in_the_units_of_its_data():
    """Standardised inputs, and the same rows raw."""
    data, raw = (bnn.data.load("diabetes", standardise=s) for s in (True, False))
    model = bnn.models.linear()
    fit = bnn.fit(bnn.approximations.MAP(model, epochs=30), *data.train, progress=False)
    found = conformal.split(fit, data.test.x[:30], data.test.y[:30])
    ends = found.interval(data.test.x[30:], 0.9)
    assert ends == pytest.approx(found.interval(raw.test.x[30:], 0.9, raw=True), rel=1e-3)
    y = np.asarray(raw.test.y[30:])
    assert ends.shape == (14, 2) and 60 < np.ptp(ends, axis=1).mean() < 400
    assert ((ends[:, 0] <= y) & (y <= ends[:, 1])).mean() > 0.6
