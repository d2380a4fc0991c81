"""Words, dates and gaps of tables as features: what each column becomes, and new rows."""

import json

import numpy as np
import pandas as pd
import pytest

from bayesnn_ppl.data import TableEncoding, from_arrays, load, read_features, uci_split_indices

ROWS = 200
RNG = np.random.default_rng(0)
AGE = np.where(RNG.random(ROWS) < 0.2, np.nan, RNG.normal(40, 10, ROWS).round(1))
PORT = RNG.choice(["east", "north", "south"], ROWS).astype(object)
PORT[:2] = "Atlantis"  # too rare for a feature of its own
DECK = np.where(RNG.random(ROWS) < 0.5, None, RNG.choice(["A", "B"], ROWS))
SEEN = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 700, ROWS), "D"))
TRAIN, TEST = (rows[0] for rows in uci_split_indices(ROWS, 1))
FRAME = pd.DataFrame(
    {"age": AGE, "port": PORT, "deck": DECK, "seen": SEEN, "alone": RNG.random(ROWS) < 0.5}
)
Y = RNG.normal(size=ROWS)
KNOWN = FRAME[2:].reset_index(drop=True)
DATA = from_arrays(FRAME, Y, standardise=False)


def feature(name, data=DATA, part="train"):
    return getattr(data, part).x[:, data.feature_names.index(name)]


def test_each_column_becomes_what_the_training_rows_say():
    assert DATA.feature_names == (
        *("age", "age is missing"),
        *("port=east", "port=north", "port=south"),
        *("deck=A", "deck=B", "deck=(missing)"),
        *("seen (year)", "seen (season, sin)", "seen (season, cos)"),
        *("seen (weekday, sin)", "seen (weekday, cos)"),
        "alone",
    )
    gaps = np.isnan(AGE)
    assert gaps[TRAIN].any() and gaps[TEST].any()
    np.testing.assert_array_equal(feature("age is missing"), gaps[TRAIN])
    median = np.float32(np.nanmedian(AGE[TRAIN]))
    assert median != np.float32(np.nanmedian(AGE)), "or the test rows might have a say"
    for part, rows in (("train", TRAIN), ("test", TEST)):
        filled = np.where(gaps, median, AGE)[rows]
        np.testing.assert_allclose(feature("age", part=part), filled, rtol=1e-6)
        np.testing.assert_array_equal(feature("port=north", part=part), PORT[rows] == "north")
        none = [cell is None for cell in DECK[rows]]
        np.testing.assert_array_equal(feature("deck=(missing)", part=part), none)
    lines = repr(DATA.encoding).splitlines()
    assert (
        lines[0]
        == f"age    number    itself; {median:g} where it is missing, and a feature says so"
    )
    assert lines[1] == "port   category  3 categories of 0 and 1: east, north, south"
    assert lines[2].endswith("2 categories of 0 and 1: A, B; missing is one")
    assert DATA._repr_html_().count("seen (date)") == 1
    assert "seen: date" not in DATA._repr_html_() and "date: its year" not in DATA._repr_html_()
    assert repr(DATA).endswith("; categories (port, deck), dates (seen), gaps filled (age))")


def test_dates_are_years_and_places_on_cycles():
    whole, of_day = SEEN.dt.day_of_year - 1, 365 + SEEN.dt.is_leap_year
    season = 2 * np.pi * whole / of_day
    weekday = 2 * np.pi * SEEN.dt.day_of_week / 7
    for name, expected in {
        "seen (year)": SEEN.dt.year + whole / of_day,
        "seen (season, sin)": np.sin(season),
        "seen (season, cos)": np.cos(season),
        "seen (weekday, sin)": np.sin(weekday),
        "seen (weekday, cos)": np.cos(weekday),
    }.items():
        np.testing.assert_allclose(feature(name), expected[TRAIN], rtol=1e-6, atol=1e-6)


def test_times_of_one_day_have_an_hour_alone():
    hours = pd.Timestamp("2020-03-01T00:00:00+02:00") + pd.to_timedelta(np.arange(48) / 2, "h")
    data = from_arrays(pd.DataFrame({"at": hours}), np.arange(48.0), standardise=False)
    assert data.feature_names[0] == "at (year)"
    assert data.feature_names[-2:] == ("at (hour, sin)", "at (hour, cos)")
    train = uci_split_indices(48, 1)[0][0]
    angle = 2 * np.pi * (train / 2 - 2) / 24  # in UTC
    np.testing.assert_allclose(feature("at (hour, sin)", data), np.sin(angle), atol=1e-4)


def test_rare_words_share_a_feature_where_there_are_enough():
    port = PORT.copy()
    port[:9] = [f"port {i}" for i in range(9)]
    data = from_arrays(FRAME.assign(port=port), Y, standardise=False)
    rare = np.array([str(word).startswith("port ") for word in port])
    np.testing.assert_array_equal(feature("port=(other)", data), rare[TRAIN])
    new = FRAME.iloc[:3].assign(port=["nowhere", None, "east"])
    x = data.transform(new)  # without a warning: pytest makes errors of them
    assert x[:, data.feature_names.index("port=(other)")].tolist() == [1, 1, 0]


def test_new_rows_go_the_same_way():
    order, train = list(reversed(FRAME.columns)), TRAIN[TRAIN > 1]
    expected = DATA.train.x[TRAIN > 1]
    np.testing.assert_array_equal(DATA.transform(FRAME[order].iloc[train]), expected)
    names = ("age", "port", "deck", "alone")
    columns = {n: [None if pd.isna(cell) else cell for cell in FRAME[n]] for n in names}
    polars = pytest.importorskip("polars")
    columns = {"more": [1] * ROWS, **columns, "seen": SEEN.dt.date.tolist()}
    other = polars.DataFrame(columns).select("more", *FRAME.columns)
    np.testing.assert_array_equal(DATA.transform(other[train]), expected)
    same = from_arrays(other.drop("more"), Y, standardise=False)
    np.testing.assert_array_equal(same.train.x, DATA.train.x)
    assert same.sha256 == DATA.sha256 != from_arrays(FRAME.iloc[::-1], Y).sha256
    assert from_arrays(FRAME, Y, split=3).sha256 == DATA.sha256


def test_unknown_words_are_warned_about():
    new = FRAME.iloc[:4].assign(port=["Atlantis", None, "east", "west"])
    with pytest.warns(UserWarning, match=r"3 of 4 rows .*`port`.*\(missing\), Atlantis, west"):
        x = DATA.transform(new)
    columns = [DATA.feature_names.index(f"port={p}") for p in ("east", "north", "south")]
    np.testing.assert_array_equal(x[:, columns].sum(axis=1), [0, 0, 1, 0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"age": "old"}, "text in 1 of 2 columns of numbers: `age` .'old' at row 0"),
        ({"age": np.inf}, "`age`"),
        ({"alone": None}, "NaN or infinite.*`alone` .3 of 3 rows"),
        ({"seen": "soon"}, "columns of dates: `seen` .'soon' at row 0.*2021-12-31"),
        ({"seen": None}, "`seen` .3 of 3 rows"),
    ],
)
def test_new_rows_that_training_did_not_prepare_for(changes, words):
    with pytest.raises(ValueError, match=words):
        DATA.transform(KNOWN[:3].assign(**changes))


def test_new_rows_without_a_column():
    with pytest.raises(ValueError, match="lacks 2 of the 5 features .*`port`, `deck`"):
        DATA.transform(FRAME.drop(columns=["port", "deck"]))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([None] * ROWS, "no entry in any training row of 1 of 6 feature columns: `new`"),
        ([f"Mr {i}" for i in range(ROWS)], r"`new` \(180 different ones\).*drop=\[\"new\"\]"),
        (["one"] * ROWS, "constant.*`new=one`"),
        (["2021-03-01"] * ROWS, "constant over .* in 1 of 6 feature columns: `new`.*Drop these"),
        ([None, "2021-03-01"] * 100, "constant over .* in 1 of 6 feature columns: `new`"),
        (pd.to_timedelta(np.arange(ROWS), "D"), "`new`.*durations as a number"),
        (["1,5", "2,5"] * 100, "decimal comma, such as '1,5'"),
        (["none", *range(1, ROWS)], "text in 1 of 3 columns of numbers: `new` .'none' at row 0"),
    ],
)
def test_columns_that_say_nothing_are_refused(column, words):
    with pytest.raises(ValueError, match=words):
        from_arrays(FRAME.assign(new=column), Y)


def test_a_date_that_is_the_only_feature_and_constant_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("when,y\n" + "".join(f"2021-03-01,{y}\n" for y in range(20)))
    with pytest.raises(ValueError, match=r"t\.csv` is constant over the 18 training rows.*`when`"):
        load(tmp_path / "t.csv", target="y")


def test_it_is_plain_values():
    stored = json.loads(json.dumps(DATA.encoding.to_list()))
    again = TableEncoding.from_list(stored)
    assert again == DATA.encoding and again.features == list(DATA.feature_names)
    assert DATA.train.y.dataset["encoding"] == DATA.encoding.to_list()
    for broken in ({**stored[0], "kind": "word"}, {"kind": "number", "name": "age"}):
        with pytest.raises(ValueError, match="one of number, date, category"):
            TableEncoding.from_list([broken])
    plain = from_arrays(FRAME[["alone"]].assign(z=Y), Y)
    assert plain.encoding is None and plain.train.y.dataset["encoding"] is None


def test_files_are_read_as_frames_are(tmp_path):
    code = [f"0{i % 3}" for i in range(ROWS)]
    table = FRAME.assign(code=[f"{c}x" if c == "00" else c for c in code], name=Y, price=Y)
    table.to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv", target="price", drop=["name"], standardise=False)
    np.testing.assert_allclose(data.train.x[:, : DATA.train.x.shape[1]], DATA.train.x, rtol=1e-6)
    assert data.feature_names[-3:] == ("code=00x", "code=01", "code=02")
    again = load(**data.loaded_by)
    assert again.sha256 == data.sha256 and again.encoding == data.encoding
    # Where all new codes look like numbers, they are the categories of training even so.
    new = table.iloc[[i for i in range(2, 30) if code[i] != "00"]]
    new.to_csv(tmp_path / "new.csv", index=False)
    x = read_features(tmp_path / "new.csv", data.feature_names, encoding=data.encoding)
    assert x[:, -2:].sum(axis=1).tolist() == [1] * len(new)


def test_numbers_that_are_marked_as_categories_are_so_in_parquet_files_too(tmp_path):
    three, path = np.arange(ROWS) % 3, tmp_path / "t.parquet"
    gaps = [None if i == 0 else i for i in three]
    marked = pd.DataFrame({"code": three, "gaps": gaps, "alone": three == 1}, dtype="category")
    frame = marked.assign(age=RNG.normal(size=ROWS), grade=pd.Categorical(three % 2))
    frame.to_parquet(path)
    data = load(path, target="age", standardise=False)
    same = from_arrays(frame, "age", standardise=False)
    assert data.feature_names[:5] == ("code=0", "code=1", "code=2", "gaps=1", "gaps=2")
    assert data.encoding == same.encoding and data.sha256 == same.sha256
    x = read_features(path, data.feature_names, encoding=data.encoding)
    np.testing.assert_array_equal(x[TRAIN].astype(np.float32), data.train.x)
    # As a target, numbers are what they were.
    assert load(path, target="grade").class_names == ("0", "1")
    assert load(path, target="code").task == "regression"
    assert load(path, target="code", task="classification").class_names == ("0", "1", "2")
