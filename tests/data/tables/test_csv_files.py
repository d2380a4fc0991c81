import numpy as np
import pandas
import pytest

from bayesnn_ppl.data import load_csv, read_features, uci_split_indices


def table(rows=30, **columns):
    """A regular table as a mapping from column to cells; `columns` replaces or adds some."""
    generator = np.random.default_rng(0)
    cells = {name: generator.normal(size=rows).round(3).tolist() for name in ("age", "income")}
    cells["price"] = generator.normal(10, 2, rows).round(3).tolist()
    return cells | columns


def write(path, cells, delimiter=","):
    lines = [delimiter.join(cells)]
    lines += [delimiter.join(map(str, row)) for row in zip(*cells.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def replaced(name, row, value, rows=30):
    cells = table(rows)
    cells[name][row] = value
    return cells


@pytest.fixture
def path(tmp_path):
    return tmp_path / "houses.csv"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_regression_from_any_delimiter(path, delimiter):
    cells = table()
    dataset = load_csv(write(path, cells, delimiter), target="price", split=1)
    assert dataset.task == "regression" and dataset.feature_names == ("age", "income")
    assert dataset.name == "houses" and dataset.target_name == "price"
    train, test = (rows[1] for rows in uci_split_indices(30, 2))
    x, y = dataset.test
    np.testing.assert_allclose(
        x, dataset.standardisation.apply_x(np.c_[cells["age"], cells["income"]][test]), rtol=1e-5
    )
    np.testing.assert_allclose(
        y.standardisation.undo_y(y), np.array(cells["price"])[test], rtol=1e-5
    )
    assert dataset.standardisation.y_mean == pytest.approx(np.mean(np.array(cells["price"])[train]))
    raw = load_csv(path, target="price", split=1, standardise=False)
    np.testing.assert_allclose(raw.test.y, np.array(cells["price"])[test], rtol=1e-6)
    assert raw.sha256 == dataset.sha256


@pytest.mark.parametrize(
    ("cells", "task", "names"),
    [
        (["red", "blue", "green"] * 10, None, ("blue", "green", "red")),
        (["True", "False"] * 15, None, ("False", "True")),
        ([0, 1] * 15, None, ("0", "1")),
        ([1, 10, 9] * 10, "classification", ("1", "9", "10")),
        (["1.0", "2.0"] * 15, "classification", ("1", "2")),
        (["01", "1", "2"] * 10, "classification", ("01", "1", "2")),
        (["100", "007 ", "20"] * 10, "classification", ("007", "20", "100")),
        (["TRUE", "False"] * 15, "classification", ("False", "True")),
        ([1, 2, 3] * 10, None, None),
        ([0, 1] * 15, "regression", None),
        ([0.5, 1.5] * 15, None, None),
    ],
)
def test_the_task_follows_the_target(path, cells, task, names):
    dataset = load_csv(
        write(path, table(price=cells)), target="price", task=task, standardise=False
    )
    assert dataset.class_names == names
    assert dataset.task == ("regression" if names is None else "classification")
    test = uci_split_indices(30, 1)[1][0]
    expected = [cells[row] for row in test]
    if names is None:
        np.testing.assert_allclose(dataset.test.y, expected)
    else:
        found = [names[label] for label in dataset.test.y]
        written = [str(cell).strip().removesuffix(".0") for cell in expected]
        assert found == [cell.title() if cell.isupper() else cell for cell in written]


def test_what_spreadsheets_write_is_understood(path):
    lines = ['\ufeff"age", "net, income",flag, price ']
    lines += [f'{i},"{i * 2}", {bool(i % 2)},{i % 7}.5' for i in range(20)]
    path.write_text("\r\n".join(lines) + "\r\n\r\n", encoding="utf-8")
    dataset = load_csv(path, target="price", standardise=False)
    assert dataset.feature_names == ("age", "net, income", "flag")
    assert set(np.unique(dataset.train.x[:, 2])) == {0.0, 1.0}


REFUSED = {  # what is refused of a table alone; the rest is in the tests of arrays
    "no target": (table(), {"target": None}, "needs a target.*`age`, `income`, `price`"),
    "unknown target": (table(), {"target": "prise"}, "no column `prise`.*Did you mean `price`"),
    "missing target": (replaced("price", 4, ""), {}, "`price`.* in 1 of 30 rows, first at row 5"),
    "huge feature": (replaced("age", 2, "1e300"), {}, r"`age` \(1 .*row 3.*"),
    "text feature": (replaced("age", 9, "old"), {}, r"`age` \('old' at row 10\).*Correct"),
    "absent drop": (table(), {"drop": ["agee"]}, "no column `agee` to drop. Did you mean `age`"),
    "dropped target": (table(), {"drop": "price"}, "`price` is the target"),
    "few rows": (table(rows=9), {}, "has 9 rows of data, but at least 10"),
    "one bad cell": (replaced("price", 3, "n.n."), {}, "the text 'n.n.' at row 4"),
    "number classes": (table(), {"task": "classification"}, "at row 1.*is not a class label"),
    "fraction": (table(), {"test_fraction": 1.0}, "`test_fraction` must be 0 or more and below 1"),
    "single column": ({"price": range(20)}, {}, "the single column `price`"),
    "row number": (table() | {" ": range(30)}, {}, "Column 4 of the file .* has no name"),
    "no header": ({"1.5": [1, 2], "2": [3, 4]}, {}, "must be a header"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_tables_are_refused(path, case):
    cells, options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as error:
        load_csv(write(path, cells), **{"target": "price"} | options)
    assert case in ("fraction", "dropped target") or str(path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n  \n", "is empty"),
        (b"a,b,a\n1,2,3\n", "several columns of one name: `a`"),
        (b"a,price\n" + b"1,2\n" * 5 + b"1,2,3\n" + b"1,2\n" * 9, "not a regular table"),
        (b"a,price\n" + b"1,2,9\n" * 20, "not a regular table"),
        (b"a,b,price\n" + b"1,2,3\n" * 12 + b"1,2,\n", "`price`.* in 1 of 13 rows.*row 13"),
        (b"price,a,b\n" + (b"1,2,3\n" * 9 + b"1,2\n") * 3, "line 11 has 2 of 3 cells.*empty cell"),
        (b'\nprice;a\n\n"1";2\n \n"x\ny";2\r\n1\n' + b"1;2\n" * 9, "line 8 has 1 of 2 cells"),
        (b"a,price\n\xff\xfe,1\n", "not UTF-8"),
        (b"a;price\n" + b"1,5;2\n2,5;3\n" * 6, "`a` .*comma, such as '1,5'.*decimals with a point"),
    ],
)
def test_malformed_files_are_refused(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_csv(path, target="price")


@pytest.mark.parametrize("column", ["size", "price"])
@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["950", "1,000", "1,037"], "such as '1,000'.*thousands separators.*thousands=\",\""),
        (["950.5", "-1,234,567", "1,000.25"], "such as '-1,234,567'.*thousands=\",\""),
        (["1,000", "1,5"], 'a decimal comma, such as \'1,000\'.*sep=";", decimal=","'),
        (["0,125", "12,500"], "a decimal comma, such as '0,125'"),
        (["1250,125", "12,500"], "a decimal comma, such as '1250,125'"),
    ],
)
def test_commas_of_thousands_and_decimals_are_told_apart(path, column, cells, words):
    rows = [[cells[i % len(cells)], str(i)] for i in range(30)]
    names = [column, "price" if column == "size" else "size"]
    lines = [",".join(f'"{cell}"' for cell in row) for row in [names, *rows]]
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"column `{column}` of .*{words}") as caught:
        load_csv(path, target="price")
    assert ("thousands=" in words) == ("thousands=" in str(caught.value))
    if "thousands=" in words:
        advice = str(caught.value).partition("without commas: `")[2].partition("`")[0]
        again = eval(advice, {"file": path, "pandas": pandas})
        assert again[column].tolist() == [float(row[0].replace(",", "")) for row in rows]


def test_gaps_at_the_end_of_rows_are_no_short_rows(path):
    word = "w" * 200_000  # more than a cell of Python's csv module may have
    rows = [f'"{word},\n",{i},{i if i % 3 else ""}' for i in range(30)]
    path.write_text("\n\n".join(["word,price,age", *rows, " ", ""]))
    data = load_csv(path, target="price", drop=["word"])
    assert data.feature_names == ("age", "age is missing")


def test_missing_files_are_refused(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="houses.csv` does not exist"):
        load_csv(path, target="price")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        load_csv(tmp_path, target="price")


def test_a_class_without_training_rows_is_refused(path):
    labels = np.array(["a", "b"] * 20, dtype=object)
    labels[uci_split_indices(40, 1)[1][0][:2]] = "rare"
    cells = table(rows=40, price=labels.tolist())
    with pytest.raises(ValueError, match="never in its training rows: `rare`.*another `split`"):
        load_csv(write(path, cells), target="price")
    assert load_csv(path, target="price", split=1).classes == 3


def test_a_target_that_is_constant_in_training_is_refused(path):
    values = np.zeros(30)
    values[uci_split_indices(30, 1)[1][0]] = 1.5
    with pytest.raises(ValueError, match="constant in the 27 training rows"):
        load_csv(write(path, table(price=values.tolist())), target="price")


def test_new_rows_are_matched_by_name(path):
    cells = table(rows=3)
    write(path, {"income": cells["income"], "price": ["?"] * 3, "age": [1, 1, 1]})
    x = read_features(path, ("age", "income"))
    np.testing.assert_array_equal(x, np.c_[[1, 1, 1], cells["income"]])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"Age": [1], "income": [2]}, "lacks 1 of the 2 features.*`age`.*Did you mean `Age`"),
        ({"age": [], "income": []}, "no rows to predict"),
        ({"age": [1, ""], "income": [2, 3]}, r"`age` \(1 of 2 rows, first at row 2\)"),
        ({"age": [1, "x"], "income": [2, 3]}, "'x' at row 2"),
    ],
)
def test_bad_new_rows_are_refused(path, cells, message):
    with pytest.raises(ValueError, match=message):
        read_features(write(path, cells), ("age", "income"))
