"""Frames of pandas and Polars as data: their names, their types, and the column that is wrong."""

import numpy as np
import pandas as pd
import pytest

from bayesnn_ppl.data import from_arrays

ROWS = 30
ONE_WORD = ["old", *"1" * 29]
NAMES = [f"Mr {i}" for i in range(30)]
RNG = np.random.default_rng(0)
COLUMNS = {
    "age": RNG.integers(20, 80, ROWS),
    "dose": RNG.normal(size=ROWS),
    "smokes": RNG.random(ROWS) < 0.5,
}
NUMBERS = 3 * COLUMNS["dose"] + RNG.normal(size=ROWS)
WORDS = np.array(["well", "ill", "well"] * 10)


def polars_frame(columns):
    polars = pytest.importorskip("polars")
    return polars.DataFrame({name: list(values) for name, values in columns.items()})


@pytest.fixture(params=[pd.DataFrame, polars_frame], ids=["pandas", "polars"])
def frame(request):
    return request.param


def test_columns_keep_their_names_and_values(frame):
    data = from_arrays(frame({**COLUMNS, "price": NUMBERS}), "price", standardise=False)
    assert data.feature_names == tuple(COLUMNS) and data.target_name == "price"
    assert data.task == "regression" and "features" in repr(data)
    plain = from_arrays(np.stack(list(COLUMNS.values()), axis=1), NUMBERS, standardise=False)
    np.testing.assert_array_equal(data.train.x, plain.train.x)
    np.testing.assert_array_equal(data.test.y, plain.test.y)
    assert data.sha256 == plain.sha256


def test_targets_of_words_are_classes_with_names(frame):
    data = from_arrays(frame({**COLUMNS, "state": WORDS}), "state")
    assert data.class_names == ("ill", "well") and data.target_name == "state"
    labels = np.concatenate([data.train.y, data.test.y])
    assert np.bincount(labels).tolist() == [10, 20]
    apart = from_arrays(frame(COLUMNS), WORDS)
    np.testing.assert_array_equal(apart.train.y, data.train.y)
    assert apart.feature_names == tuple(COLUMNS)


@pytest.mark.parametrize("words", [WORDS, WORDS.tolist(), pd.Series(WORDS, dtype="category")])
def test_words_beside_an_array(words):
    x = np.stack(list(COLUMNS.values()), axis=1)
    data = from_arrays(x, words)
    assert data.class_names == ("ill", "well") and data.task == "classification"


def test_the_types_that_pandas_has(frame):
    x = pd.DataFrame(COLUMNS).astype({"smokes": "boolean", "dose": "Float64", "age": "Int64"})
    np.testing.assert_array_equal(
        from_arrays(x, NUMBERS).train.x, from_arrays(frame(COLUMNS), NUMBERS).train.x
    )
    named = pd.DataFrame({"price": NUMBERS})
    assert from_arrays(x, named).target_name == "price", "a frame of one column is that column"


def changed(name, values):
    return {**COLUMNS, name: values}


GAPS = np.where(np.arange(ROWS) == 4, np.nan, COLUMNS["dose"])
REFUSED = {
    "a word": (
        changed("dose", ["old", *"1" * 29]),
        NUMBERS,
        "1 of 3 columns.*`dose` .'old' at row 0",
    ),
    "names": (
        changed("who", [f"Mr {i}" for i in range(ROWS)]),
        NUMBERS,
        "`who` .27 different ones",
    ),
    "infinite": (changed("dose", np.where(GAPS > 1, np.inf, GAPS)), NUMBERS, "`dose`"),
    "a constant": (changed("dose", np.ones(ROWS)), NUMBERS, "`dose`"),
    "no such target": (COLUMNS, "smoke", "no column `smoke`.*Did you mean `smokes`"),
    "no target": (COLUMNS, None, "name the column to predict with `y`.*`age`, `dose`, `smokes`"),
    "a gap in a target": (changed("price", GAPS), "price", "`price`.*row 4"),
    "too few targets": (COLUMNS, NUMBERS[:-1], "`x` has 30 rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_named(frame, case):
    columns, y, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        from_arrays(frame(columns), y)


def test_rows_of_frames_that_do_not_go_together():
    x, y = pd.DataFrame(COLUMNS), pd.Series(NUMBERS)
    with pytest.raises(ValueError, match=r"another index than the frame `x`.*y\.loc\[x\.index\]"):
        from_arrays(x, y.sample(frac=1, random_state=0))
    kept = x[x["age"] > 30]
    assert len(from_arrays(kept, y.loc[kept.index]).train.x) < ROWS


def test_two_columns_of_one_name():
    twice = pd.DataFrame(np.stack(list(COLUMNS.values()), axis=1), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="several columns of one name: `a`"):
        from_arrays(twice, NUMBERS)
