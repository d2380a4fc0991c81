"""The tables of `table_benchmark`: scores of each set, and what all sets say of a contender."""

from collections.abc import Callable
from statistics import mean, median, stdev
from typing import Any

import numpy as np
from scipy.stats import rankdata, studentized_range, t

from benchmarks.harness.tables import markdown
from benchmarks.pages.stored_numbers import stored
from benchmarks.practice.table_benchmark import AS_BDE, BY_INPUT
from benchmarks.practice.table_sets import MIXED, UCI

LEVEL = 0.05  # of false alarms
POWER = 0.8
# A test part is a tenth of the rows.
TEST_TO_TRAINING = 1 / 9
# NLL of table 1 of Lakshminarayanan et al. 2017 (arXiv:1612.01474), which has that of PBP
# (Hernández-Lobato and Adams 2015, arXiv:1502.05336) too: 20 splits, five of protein.
PUBLISHED = {
    "PBP": (2.57, 3.16, 2.04, -0.90, -3.73, 2.84, 2.97, 0.97, 1.63),
    "deep ensemble": (2.41, 3.06, 1.38, -1.20, -5.63, 2.79, 2.83, 0.94, 1.18),
}
ORDER = (
    "network", "deep ensemble", "deep ensemble, noise by input", "Laplace", "tuned Laplace",
    "mean-field", "ChEES", "mile", "mile, noise by input", AS_BDE, "bde", "CatBoost",
)  # fmt: skip

Scores = dict[str, dict[str, list[float]]]


def scores(content: dict[str, Any], *columns: str) -> Scores:
    """Set -> contender -> the first of the columns that a row has, one for each split.

    A set's splits are those at which every contender that has any result has one. Labels have no
    noise, so contenders whose noise depends on the inputs are there the same without.
    """
    rows = [row for row in content["rows"] if any(column in row for column in columns)]
    found: Scores = {}
    for name in (*UCI, *MIXED):
        by: dict[str, dict[int, float]] = {}
        for row in (row for row in rows if row["data"] == name):
            value = next(row[column] for column in columns if column in row)
            alike = [name for name, plain in BY_INPUT.items() if plain == row["contender"]]
            for contender in (row["contender"], *(alike if "accuracy" in row else ())):
                by.setdefault(contender, {})[row["split"]] = value
        if by := {contender: by[contender] for contender in ORDER if contender in by}:
            common = sorted(set.intersection(*map(set, by.values())))
            found[name] = {contender: [of[s] for s in common] for contender, of in by.items()}
    return found


def detectable(of_set: dict[str, list[float]]) -> float:
    """The difference of two contenders that so many splits of one set would show.

    (t_{1 - α/2} + t_{power}) √((1/n + test/training) s²) for n splits, n - 1 degrees of freedom and
    the median s of the differences of all pairs. Splits of one set share rows, which the second
    term allows for (Nadeau and Bengio 2003, Machine Learning 52, section 4). One split: NaN.
    """
    values = list(of_set.values())
    n = len(values[0])
    if n < 2:
        return float("nan")
    pairs = [(a, b) for i, a in enumerate(values) for b in values[:i]]
    s = median(stdev(x - y for x, y in zip(a, b, strict=True)) for a, b in pairs)
    both = t.ppf(1 - LEVEL / 2, n - 1) + t.ppf(POWER, n - 1)
    return float(both * s * np.sqrt(1 / n + TEST_TO_TRAINING))


def ranks(found: Scores) -> tuple[dict[str, list[float]], float]:
    """Contender -> its rank on each set that all have, and the critical difference of mean ranks.

    Two contenders differ if their mean ranks are further apart than Nemenyi's
    q √(k (k + 1) / 6N), for k of them on N sets (Demšar 2006, Journal of Machine Learning Research
    7, section 3.2.2).
    """
    complete = [of_set for of_set in found.values() if set(of_set) == set(ORDER)]
    ranked = [rankdata([mean(of_set[contender]) for contender in ORDER]) for of_set in complete]
    k, n = len(ORDER), len(ranked)
    quantile = studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2)
    each = {name: [float(of[i]) for of in ranked] for i, name in enumerate(ORDER)}
    return each, float(quantile * np.sqrt(k * (k + 1) / (6 * n)))


def table_scores(content: dict[str, Any], names: tuple[str, ...]) -> str:
    """Mean NLL of each set, the least in bold, and the difference that its splits would show."""
    published = names == UCI
    lines = []
    for name, of_set in scores(content, "nll").items():
        if name in names:
            means = {contender: mean(values) for contender, values in of_set.items()}
            cells = [_cell(means.get(contender), min(means.values())) for contender in ORDER]
            if published:
                cells += [f"{nll[UCI.index(name)]:.2f}" for nll in PUBLISHED.values()]
            splits = len(next(iter(of_set.values())))
            lines.append([name, str(splits), *cells, f"{detectable(of_set):.3f}"])
    theirs = [f"published {name}" for name in PUBLISHED] if published else []
    return markdown(["set", "splits", *ORDER, *theirs, "to be shown"], lines)


def table_ranks(content: dict[str, Any]) -> str:
    """Mean ranks of each contender, its calibration and its time."""
    nll, critical = ranks(scores(content, "nll"))
    other, _ = ranks(scores(content, "crps", "brier"))
    coverage, ece, seconds = (scores(content, name) for name in ("coverage", "ece", "seconds"))
    lines = []
    for name in sorted(ORDER, key=lambda name: mean(nll[name])):
        inside = [100 * mean(of[name]) for of in coverage.values() if name in of]
        gaps = [mean(of[name]) for of in ece.values() if name in of]
        times = [median(of[name]) for of in seconds.values() if name in of]
        lines.append([
            name, f"{mean(nll[name]):.2f}", f"{mean(other[name]):.2f}",
            f"{min(inside):.0f} to {max(inside):.0f}", f"{mean(gaps):.3f}",
            f"{median(times):.1f}", f"{max(times):.0f}",
        ])  # fmt: skip
    lines.append(["critical difference", f"{critical:.2f}", f"{critical:.2f}", *[""] * 4])
    heads = [
        f"contender, {len(nll['network'])} sets", "mean rank by NLL", "by CRPS or Brier score",
        "in 90 % intervals, by set [%]", "mean ECE", "median seconds", "most",
    ]  # fmt: skip
    return markdown(heads, lines)


def table_benchmark(record: str) -> dict[str, Callable[[], str]]:
    """The three tables of the record, by name."""
    return {
        "table_uci": lambda: table_scores(stored(record), UCI),
        "table_mixed": lambda: table_scores(stored(record), tuple(MIXED)),
        "table_ranks": lambda: table_ranks(stored(record)),
    }


def _cell(value: float | None, best: float) -> str:
    if value is None:
        return ""
    return f"**{value:.3f}**" if value == best else f"{value:.3f}"
