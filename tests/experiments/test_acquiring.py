"""Active learning on a threshold: the mutual information halves the interval at every label."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayesnn_ppl.experiments import acquire
from bayesnn_ppl.metrics import mutual_information

X = np.linspace(0, 1, 401)[:, None]
Y = (X[:, 0] > 0.637).astype(np.int32)
ROUNDS = {"start": 2, "batch": 1, "rounds": 12}


class Interval:
    """The exact posterior of a threshold with a uniform prior: uniform between the labels."""

    def __init__(self, x, y, order=None):
        self.low = x[y == 0].max(initial=0.0)
        self.high = x[y == 1].min(initial=1.0)
        self.order = order  # of the rows of a prediction: the control

    def predict(self, x):
        thresholds = np.linspace(self.low, self.high, 66)[1:-1]
        one = (x[:, 0] > thresholds[:, None]).astype(float)
        p = np.stack([1 - one, one], axis=-1)
        if self.order is not None:
            p = p[:, self.order.permutation(len(x))]
        return SimpleNamespace(
            task="classification", mean=p.mean(axis=0), mutual_information=mutual_information(p)
        )


def widths(rule, seed, *, permuted=False, **settings):
    order = np.random.default_rng(seed + 100) if permuted else None
    rounds = acquire(
        lambda x, y, _: Interval(x, y, order),
        lambda posterior: {"width": posterior.high - posterior.low},
        X,
        Y,
        rule=rule,
        seed=seed,
        **(ROUNDS | settings),
    )
    return rounds, rounds[-1]["scores"]["width"]


def test_it_bisects_where_chance_does_not_and_a_permuted_score_is_chance():
    seeds = range(20)
    informed = [widths("mutual_information", s)[1] for s in seeds]
    chance = [widths("random", s)[1] for s in seeds]
    permuted = [widths("mutual_information", s, permuted=True)[1] for s in seeds]
    # Eleven halvings of 1 are less than the distance of two rows, 1/400.
    assert max(informed) < 0.006
    assert np.mean(chance) > 0.05 and np.mean(permuted) > 0.05
    assert 0.4 < np.mean(permuted) / np.mean(chance) < 2.5


def test_rounds_and_rows():
    rounds, _ = widths("mutual_information", 3, batch=4, rounds=3)
    assert [len(one["labelled"]) for one in rounds] == [2, 6, 10]
    labelled = rounds[-1]["labelled"]
    assert len(set(labelled)) == 10 and labelled[:6] == rounds[1]["labelled"]
    # Rules begin alike, so that they can be compared seed by seed.
    assert widths("random", 3)[0][0]["labelled"] == rounds[0]["labelled"]
    few, _ = widths("mutual_information", 3, batch=4, rounds=3, candidates=8)
    assert len(set(few[-1]["labelled"])) == 10 and few[-1]["labelled"] != labelled


def test_the_first_rows_have_every_label():
    x, y = np.zeros((100, 1)), np.array([0] * 90 + [1] * 9 + [2])

    def first(targets):
        train, score = (lambda *_: None), (lambda _: {})
        settings = {"rule": "random", "start": 7, "batch": 1, "rounds": 1}
        (one,) = acquire(train, score, x, targets, **settings)
        return targets[one["labelled"]].tolist()

    assert sorted(first(y)) == [0, 0, 0, 1, 1, 1, 2]
    assert first(y.astype(float)).count(0) >= 5  # numbers are drawn as they come


@pytest.mark.parametrize("rule", ["mutual_information", "random"])
def test_it_resumes_where_it_was_ended(rule):
    whole, _ = widths(rule, 5)
    told = []
    rest, _ = widths(rule, 5, before=whole[:4], after=lambda done: told.append(len(done)))
    assert rest == whole and told == list(range(5, 13))

    def never(*_):
        raise AssertionError("All rounds were made.")

    assert acquire(never, never, X, Y, rule=rule, seed=5, before=whole, **ROUNDS) == whole


def test_a_pool_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="label 402 rows, and the pool has 401"):
        widths("random", 0, start=2, batch=100, rounds=5)
