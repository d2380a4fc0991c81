"""Kinds of columns of a table, and the features that each becomes: plain values, as JSON has them.

What a column becomes is decided once, and medians and categories are those of the training rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayesnn_ppl.data.common.frames import parse

if TYPE_CHECKING:
    import pandas

# Training rows that a feature of 0 and 1 must have, in numbers and as a share of all: one of a
# single row in a thousand, standardised, would be 32 there.
LEAST_ROWS, LEAST_SHARE = 3, 0.01
_DAY = 86_400.0
_ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"


@dataclass(frozen=True)
class Number:
    """A column of numbers or booleans: a feature, and one that says where an entry is missing.

    Attributes:
        name: of the column.
        fill: the median of the training rows, put where an entry is missing; None where no row
            of the table lacks one, and new rows may not either.
        indicator: whether enough training rows lack an entry for a feature to say so.
    """

    kind: ClassVar[str] = "number"
    name: str
    fill: float | None = None
    indicator: bool = False

    @classmethod
    def fit(cls, column: pandas.Series[Any], train: np.ndarray) -> Number:
        """From all rows of the column and the numbers of the training rows."""
        return cls(str(column.name), *_gaps(parse(column)[0], train))

    @property
    def features(self) -> list[str]:
        """One name for each feature."""
        return [self.name, *_indicator(self)]

    def read(self, column: pandas.Series[Any]) -> np.ndarray:
        """float64 (n,); NaN where an entry is missing, or text."""
        return parse(column)[0]

    def encode(self, values: np.ndarray) -> list[np.ndarray]:
        """The features of what `read` gives."""
        gaps = np.isnan(values)
        return [_filled(self, values), *([gaps] if self.indicator else [])]

    def described(self) -> str:
        """What the column becomes, in words."""
        return "itself" + _of_gaps(self, "{:g}".format)


@dataclass(frozen=True)
class Date:
    """A column of dates or times: the year with its fraction, and places on cycles.

    A cycle of fraction φ gives sin 2πφ and cos 2πφ: of the year, of the week by whole days, and of
    the day. Times with an offset are those of UTC.

    Attributes:
        name: of the column.
        parts: "year", "season", "weekday", "hour": those that differ among the training rows.
        fill, indicator: as those of `Number`, in seconds since 1970.
    """

    kind: ClassVar[str] = "date"
    name: str
    parts: tuple[str, ...]
    fill: float | None = None
    indicator: bool = False

    @classmethod
    def fit(cls, column: pandas.Series[Any], train: np.ndarray) -> Date:
        """From all rows of the column and the numbers of the training rows."""
        values = _seconds(column)
        known = values[train][~np.isnan(values[train])]
        # By months: a day more or less, as a leap year makes, is not another season.
        coarse = {
            "year": known,
            "season": known.astype("datetime64[s]").astype("datetime64[M]").astype(int) % 12,
            **{part: _CYCLES[part](known) for part in ("weekday", "hour")},
        }
        parts = tuple(part for part, found in coarse.items() if len(np.unique(found)) > 1)
        return cls(str(column.name), parts, *_gaps(values, train))

    @property
    def features(self) -> list[str]:
        """One name for each feature."""
        names = [
            f"{self.name} ({part}{of})"
            for part in self.parts
            for of in ([""] if part == "year" else [", sin", ", cos"])
        ]
        return [*names, *_indicator(self)]

    def read(self, column: pandas.Series[Any]) -> np.ndarray:
        """float64 (n,), seconds since 1970; NaN where an entry is missing, or no date."""
        return _seconds(column)

    def encode(self, values: np.ndarray) -> list[np.ndarray]:
        """The features of what `read` gives."""
        seconds, found = _filled(self, values), []
        # Where a date is absent and may not be, NaN goes through to the check of all features.
        with np.errstate(invalid="ignore"):
            for part in self.parts:
                if part == "year":
                    found.append(_year(seconds))
                else:
                    angle = 2 * np.pi * _CYCLES[part](seconds)
                    found += [np.sin(angle), np.cos(angle)]
        return [*found, *([np.isnan(values)] if self.indicator else [])]

    def described(self) -> str:
        """What the column becomes, in words."""
        words = "its " + ", ".join(
            part if part == "year" else f"{part} as sine and cosine" for part in self.parts
        )
        return words + _of_gaps(self, lambda s: str(np.datetime64(round(s), "s"))[:10])


@dataclass(frozen=True)
class Category:
    """A column of words: a feature of 0 and 1 for each category.

    A category needs `least_rows` of the training rows. Rarer and unknown words share a feature if
    there are enough rare ones in training, and otherwise have 0 in every feature.

    Attributes:
        name: of the column.
        categories: the words that are frequent enough, in alphabetical order.
        other: whether there is a feature that the other words share.
        missing: whether there is a feature for rows without an entry; if not, they count as rare.
    """

    kind: ClassVar[str] = "category"
    name: str
    categories: tuple[str, ...]
    other: bool = False
    missing: bool = False

    @classmethod
    def fit(cls, column: pandas.Series[Any], train: np.ndarray) -> Category:
        """From all rows of the column and the numbers of the training rows."""
        counts, least = Counter(_words(column)[train].tolist()), least_rows(len(train))
        frequent = sorted(word for word, count in counts.items() if count >= least)
        rare = len(train) - sum(counts[word] for word in frequent)
        categories = tuple(word for word in frequent if word)
        return cls(str(column.name), categories, rare >= least, "" in frequent)

    @property
    def features(self) -> list[str]:
        """One name for each feature."""
        extra = ["(other)"] * self.other + ["(missing)"] * self.missing
        return [f"{self.name}={word}" for word in (*self.categories, *extra)]

    def read(self, column: pandas.Series[Any]) -> np.ndarray:
        """Text (n,); "" where an entry is missing."""
        return _words(column)

    def encode(self, words: np.ndarray) -> list[np.ndarray]:
        """The features of what `read` gives."""
        found = [words == word for word in self.categories]
        return [*found, *([self._rare(words)] * self.other), *([words == ""] * self.missing)]

    def unknown(self, words: np.ndarray) -> np.ndarray:
        """Where an entry has no feature of its own and none to share, bool (n,)."""
        return self._rare(words) & (not self.other)

    def _rare(self, words: np.ndarray) -> np.ndarray:
        return ~np.isin(words, [*self.categories, *([""] * self.missing)])

    def described(self) -> str:
        """What the column becomes, in words."""
        shown = ", ".join(self.categories[:6])
        count = len(self.categories)
        words = f"{count} categories of 0 and 1: {shown}" + (", ..." if count > 6 else "")
        return words + "; rarer words share one" * self.other + "; missing is one" * self.missing


type Column = Number | Date | Category
KINDS: dict[str, type[Number] | type[Date] | type[Category]] = {
    kind.kind: kind for kind in (Number, Date, Category)
}


def least_rows(train: int) -> int:
    """How many of so many training rows a feature of 0 and 1 needs."""
    return max(LEAST_ROWS, int(np.ceil(LEAST_SHARE * train)))


def is_date(column: pandas.Series[Any]) -> bool:
    """Whether a column holds dates: by its type, or as text that is ISO 8601 in every entry."""
    import pandas

    if column.dtype.kind == "M":
        return True
    if not pandas.api.types.is_string_dtype(column.dropna()):
        return False
    text = column.dropna().astype(str).str.strip()
    return (
        bool(len(text))
        and bool(text.str.fullmatch(_ISO_DATE).all())
        and not (np.isnan(_seconds(column[column.notna()])).any())
    )


def _seconds(column: pandas.Series[Any]) -> np.ndarray:
    """Seconds since 1970, float64, NaN where there is no date."""
    import pandas

    if column.dtype.kind not in "M":
        text = column.astype(str).str.strip().where(column.notna())
        column = pandas.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    times = column.dt.tz_convert("UTC").dt.tz_localize(None) if column.dt.tz else column
    values = times.to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)


def _year(seconds: np.ndarray) -> np.ndarray:
    """2021.5 in the middle of 2021."""
    times = seconds.astype("datetime64[s]")
    years = times.astype("datetime64[Y]")
    begins, ends = (
        y.astype("datetime64[s]").astype(float) for y in (years, years + np.timedelta64(1, "Y"))
    )
    return years.astype(float) + 1970 + (seconds - begins) / (ends - begins)


_CYCLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "season": lambda seconds: _year(seconds) % 1.0,
    "weekday": lambda seconds: (np.floor(seconds / _DAY) + 3) % 7 / 7,  # 1970 began on a Thursday
    "hour": lambda seconds: seconds % _DAY / _DAY,
}


def _words(column: pandas.Series[Any]) -> np.ndarray:
    """The entries as text without outer spaces, dtype str; "" where one is missing."""
    missing = column.isna().to_numpy()
    pairs = zip(missing, column.astype(object), strict=True)
    return np.asarray(["" if gap else _word(value) for gap, value in pairs], dtype=str)


def _word(value: Any) -> str:
    # An integer next to a missing one becomes a float: 3.0 is the category 3.
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value).strip()


def _gaps(values: np.ndarray, train: np.ndarray) -> tuple[float | None, bool]:
    """Median of the training rows, None where no entry is missing, and whether many lack one."""
    missing = np.isnan(values)
    known = values[train][~missing[train]]
    if not missing.any() or not len(known):  # a column without entries is refused
        return None, False
    return float(np.median(known)), bool(missing[train].sum() >= least_rows(len(train)))


def _filled(column: Number | Date, values: np.ndarray) -> np.ndarray:
    return values if column.fill is None else np.where(np.isnan(values), column.fill, values)


def _indicator(column: Number | Date) -> list[str]:
    return [f"{column.name} is missing"] if column.indicator else []


def _of_gaps(column: Number | Date, shown: Callable[[float], str]) -> str:
    if column.fill is None:
        return ""
    more = ", and a feature says so" if column.indicator else ""
    return f"; {shown(column.fill)} where it is missing{more}"
