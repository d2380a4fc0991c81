"""Unbalanced classes: scores other than accuracy."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, precision_recall_fscore_support

from bayesnn_ppl.metrics import balanced_accuracy, compare, evaluate, scores_by_class

ZERO = np.zeros(200)


def posterior(p):
    prediction = SimpleNamespace(
        task="classification", probabilities=p, entropy=ZERO, mutual_information=ZERO
    )
    return SimpleNamespace(predict=lambda x: prediction)


def case(classes, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), size=200)
    return p, np.array([rng.choice(classes, p=row) for row in p])


def test_one_that_finds_no_rare_case_is_seen_beside_its_accuracy():
    y = np.arange(200) % 20 == 0
    always = posterior(np.tile([0.9, 0.1], (200, 1)))
    found = evaluate(always, np.zeros((200, 1)), y.astype(int), class_names=("well", "ill"))
    assert found["accuracy"] == found["base_rate"] == 0.95
    assert found["balanced_accuracy"] == 0.5
    well, ill = found.by_class
    assert well == ("well", 190, 1.0, 0.95) and ill == ("ill", 10, 0.0, None)
    lines = str(found).splitlines()
    assert lines[-1].split() == ["ill", "0.0000", "-", "10"] and lines[-2].split()[0] == "well"
    assert json.loads(found.to_json())["by_class"][1] == ill._asdict()


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_as_scikit_learn_has_them(classes):
    p, y = case(classes)
    precision, recall, _, rows = precision_recall_fscore_support(y, p.argmax(-1))
    found = scores_by_class(p, y)
    assert [one.rows for one in found] == rows.tolist()
    np.testing.assert_allclose([one.recall for one in found], recall)
    np.testing.assert_allclose([one.precision for one in found], precision)
    assert balanced_accuracy(p, y) == pytest.approx(balanced_accuracy_score(y, p.argmax(-1)))


def test_many_classes_take_one_line():
    p, y = case(12)
    y[y == 3] = 4
    few, many = (evaluate(posterior(q), ZERO, z) for q, z in (case(6), (p, y)))
    assert len(str(few).splitlines()) - len(few) == 1 + 1 + 6
    assert len(str(many).splitlines()) - len(many) == 1 + 1
    last = str(many).splitlines()[-1]
    recalls = {one.name: one.recall for one in many.by_class if one.recall is not None}
    low, high = min(recalls, key=recalls.get), max(recalls, key=recalls.get)
    assert f"of the 11 classes that occur: {recalls[low]:.4f} ({low})" in last
    assert f"to {recalls[high]:.4f} ({high}), median {np.median([*recalls.values()]):.4f}" in last


def test_an_absent_class_does_not_count():
    p = np.eye(3)[[0, 0, 2, 1]]
    assert balanced_accuracy(p, [0, 0, 1, 1]) == (1 + 0.5) / 2
    assert scores_by_class(p, [0, 0, 1, 1])[2] == ("2", 0, None, 0.0)


def test_what_cannot_be_scored():
    p, y = case(2)
    assert np.isnan(balanced_accuracy(np.where(p > 0.99, np.nan, p), y))
    assert [one.name for one in scores_by_class(p, y, ["a"])] == ["a", "1"]
    with pytest.raises(ValueError, match="3 names, but the predictions are of 2 classes"):
        evaluate(posterior(p), ZERO, y, class_names=["a", "b", "c"])


def test_a_comparison_has_it_too():
    p, y = case(3)
    table = compare({"a": posterior(p), "b": posterior(p)}, ZERO, y, diagnose=False)
    assert table.lines["a"]["balanced_accuracy"] == balanced_accuracy(p, y)
    assert "balanced" in str(table)
