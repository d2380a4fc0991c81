"""Risk-coverage curves: small cases by hand, their limits, and what posteriors refer."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from bayesnn_ppl.metrics import compare, evaluate, evaluate_referral, risk_coverage


def test_by_hand():
    curve = risk_coverage([0.3, 0.1, 0.4, 0.2], [1.0, 0.0, 0.0, 2.0])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk.tolist() == [0.0, 1.0, 1.0, 0.75]
    assert curve.oracle.tolist() == [0.0, 0.0, 1 / 3, 0.75]
    assert curve.aurc == pytest.approx(2.75 / 4)
    assert curve.excess_aurc == pytest.approx((2.75 - 1 / 3 - 0.75) / 4)
    assert curve.refer(0.5) == (0.2, 0.5, 1.0)
    assert curve.refer(0.74) == (0.2, 0.5, 1.0), "no more are referred than were asked for"
    assert curve.refer(0) == (0.4, 0.0, 0.75)


def test_equal_uncertainties_have_the_mean_of_all_their_orders():
    """A stable sort would score the order in which the rows happen to lie."""
    loss = np.array([3.0, 1.0, 0.0, 5.0])
    u = np.array([1.0, 1.0, 1.0, 0.5])
    orders = [risk_coverage([0.5, 1, 1.1, 1.2], [5, *p]).risk for p in permutations(loss[:3])]
    curve = risk_coverage(u, loss)
    assert curve.risk == pytest.approx(np.mean(orders, axis=0))
    # A threshold cannot part them either.
    assert curve.refer(0.5) == (1.0, 0.0, pytest.approx(2.25))
    assert curve.refer(0.75) == (0.5, 0.75, 5.0)


def test_order_alone_counts_and_bounds_hold():
    rng = np.random.default_rng(0)
    u, loss = rng.normal(size=400), rng.exponential(size=400)
    aurc = risk_coverage(u, loss).aurc
    assert risk_coverage(np.exp(3 * u), loss).aurc == pytest.approx(aurc)
    best, worst = risk_coverage(loss, loss), risk_coverage(-loss, loss)
    assert best.excess_aurc == 0 and best.aurc < aurc < worst.aurc
    nothing = risk_coverage(np.zeros(400), loss)
    assert nothing.aurc == pytest.approx(loss.mean()) and nothing.risk == pytest.approx(loss.mean())
    spread = np.mean([risk_coverage(rng.normal(size=400), loss).aurc for _ in range(200)])
    assert spread == pytest.approx(loss.mean(), rel=0.03), "what a random order has, on average"


def test_the_oracle_of_errors_is_that_of_the_paper():
    """Geifman et al. (2019), equation 4: r + (1 - r) log(1 - r) for many rows."""
    n, r = 20_000, 0.2
    error = (np.arange(n) < r * n).astype(float)
    curve = risk_coverage(error, error)
    assert curve.aurc == pytest.approx(r + (1 - r) * np.log(1 - r), abs=1e-4)


def numbers(scale, seed=0):
    """Gaussian predictions whose noise is known, in units of their own."""
    rng = np.random.default_rng(seed)
    sd = np.exp(rng.normal(size=500))
    prediction = SimpleNamespace(
        task="regression",
        mean=np.full(500, 10.0),
        variance=(scale * sd) ** 2,
        epistemic=np.ones(500),
        y=lambda y: 10 + scale * np.asarray(y),
        log_prob=lambda y: stats.norm.logpdf(scale * np.asarray(y), 0, scale * sd),
        samples=lambda n, seed=0: np.random.default_rng(seed).normal(size=(n, 500)),
        quantile=lambda q: 10 + scale * sd * stats.norm.ppf(q),
    )
    return SimpleNamespace(predict=lambda x: prediction), sd * rng.normal(size=500)


def test_a_known_noise_refers_what_is_noisy():
    posterior, y = numbers(1.0)
    x = np.zeros((500, 1))
    curve = evaluate_referral(posterior, x, y)
    assert curve.aurc < np.mean(y**2) / 2 and curve.refer(0.3).risk < np.mean(y**2) / 2
    kept = posterior.predict(x).variance <= curve.refer(0.3).threshold
    assert kept.mean() == pytest.approx(0.7)
    assert curve.refer(0.3).risk == pytest.approx(np.mean(y[kept] ** 2))
    # Negative control: an uncertainty that knows nothing of the noise refers nothing useful.
    blind = evaluate_referral(posterior, x, y, score="epistemic")
    assert blind.aurc == pytest.approx(np.mean(y**2)) and blind.excess_aurc > curve.excess_aurc
    wide, _ = numbers(3.0)
    assert evaluate_referral(wide, x, y).aurc == pytest.approx(9 * curve.aurc), "squared units"
    nll = evaluate_referral(posterior, x, y, risk="nll")
    assert nll.risk[-1] == pytest.approx(
        -stats.norm.logpdf(y, 0, np.sqrt(_variance(posterior))).mean()
    )


def _variance(posterior):
    return posterior.predict(None).variance


def test_rows_of_several_outputs_are_ranked_as_rows_and_masked_elements_do_not_count():
    mean = np.zeros((3, 2))
    exact = np.array([[True, True], [True, False], [False, False]])
    prediction = SimpleNamespace(
        task="regression",
        mean=mean,
        variance=np.array([[3.0, 3.0], [1.0, 2.0], [0.1, 0.1]]),
        y=np.asarray,
        exact=lambda y: exact,
    )
    posterior = SimpleNamespace(predict=lambda x: prediction)
    y = np.array([[1.0, 3.0], [2.0, 99.0], [99.0, 99.0]])
    curve = evaluate_referral(posterior, np.zeros((3, 1)), y)
    assert curve.risk.tolist() == [4.0, 4.5] and curve.uncertainty.tolist() == [1.5, 3.0]


@pytest.fixture(scope="module")
def labels():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), size=300)
    y = np.array([rng.choice(3, p=row) for row in p])
    prediction = SimpleNamespace(
        task="classification",
        probabilities=p,
        entropy=stats.entropy(p, axis=1),
        mutual_information=np.zeros(300),
        epistemic=np.zeros((300, 3)),
    )
    return SimpleNamespace(predict=lambda x: prediction), np.zeros((300, 1)), y


def test_labels_are_referred_by_their_largest_probability(labels):
    posterior, x, y = labels
    p = posterior.predict(x).probabilities
    wrong = (p.argmax(1) != y).astype(float)
    curve = evaluate_referral(*labels)
    order = np.argsort(1 - p.max(1))
    assert curve.risk == pytest.approx(np.cumsum(wrong[order]) / np.arange(1, 301))
    assert curve.aurc < evaluate_referral(*labels, score="mutual_information").aurc
    assert curve.excess_aurc < evaluate_referral(*labels, score="epistemic").excess_aurc
    assert evaluate_referral(*labels, score="entropy").aurc == pytest.approx(curve.aurc, rel=0.2)
    nll = evaluate_referral(*labels, risk="nll")
    assert nll.risk[-1] == pytest.approx(-np.log(p[np.arange(300), y]).mean())


def test_evaluate_and_compare_have_the_same_area(labels):
    posterior, y = numbers(1.0)
    for one, x, targets in ((posterior, np.zeros((500, 1)), y), labels):
        curve, scores = evaluate_referral(one, x, targets), evaluate(one, x, targets)
        assert scores["aurc"] == curve.aurc and scores["excess_aurc"] == curve.excess_aurc
        found = compare({"a": one, "b": one}, x, targets, diagnose=False)
        assert found.lines["a"]["aurc"] == curve.aurc and "AURC" in str(found)


def test_nan_stays_nan():
    for u, loss in (([1.0, np.nan], [0.0, 1.0]), ([1.0, 2.0], [np.nan, 1.0])):
        curve = risk_coverage(u, loss)
        assert np.isnan(curve.aurc) and np.isnan(curve.excess_aurc)
    with pytest.raises(ValueError, match="uncertainties are NaN.*diagnosis"):
        risk_coverage([1.0, np.nan], [0.0, 1.0]).refer(0.1)


def test_refusals(labels):
    posterior, y = numbers(1.0)
    x = np.zeros((500, 1))
    for call, words in (
        (lambda: risk_coverage([[1.0]], [[0.0]]), r"shape \(N,\)"),
        (lambda: risk_coverage([1.0, 2.0], [0.0]), "one number for each row"),
        (lambda: risk_coverage([], []), "empty"),
        (lambda: risk_coverage([1.0], [0.0]).refer(20), r"write 0\.2 for 20 %"),
        (lambda: evaluate_referral(posterior, x, y, score="softmax"), "must be one of 'entropy'"),
        (lambda: evaluate_referral(posterior, x, y, score="entropy"), "no class probabilities"),
        (lambda: evaluate_referral(posterior, x, y, risk="error"), "one of 'squared_error', 'nll'"),
        (lambda: evaluate_referral(*labels, risk="squared_error"), "one of 'error', 'nll'"),
        (lambda: evaluate_referral(posterior, x[1:], y), "every input needs one target"),
        (lambda: evaluate_referral(posterior, x, y[:, None]), "shape it had in training"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
