"""How a table of numbers, words, dates and gaps becomes features: decided on the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayesnn_ppl.core.arguments import PACKAGE, html_table
from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.columns import (
    KINDS,
    Category,
    Column,
    Date,
    Number,
    is_date,
    least_rows,
)
from bayesnn_ppl.data.common.frames import (
    columns_present,
    features_of,
    numbers,
    parse,
    text_in_numbers,
)

if TYPE_CHECKING:
    import pandas

_MISTAKES = 0.1  # of the entries of a column


@dataclass(frozen=True, repr=False)
class TableEncoding:
    """What each column of a table becomes; `print` shows it.

    Numbers and booleans stay. A column of words becomes a feature of 0 and 1 for each category,
    one for words that are rare or unknown, and one for missing entries. A date becomes its year
    and its places on the cycles of year, week and day. A missing number or date is filled with the
    training median, and a feature says where. Each feature of 0 and 1 needs three training rows,
    and 1 % of them, or there is none.

    Attributes:
        columns: `Number`, `Date` or `Category` of each column, in the order of training.
    """

    columns: tuple[Column, ...]

    @classmethod
    def fit(cls, table: pandas.DataFrame, train: np.ndarray, origin: checks.Origin) -> Self | None:
        """The encoding by the training rows; None where all columns are numbers without gaps.

        Args:
            table: of inputs alone, named by text.
            train: numbers of the training rows.
            origin: how messages speak of the table.

        Raises:
            ValueError: a column is of numbers and has text in some rows, holds commas in numbers
                or durations, has no entry in the training rows, is of one date, or has too many
                words.
        """
        kinds = {name: _kind(table[name]) for name in table.columns}
        numeric = [name for name, kind in kinds.items() if kind is Number]
        numbers(table, numeric, origin)  # refuses text
        columns = tuple(kind.fit(table[name], train) for name, kind in kinds.items())
        if all(isinstance(column, Number) and column.fill is None for column in columns):
            return None
        _require_entries(table, train, origin)
        # Such a date has no features, in which the check of all features would find it.
        if same := [c.name for c in columns if isinstance(c, Date) and not c.parts]:
            where = f" over the {len(train)} training rows"
            raise checks.constant_columns(same, len(columns), origin, where)
        _require_categories(columns, table, train, origin)
        return cls(columns)

    @property
    def names(self) -> list[str]:
        """Those of the columns."""
        return [column.name for column in self.columns]

    @property
    def features(self) -> list[str]:
        """The names of the features, d."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def words(self) -> list[str]:
        """The names of the columns of words."""
        return [column.name for column in self.columns if isinstance(column, Category)]

    def read(self, table: pandas.DataFrame, origin: checks.Origin) -> list[np.ndarray]:
        """Each column (n,): numbers with NaN where one is missing, or text with "".

        Args:
            table: whose columns are matched by name; others are ignored.
            origin: how messages speak of it.

        Raises:
            ValueError: a column is absent, or holds text where training had numbers or dates.
        """
        columns_present(table, self.names, origin)
        found = [column.read(table[column.name]) for column in self.columns]
        for kind, called in ((Number, "numbers"), (Date, "dates")):
            bad = {
                column.name: np.isnan(values) & table[column.name].notna().to_numpy()
                for column, values in zip(self.columns, found, strict=True)
                if isinstance(column, kind)
            }
            text_in_numbers(table, bad, origin, called)
        return found

    def encode(self, read: Sequence[np.ndarray], origin: checks.Origin) -> np.ndarray:
        """Features float64 (n, d) of what `read` gives.

        Raises:
            ValueError: an entry is missing in a column where training lacked none, or infinite.
        """
        pairs = list(zip(self.columns, read, strict=True))
        needed = [(c.name, v) for c, v in pairs if not isinstance(c, Category) and c.fill is None]
        if needed:
            names, values = zip(*needed, strict=True)
            checks.check_finite(np.column_stack(values), names, origin)
        x = np.column_stack([np.asarray(f, float) for c, v in pairs for f in c.encode(v)])
        checks.check_finite(x, self.features, origin)
        return x

    def of_new_rows(self, table: pandas.DataFrame, origin: checks.Origin) -> np.ndarray:
        """Features float64 (n, d) of rows to predict at; warns where a word is unknown."""
        found = self.read(table, origin)
        for column, words in zip(self.columns, found, strict=True):
            if not isinstance(column, Category) or not (unknown := column.unknown(words)).any():
                continue
            shown = sorted({word or "(missing)" for word in words[unknown].tolist()})
            warnings.warn(
                f"{unknown.sum()} of {len(words)} rows of {checks.lower(origin.table)} have in "
                f"`{column.name}` what no or hardly any training row had: {checks.listing(shown)}. "
                "All of its features are 0 there, which training never saw. Known are "
                f"{checks.listing(f'`{word}`' for word in column.categories)}.",
                UserWarning,
                skip_file_prefixes=(PACKAGE,),
            )
        return self.encode(found, origin)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain values that survive JSON exactly."""
        return [{"kind": column.kind, **asdict(column)} for column in self.columns]

    @classmethod
    def from_list(cls, values: Sequence[Mapping[str, Any]]) -> Self:
        """The inverse of `to_list`.

        Raises:
            ValueError: a kind is unknown, or a value of a column is absent or unknown.
        """
        columns = []
        for value in values:
            given: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in value.items()
            }
            kind = KINDS.get(given.pop("kind", ""))
            if kind is None or set(given) != {field.name for field in fields(kind)}:
                raise ValueError(
                    f"A column of a TableEncoding is stored with its kind, one of "
                    f"{', '.join(KINDS)}, and the values of that, but it is {dict(value)}."
                )
            columns.append(kind(**given))
        return cls(tuple(columns))

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, kind and what it becomes, of each column."""
        return [(c.name, c.kind, c.described()) for c in self.columns]

    def summary(self) -> str:
        """Which columns hold words, dates or gaps: "categories (sex, port), gaps filled (age)"."""
        kinds = {
            "categories": [c.name for c in self.columns if isinstance(c, Category)],
            "dates": [c.name for c in self.columns if isinstance(c, Date)],
            "gaps filled": [
                c.name for c in self.columns if not isinstance(c, Category) and c.fill is not None
            ],
        }
        return ", ".join(
            f"{kind} ({checks.listing(names)})" for kind, names in kinds.items() if names
        )

    def __repr__(self) -> str:
        width = max(len(name) for name in self.names)
        return "\n".join(f"{name:<{width}}  {kind:<8}  {text}" for name, kind, text in self.rows())

    def _repr_html_(self) -> str:
        return html_table("Columns", [(f"{n} ({kind})", text) for n, kind, text in self.rows()])


def new_features(
    table: pandas.DataFrame,
    feature_names: Sequence[str],
    encoding: TableEncoding | Sequence[Mapping[str, Any]] | None,
    origin: checks.Origin,
) -> np.ndarray:
    """The features that a model was trained on, float64 (n, d), of a table that may hold others.

    Args:
        table: the rows.
        feature_names: of the training data.
        encoding: of the training data, or its plain values.
        origin: how messages speak of the table.

    Raises:
        ValueError: a column is absent, or has entries that training did not allow.
    """
    if encoding is None:
        return features_of(table, feature_names, origin)
    if not isinstance(encoding, TableEncoding):
        encoding = TableEncoding.from_list(encoding)
    return encoding.of_new_rows(table, origin)


def _kind(column: pandas.Series[Any]) -> type[Number] | type[Date] | type[Category]:
    """What a column holds: words where it is marked as categories, or many entries are text."""
    if is_date(column):
        return Date
    if column.dtype.name == "category":
        return Category
    if column.dtype.kind == "m":
        return Number  # a duration, which is refused as one
    words = parse(column)[1]
    known = int(column.notna().sum())
    # A few words among numbers are mistakes, not categories, and so are commas in numbers.
    if words.sum() <= _MISTAKES * known or checks.number_with_comma(column):
        return Number
    return Category


def _require_entries(table: pandas.DataFrame, train: np.ndarray, origin: checks.Origin) -> None:
    empty = table.columns[table.iloc[train].isna().all().to_numpy()].tolist()
    if empty:
        raise ValueError(
            f"{origin.table} has no entry in any training row of {len(empty)} of "
            f"{len(table.columns)} feature columns: {checks.listing(f'`{n}`' for n in empty)}. "
            f"Nothing can be learnt from them: {_dropped(empty)}."
        )


def _require_categories(
    columns: Sequence[Column], table: pandas.DataFrame, train: np.ndarray, origin: checks.Origin
) -> None:
    """Refuse names and numbers of persons, tickets and the like, of which no word comes again."""
    found = [c for c in columns if isinstance(c, Category) and not c.categories and not c.missing]
    if not found:
        return
    names = [column.name for column in found]
    counted = checks.listing(
        f"`{name}` ({table[name].iloc[train].nunique()} different ones)" for name in names
    )
    raise ValueError(
        f"{origin.table} has {len(names)} of {len(columns)} feature columns in which hardly any "
        f"word occurs twice: {counted} in {len(train)} training rows, and a category needs "
        f"{least_rows(len(train))} rows. A network cannot learn from names that it sees once: "
        f"{_dropped(names)}, or replace them by what matters about them, such as a title or a "
        "length. Dates are read as 2021-12-31."
    )


def _dropped(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names)
    return (
        f"drop them (`--drop {','.join(names)}` in a shell, `drop=[{shown}]` for a file, "
        f"`frame.drop(columns=[{shown}])` for a frame)"
    )
