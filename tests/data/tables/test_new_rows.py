"""Features and targets of a new file, in the units and classes of the training data."""

import numpy as np
import pandas
import pytest

from bayesnn_ppl.data import Labels, StandardisedTarget, load_table, read_split, read_target
from bayesnn_ppl.data.common.frames import NEW_ROWS, features_of


def houses(rows=40):
    generator = np.random.default_rng(0)
    return pandas.DataFrame(
        {
            "age": generator.normal(40, 10, rows).round(2),
            "income": generator.normal(size=rows).round(3),
            "price": generator.normal(300, 50, rows).round(1),
            "kind": np.array(["flat", "house", "01"])[np.arange(rows) % 3],
        }
    )


def fields(dataset):
    names = ("feature_names", "target_name", "class_names", "standardisation")
    return {name: getattr(dataset, name) for name in names}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_training_file_read_again_has_the_numbers_of_the_dataset(tmp_path, ending):
    table = houses().drop(columns="kind")
    path = tmp_path / f"houses.{ending}"
    write = table.to_csv if ending == "csv" else table.to_parquet
    write(path, index=False)
    dataset = load_table(path, target="price")
    x, y = read_split(path, **fields(dataset))
    assert isinstance(y, StandardisedTarget) and y.standardisation == dataset.standardisation
    assert x.dtype == y.dtype == np.float32
    np.testing.assert_allclose(y.standardisation.undo_y(y), table["price"], rtol=1e-6)
    both = np.concatenate([np.column_stack([p.x, p.y]) for p in (dataset.train, dataset.test)])
    again = np.column_stack([x, y])
    np.testing.assert_array_equal(again[np.lexsort(again.T)], both[np.lexsort(both.T)])


def test_columns_are_matched_by_name_and_units_are_those_of_the_training_rows(tmp_path):
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    houses().drop(columns="kind").to_csv(train, index=False)
    dataset = load_table(train, target="price")
    new.write_text("extra;price;income;age\nx;312.5;1;50\ny;100;0;30\n")
    x, y = read_split(new, **fields(dataset))
    expected = dataset.standardisation.apply_x(np.array([[50, 1], [30, 0]]))
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    np.testing.assert_allclose(
        np.asarray(y), dataset.standardisation.apply_y([312.5, 100]), rtol=1e-6
    )
    np.testing.assert_array_equal(read_target(new, "price"), [312.5, 100])


def test_columns_that_new_rows_lack_are_near_misses_or_categories_that_do_not_occur():
    table = pandas.DataFrame(np.eye(3)[[0, 1, 2]], columns=[f"district_{d}" for d in "nsw"])
    table = table.assign(age=1.0)
    names = list(table.columns)
    new = table.drop(columns="district_n")
    with pytest.raises(ValueError, match=r"categories that do not occur.*`new\.re") as caught:
        features_of(new, names, NEW_ROWS)
    assert "Did you mean" not in str(caught.value)
    advice = str(caught.value).partition("zeros: `")[2].partition("`")[0]
    filled = features_of(eval(advice), names, NEW_ROWS)
    np.testing.assert_array_equal(filled, table.assign(district_n=0.0))
    with pytest.raises(ValueError, match=r"Did you mean `District_n`\? Its columns are"):
        features_of(new.assign(District_n=0.0), names, NEW_ROWS)
    with pytest.raises(ValueError, match=r"`age`\. Its columns are"):
        features_of(table.drop(columns="age"), names, NEW_ROWS)


def test_labels_are_those_of_the_training_classes(tmp_path):
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    houses().drop(columns="price").to_csv(train, index=False)
    dataset = load_table(train, target="kind")
    assert dataset.class_names == ("01", "flat", "house")
    # Alone, the class "01" would be read as a number.
    new.write_text("age,income,kind\n1,2, house \n3,4,flat\n")
    assert read_split(new, **fields(dataset)).y.tolist() == [2, 1]
    new.write_text("age,income,kind\n1,2,01\n3,4,01\n")
    x, y = read_split(new, **fields(dataset))
    assert y.tolist() == [0, 0] and isinstance(y, Labels) and y.dtype == np.int32
    new.write_text("c\n1.0\n0\n")
    assert read_target(new, "c", class_names=("0", "1")).tolist() == [1, 0]
    new.write_text("c\nTRUE\nFalse\n")
    assert read_target(new, "c", class_names=("False", "True")).tolist() == [1, 0]
    pandas.DataFrame({"c": [True, False]}).to_parquet(tmp_path / "new.parquet")
    assert read_target(tmp_path / "new.parquet", "c", class_names=("False", "True"))[0] == 1


@pytest.mark.parametrize(
    ("content", "target", "classes", "message"),
    [
        ("a,prise\n1,2\n", "price", None, "no column `price`, .*Did you mean `prise`"),
        ("a,price\n", "price", None, "has a header but no rows"),
        ("a,price\n1,2\n3,\n", "price", None, "`price` .* in 1 of 2 rows, first at row 2"),
        ("a,price\n1,cheap\n", "price", None, "holds the text 'cheap' at row 1"),
        ("a,kind\n1,flat\n2,hous\n", "kind", ("flat", "house"), "class `hous` at row 2.*`house`"),
        ("a,kind\n1,flat\n2,\n", "kind", ("flat", "house"), "`kind` .* first at row 2"),
        ("a,kind\n1,0.5\n", "kind", ("0", "1"), "holds the class `0.5` at row 1"),
        ("a,kind\n1,inf\n", "kind", ("0", "1"), "holds the class `inf` at row 1"),
    ],
)
def test_targets_that_cannot_be_used_are_refused(tmp_path, content, target, classes, message):
    path = tmp_path / "new.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_target(path, target, class_names=classes)
