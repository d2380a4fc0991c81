import jax.numpy as jnp
import numpy as np
import pytest

from bayesnn_ppl.data import from_arrays, uci_split_indices

X = np.random.default_rng(0).normal(5.0, 2.0, (40, 3))
Y = X @ [1.0, -2.0, 0.5] + 100
LABELS = np.arange(40) % 3


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


def test_regression_is_split_and_standardised():
    dataset = from_arrays(X, Y, split=2, test_fraction=0.25, name="mine", feature_names=list("abc"))
    train, test = (rows[2] for rows in uci_split_indices(40, 3, test_fraction=0.25))
    assert len(train) == 30 and dataset.name == "mine" and dataset.feature_names == ("a", "b", "c")
    np.testing.assert_allclose(
        dataset.train.x, (X - X[train].mean(0))[train] / X[train].std(0), 1e-4
    )
    np.testing.assert_allclose(dataset.standardisation.undo_y(dataset.test.y), Y[test], rtol=1e-6)
    assert dataset.sha256 == from_arrays(X, Y, standardise=False).sha256
    assert dataset.sha256 != from_arrays(X, changed(Y, 0, 0.0)).sha256


@pytest.mark.parametrize(
    ("y", "task", "classes"),
    [
        (LABELS, "classification", 3),
        (LABELS.astype(float), "classification", 3),
        (LABELS == 0, None, 2),
        (LABELS % 2, None, 2),
        (LABELS % 2 + 0.0, None, None),
        (LABELS, "regression", None),
        (LABELS == 0, "regression", None),
    ],
)
def test_the_task_follows_the_type_of_y(y, task, classes):
    dataset = from_arrays(X, y, task=task, standardise=False)
    assert dataset.classes == classes
    test = uci_split_indices(40, 1)[1][0]
    np.testing.assert_array_equal(dataset.test.y, np.asarray(y)[test])
    assert dataset.test.y.dtype == (np.float32 if classes is None else np.int32)


def test_other_kinds_of_arrays():
    assert from_arrays(jnp.asarray(X), Y.tolist()).train.x.shape == (36, 3)
    several = from_arrays(X, np.stack([Y, -Y], axis=1))
    assert several.train.y.shape == (36, 2) and several.standardisation.y_scale.shape == (2,)
    images = from_arrays(
        np.random.default_rng(0).random((40, 4, 4, 2)), LABELS, task="classification"
    )
    assert images.train.x.shape == (36, 4, 4, 2) and images.feature_names == ("x0", "x1")


def test_the_caller_may_keep_changing_the_arrays():
    x, y = X.astype(np.float32), Y.astype(np.float32)
    dataset = from_arrays(x, y, standardise=False)
    before = dataset.train.x.copy()
    x[:] = 0
    np.testing.assert_array_equal(dataset.train.x, before)


REFUSED = {
    "NaN": (changed(X, (7, 1), np.nan), Y, {}, r"`x1` \(1 of 40 rows, first at row 7\)"),
    "infinite target": (X, changed(Y, 5, np.inf), {}, "`y` is NaN.* first at row 5"),
    "rows": (X, Y[:-1], {}, r"`x` has 40 rows .*but `y` has 39"),
    "flat x": (Y, Y, {}, r"`x` has shape \(40,\).*`x\[:, None\]`"),
    "no features": (X[:, :0], Y, {}, "at least one feature"),
    "column y": (X, Y[:, None], {}, r"`y` has shape \(40, 1\).*`y\[:, 0\]`"),
    "one-hot y": (X, np.eye(3)[LABELS], {"task": "classification"}, r"argmax\(axis=1\)"),
    "scalar y": (X, 3.0, {}, r"`y` has shape \(\)"),
    "objects": (X.astype(object), Y, {}, "`x` has dtype object"),
    "text": (X, np.array(["a", "b"] * 20), {"task": "regression"}, "`y` holds the text 'a' at row"),
    "no targets": (X, None, {}, "`y` is missing"),
    "ragged": ([[1.0], [1.0, 2.0]], Y[:2], {}, "not a rectangular array"),
    "complex": (X + 1j, Y, {}, "`x` has dtype complex128"),
    "gaps": (X, LABELS * 2, {"task": "classification"}, "1, 3 never occur.*numpy.unique"),
    "from one": (X, LABELS + 1, {"task": "classification"}, "labels from 1 to 3; 0 never"),
    "negative": (X, LABELS - 1, {"task": "classification"}, "labels from -1 to 1"),
    "fractions": (X, LABELS + 0.5, {"task": "classification"}, "holds 0.5 at row 0"),
    "NaN label": (X, changed(LABELS + 0.0, 2, np.nan), {"task": "classification"}, "nan at row 2"),
    "ambiguous": (X, LABELS, {}, "may be labels or counts"),
    "constant feature": (changed(X, np.s_[:, 1], 4.0), Y, {}, "constant in 1 of 3 .*: `x1`. A"),
    "constant target": (X, np.ones(40), {}, "`y` is constant"),
    "few rows": (X[:9], Y[:9], {}, "has 9 rows of data, but at least 10"),
    "no rows": (X[:0], Y[:0], {}, "has 0 rows of data"),
    "single class": (X, LABELS * 0, {"task": "classification"}, "single class, `0`"),
    "rare class": (X, changed(LABELS % 2, 4, 2), {"task": "classification"}, "two rows: `2`"),
    "names": (X, Y, {"feature_names": ["a", "b"]}, "has 2 names, but `x` has 3 features"),
    "same names": (X, Y, {"feature_names": ["a", "b", "a"]}, "`feature_names` repeats `a`"),
    "task": (X, Y, {"task": "ranking"}, "`task` must be"),
    "split": (X, Y, {"split": -1}, "`split` must be an integer from 0 to 19"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arrays_are_refused(case):
    x, y, options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        from_arrays(x, y, **options)
