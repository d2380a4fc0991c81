"""Ranks, critical differences and detectable differences of the table benchmark."""

import numpy as np
import pytest

from benchmarks.pages import table_ranks
from benchmarks.pages.table_ranks import detectable, ranks, scores
from benchmarks.practice.table_sets import MIXED, UCI


def rows(values):
    """Records of set -> contender -> scores of the splits."""
    return {
        "rows": [
            {"data": data, "contender": contender, "split": split, "nll": nll}
            for data, of_set in values.items()
            for contender, splits in of_set.items()
            for split, nll in enumerate(splits)
        ]
    }


def test_ranks_and_the_critical_difference_of_demsar(monkeypatch):
    """For five contenders on ten sets it is 2.728 √(5 · 6 / (6 · 10)) = 1.93."""
    order = ("network", "mile", "ChEES", "bde", "CatBoost")
    monkeypatch.setattr(table_ranks, "ORDER", order)
    names = [*UCI, *MIXED][:10]
    values = {name: {c: [float(i), float(i)] for i, c in enumerate(order)} for name in names}
    values[names[0]]["network"] = [9.0, 9.0]  # the first becomes the last on one set
    each, critical = ranks(scores(rows(values), "nll"))
    assert critical == pytest.approx(1.93, abs=0.01)
    assert each["network"] == [5.0] + [1.0] * 9 and each["CatBoost"] == [4.0] + [5.0] * 9
    del values[names[1]]["bde"]  # a set without one of them has no ranks
    assert len(ranks(scores(rows(values), "nll"))[0]["mile"]) == 9


def test_splits_are_those_that_all_have_and_labels_have_no_noise():
    made = rows({"yacht": {"mile": [1.0, 2.0, 3.0], "bde": [4.0, 5.0]}})
    assert scores(made, "nll") == {"yacht": {"mile": [1.0, 2.0], "bde": [4.0, 5.0]}}
    labels = rows({"titanic": {"mile": [1.0]}})
    labels["rows"][0]["accuracy"] = 0.5
    assert scores(labels, "nll")["titanic"] == {"mile": [1.0], "mile, noise by input": [1.0]}


def test_a_detectable_difference_is_found_as_often_as_it_says():
    """Normal differences of ten independent splits; overlap costs the factor √(1/n + 1/9)."""
    n, generator = 10, np.random.default_rng(0)
    one = {"a": [0.0] * n, "b": [0.0, 2.0] * (n // 2)}  # differences of standard deviation s
    s = np.std(one["b"], ddof=1)
    difference = detectable(one) / np.sqrt(1 / n + 1 / 9) / np.sqrt(n)
    from scipy.stats import ttest_1samp

    draws = generator.normal(difference, s, (4000, n))
    found = np.mean(ttest_1samp(draws, 0, axis=1).pvalue < 0.05)
    assert abs(found - 0.8) < 0.04  # the sum of two quantiles is a little too large
