"""`evaluate` and `compare` with calibration rows: coverage by chance alone, widths by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from bayesnn_ppl import conformal
from bayesnn_ppl.data.common.dataset import Split
from bayesnn_ppl.metrics import compare, evaluate
from bayesnn_ppl.metrics.conformal_scores import scores_by_level
from tests.conformal.stand_ins import CENTRE, SCALE, numbers
from tests.metrics.linear_draws import exact_posterior

CALIBRATING, SCORED = 199, 400


def within_chance(coverage, level):
    """Whether a coverage is one of continuous exchangeable rows: a beta-binomial count."""
    rank = np.ceil(round((CALIBRATING + 1) * level, 9))
    count = stats.betabinom(SCORED, rank, CALIBRATING + 1 - rank)
    low, high = count.ppf([1e-5, 1 - 1e-5])
    return low <= round(coverage * SCORED) <= high


@pytest.fixture(scope="module")
def case():
    """A posterior that believes a quarter of the noise, one of the prior, and new rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20 + CALIBRATING + SCORED, 2)).astype(np.float32)
    y = (2 * x.sum(axis=1) + 2 * rng.normal(size=len(x))).astype(np.float32)
    train, calibration, test = np.split(np.arange(len(x)), [20, 20 + CALIBRATING])
    posteriors = {
        "sure": exact_posterior(x[train], y[train], shape=(1, 50)),
        "prior": exact_posterior(x[train], y[train], likelihood=1e6, shape=(1, 50)),
    }
    return posteriors, (x[calibration], y[calibration]), (x[test], y[test])


@pytest.fixture(scope="module")
def found(case):
    posteriors, calibration, test = case
    return evaluate(posteriors["sure"], *test, calibration=calibration)


def test_intervals_of_a_posterior_that_is_too_sure(case, found):
    """Its own hold less than they say, which is what would be seen were calibration ignored."""
    for level in (0.5, 0.9, 0.95):
        name = f"{100 * level:g}"
        assert within_chance(found[f"conformal_coverage_{name}"], level)
        assert not within_chance(found[f"coverage_{name}"], level)
        assert found[f"conformal_width_{name}"] > 2 * found[f"width_{name}"]
    posteriors, calibration, (x, y) = case
    ends = conformal.split(posteriors["sure"], *calibration).interval(x, 0.9)
    assert found["conformal_width_90"] == pytest.approx(np.ptp(ends, axis=1).mean())
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert found["conformal_coverage_90"] == pytest.approx(inside.mean())


def test_the_other_scores_are_as_without_calibration(case, found):
    posteriors, _, test = case
    alone = evaluate(posteriors["sure"], *test)
    assert dict(alone) == {name: found[name] for name in alone}
    assert [name.rpartition("_")[0] for name in list(found)[len(alone) :]] == [
        "conformal_coverage",
        "conformal_width",
    ] * 3
    lines = str(found).splitlines()
    assert "mean width of the conformal 95 % interval" in lines[-1]
    assert max(map(len, lines)) <= 88


def test_a_part_of_a_data_set_and_what_is_calibrated_already(case, found):
    posteriors, calibration, test = case
    posterior = posteriors["sure"]
    again = evaluate(posterior, *test, calibration=Split(*calibration), intervals=[0.9])
    assert again["conformal_width_90"] == found["conformal_width_90"]
    # Residuals have one width, and that of `cross` is of its own posteriors.
    calibrated = conformal.split(posterior, *calibration, score=conformal.Residual())
    residual = evaluate(posterior, *test, calibration=calibrated, intervals=[0.9])
    width = np.ptp(calibrated.interval(test[0][:1], 0.9))
    assert residual["conformal_width_90"] == pytest.approx(width) != again["conformal_width_90"]
    folds = conformal.cross(lambda x, y, seed: exact_posterior(x, y, shape=(1, 50)), *calibration)
    crossed = evaluate(posterior, *test, calibration=folds, intervals=[0.9])
    ends = folds.interval(test[0], 0.9)
    assert crossed["conformal_width_90"] == pytest.approx(np.ptp(ends, axis=1).mean())
    assert abs(crossed["conformal_coverage_90"] - 0.9) < 0.08


def test_each_posterior_of_a_comparison_is_calibrated(case):
    posteriors, calibration, test = case
    three = compare(posteriors, *test, calibration=calibration, diagnose=False)
    for name, posterior in posteriors.items():
        alone = evaluate(posterior, *test, calibration=calibration, intervals=[0.9])
        for column in ("conformal_width_90", "conformal_coverage_90"):
            assert three.lines[name][column] == alone[column]
        assert within_chance(three.lines[name]["conformal_coverage_90"], 0.9)
    widths = [three.lines[name]["conformal_width_90"] for name in ("sure", "prior")]
    assert widths[0] < widths[1], "equal coverage, and the prior knows less"
    header = str(three).splitlines()[2]
    assert "coverage  90 % width" in header and len(header) <= 100
    without = compare(posteriors, *test, diagnose=False)
    assert "conformal_width_90" not in without.lines["sure"]


def classifier(sharpness):
    """Labels of three classes whose logits are wrong by a factor."""

    def predict(x):
        p = np.exp(sharpness * x)
        p /= p.sum(axis=1, keepdims=True)
        return SimpleNamespace(
            task="classification",
            probabilities=p,
            entropy=np.zeros(len(p)),
            mutual_information=np.zeros(len(p)),
        )

    return SimpleNamespace(predict=predict)


def test_sets_of_a_classifier_that_is_too_sure():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(CALIBRATING + SCORED, 3))
    y = np.argmax(x + rng.gumbel(size=x.shape), axis=1)  # of sharpness 1
    calibration, test = (x[:CALIBRATING], y[:CALIBRATING]), (x[CALIBRATING:], y[CALIBRATING:])
    score = conformal.AdaptiveSets(seed=0)  # exact levels
    calibrated = conformal.split(classifier(4.0), *calibration, score=score)
    found = evaluate(classifier(4.0), *test, calibration=calibrated)
    for level in (0.5, 0.9, 0.95):
        assert within_chance(found[f"set_coverage_{100 * level:g}"], level)
        sets = calibrated.sets(test[0], level)
        assert found[f"set_size_{100 * level:g}"] == sets.sum(axis=1).mean() < 3
    lines = compare(
        {"sure": classifier(4.0), "right": classifier(1.0), "opposite": classifier(-1.0)},
        *test,
        calibration=calibration,
    ).lines
    plain = conformal.split(classifier(4.0), *calibration).sets(test[0], 0.9)
    assert lines["sure"]["set_size_90"] == plain.sum(axis=1).mean()
    assert lines["sure"]["set_coverage_90"] == plain[np.arange(SCORED), test[1]].mean()
    assert lines["right"]["set_size_90"] < lines["opposite"]["set_size_90"]


def test_several_outputs_and_counts():
    """Means over elements, each calibrated alone; equal scores of counts make sets too wide."""
    rng = np.random.default_rng(2)
    two = numbers(lambda x: np.zeros((len(x), 2)), lambda x: 1.0)
    x, y = np.zeros((CALIBRATING + SCORED, 1)), rng.normal(size=(CALIBRATING + SCORED, 2))
    y[:, 1] *= 10
    calibrated = conformal.split(two, x[:CALIBRATING], y[:CALIBRATING])
    rows = x[CALIBRATING:], y[CALIBRATING:]
    found = scores_by_level(calibrated, two, two.predict(rows[0]), *rows, [0.9])
    ends = calibrated.interval(rows[0], 0.9)
    target = CENTRE + SCALE * rows[1]
    inside = (ends[..., 0] <= target) & (target <= ends[..., 1])
    assert found["conformal_coverage_90"] == inside.mean() and abs(inside.mean() - 0.9) < 0.06
    assert found["conformal_width_90"] == pytest.approx(np.ptp(ends, axis=-1).mean())

    def predict(x):
        return SimpleNamespace(
            task="regression",
            mean=np.full(len(x), 1.0),
            quantile=lambda q: np.full(len(x), stats.poisson.ppf(q, 1.0)),
            y=np.asarray,
        )

    counting, y = SimpleNamespace(predict=predict), rng.poisson(6.0, size=CALIBRATING + SCORED)
    calibrated = conformal.split(counting, x[:CALIBRATING], y[:CALIBRATING])
    found = scores_by_level(calibrated, counting, predict(rows[0]), rows[0], y[CALIBRATING:], [0.5])
    assert found["conformal_coverage_50"] > 0.45


class TestRefusals:
    """Before anything is predicted."""

    @pytest.mark.parametrize(
        ("given", "error", "words"),
        [
            ({"calibration": 0.9}, TypeError, r"float, but must be rows `\(x, y\)`"),
            ({"calibration": (None, None)}, ValueError, "has none and none"),
            ({"calibration": "short"}, ValueError, "has 199 and 198"),
            ({"calibration": "few"}, ValueError, r"has 18 rows, but level 0\.95 needs 19"),
            ({"calibration": "test"}, ValueError, "199 of the 199 .* among the 400 that are"),
            ({"calibration": "more"}, ValueError, "400 of the 599 .* among the 400 that are"),
            ({"calibration": "rows", "intervals": ()}, ValueError, r"give `intervals=\(0.9,\)`"),
            ({"calibration": "rows", "intervals": [9]}, ValueError, r"write 0\.95"),
        ],
    )
    def test_what_is_given(self, case, given, error, words):
        _, (x, y), test = case
        rows = {
            "rows": (x, y),
            "short": (x, y[1:]),
            "few": (x[:18], y[:18]),
            "test": (test[0][:199], test[1][:199]),
            "more": tuple(map(np.concatenate, zip((x, y), test, strict=True))),
        }
        calibration = given["calibration"]
        given = given | {"calibration": rows.get(calibration, calibration)}
        with pytest.raises(error, match=words):
            evaluate(SimpleNamespace(predict=pytest.fail), *test, **given)

    def test_rows_in_common_that_are_few(self, case):
        """Half of them may be: rows of few discrete features repeat by chance."""
        posteriors, (x, y), test = case
        mixed = (np.concatenate([x[:20], test[0][:20]]), np.concatenate([y[:20], test[1][:20]]))
        found = evaluate(posteriors["sure"], *test, calibration=mixed, intervals=[0.9])
        assert 0.7 < found["conformal_coverage_90"] <= 1

    def test_training_rows(self, case):
        posteriors, (x, y), test = case
        posterior = SimpleNamespace(predict=pytest.fail, data=(x, y))
        with pytest.raises(ValueError, match="199 calibration rows trained the posterior"):
            evaluate(posterior, *test, calibration=(x, y))
        with pytest.raises(ValueError, match="199 calibration rows trained the posterior"):
            compare({"a": posteriors["sure"], "b": posterior}, *test, calibration=(x, y))

    def test_comparisons(self, case):
        posteriors, calibration, test = case
        calibrated = conformal.split(posteriors["sure"], *calibration)
        with pytest.raises(TypeError, match="Calibrated, but must be rows"):
            compare(posteriors, *test, calibration=calibrated)
        few = tuple(part[:8] for part in calibration)
        with pytest.raises(ValueError, match=r"has 8 rows, but level 0\.9 needs 9"):
            compare(posteriors, *test, calibration=few)

    def test_what_a_run_kept_is_not_enough(self, case):
        _, calibration, test = case
        kept = SimpleNamespace(predict=pytest.fail, probe=test)
        with pytest.raises(ValueError, match="is not enough: give `x` and `y`, and the model"):
            evaluate(kept, calibration=calibration)
        with pytest.raises(ValueError, match="is not enough: give `x` and `y`, and the model"):
            compare({"a": kept, "b": kept}, calibration=calibration)

    def test_bounds(self):
        normal = numbers(lambda x: np.zeros(len(x)), lambda x: 1.0)
        x, y = np.zeros((20, 1)), np.arange(20.0)
        prediction = SimpleNamespace(**vars(normal.predict(x)), exact=lambda y: y > 1)
        with pytest.raises(ValueError, match="2 targets of the scored rows are censored or masked"):
            scores_by_level(conformal.split(normal, x, y), normal, prediction, x, y, [0.9])
