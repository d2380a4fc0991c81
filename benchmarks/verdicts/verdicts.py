"""How often the verdict is wrong, on runs whose truth is known.

    python -m benchmarks verdicts [--short] [--again] [--only WORDS ...] [--page PAGE.md]
        [--out benchmarks/results/verdicts.json]

A run is *wrong* where the mean of any function output is off by more than 0.2 standard deviations
of the posterior, or its standard deviation by more than 20 %. For each situation:

* false "converged": runs called converged though wrong, of all runs;
* withheld: runs that are right and were not called converged, of those that are right.

Situations with `ample` runs are judged a second time, with four times the draws needed: as many as
give the smallest of bulk, tail, mean and spread effective sample size 100 per chain, and 400 in
all.

Groups, run by run: *seen*, four chains or more, which together have been in every mode for ten
draws or more; *few*, fewer than four chains, or starts that are closer together than draws by
design; *unseen*, modes in which no chain has been, which no diagnosis can see.

Results are kept by situation; a second call measures what is missing. `--short`: few runs of a few
situations, with bounds, and nothing is written.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.records import RESULTS, Record
from benchmarks.verdicts.verdict_kernels import KERNEL_SITUATIONS
from benchmarks.verdicts.verdict_runs import Judge, Row, kernel_row, rows_of, verdict_of
from benchmarks.verdicts.verdict_situations import SITUATIONS
from benchmarks.verdicts.verdict_tables import AMPLE, rates, tables

FALSE_BOUND, WITHHELD_BOUND, _CHANCE = 0.02, 0.1, 0.001
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")
# What a test runs: kinds of situations that a broken verdict would get wrong, few runs of each.
SHORT = {
    "normal": 40,
    "normal, 2 chains": 10,
    "normal, 100 outputs": 5,
    "t(8)": 40,
    "t(3)": 100,
    "t(2.5), 10 outputs": 60,
    "AR(0.99)": 40,
    "AR(0.999), 5 of 100 outputs": 10,
    "AR(0.97), starts shifted by 5 sd": 40,
    "two modes, every 100": 40,
    "two modes, never": 60,
    "two modes, never, 2 chains": 40,
    "two modes, never, starts at one place": 20,
    "weights 0.9 and 0.1, every 300": 60,
}
SHORT_AMPLE = ("normal", "exponential", "t(8)", "AR(0.9)")


def short_rows(judge: Judge = verdict_of) -> dict[str, Row]:
    """A few runs of a few situations, and what four times the draws needed give."""
    found: dict[str, Row] = {}
    for situation in SITUATIONS:
        if situation.name in SHORT:
            few = replace(situation, runs=SHORT[situation.name], ample=0)
            found |= rows_of(few, judge)
        if situation.name in SHORT_AMPLE:
            row = rows_of(replace(situation, runs=1, ample=40), judge)
            found |= {name: part for name, part in row.items() if name != situation.name}
    return found


def beyond_bounds(rows: Mapping[str, Row]) -> list[str]:
    """Sentences about rows that are beyond the bounds by more than chance: one in 1 000.

    At most 2 % false "converged" where every mode has been seen; no "converged" with few chains or
    underdispersed starts; at most 10 % withheld though right with four times the draws needed.
    """
    from scipy.stats import binom

    def too_many(count: int, total: int, bound: float) -> bool:
        return bool(count and binom.sf(count - 1, total, bound) < _CHANCE)

    broken = []
    for name, row in rows.items():
        seen, few = rates(row, "seen"), rates(row, "few")
        for found in (seen, rates(row, "biased")):
            if too_many(found.false, found.runs, FALSE_BOUND):
                broken.append(
                    f"{name}: {found.false} of {found.runs} runs are converged though wrong"
                )
        if few.called:
            broken.append(f"{name}: {few.called} of {few.runs} runs are called converged")
        right = seen.runs - seen.wrong
        ample = row["draws"] >= AMPLE * row.get("draws_needed", np.inf)
        if ample and too_many(seen.withheld, right, WITHHELD_BOUND):
            broken.append(f"{name}: {seen.withheld} of {right} runs are withheld though right")
    return broken


def write_page(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page.

    Raises:
        ValueError: the page lacks a mark.
    """
    old = page.read_text()
    if any(old.count(mark) != 1 for mark in MARKS):
        raise ValueError(f"{page} must have the lines {MARKS[0]!r} and {MARKS[1]!r}, once each.")
    head, _, rest = old.partition(MARKS[0])
    tail = rest.partition(MARKS[1])[2]
    page.write_text(f"{head}{MARKS[0]}\n\n{text}\n{MARKS[1]}{tail}")


def _everything(judge: Judge) -> Iterator[tuple[str, Callable[[], dict[str, dict[str, Any]]]]]:
    for situation in SITUATIONS:
        yield situation.name, partial(rows_of, situation, judge)
    for whole in KERNEL_SITUATIONS:
        yield whole.name, partial(kernel_row, whole)


def main(
    *,
    short: bool = False,
    again: bool = False,
    only: tuple[str, ...] = (),
    page: Path | None = None,
    out: Path = RESULTS / "verdicts.json",
    before: Path = RESULTS / "verdicts-before.json",
) -> str | None:
    """Measure what is missing, and print the table.

    Args:
        short: few runs, and nothing is written.
        again: measure what has been measured too.
        only: situations whose names have one of these words.
        page: put the tables between the marks of this page.
        before: results of an older verdict.

    Returns:
        Of few runs, what is beyond the bounds.
    """
    if short:
        rows = short_rows()
        print(tables(rows))
        return "\n".join(beyond_bounds(rows)) or None
    record = Record(out)
    for name, work in _everything(verdict_of):
        chosen = not only or any(word in name for word in only)
        if not chosen or (name in record.rows and not again):
            continue
        for row, found in work().items():
            record[row] = found
            print(f"{row}: {found['counts']}, {found['seconds']} s", flush=True)
    if page is not None:
        write_page(page, tables(record.rows, Record(before).rows))
    print("\n".join(beyond_bounds(record.rows)))
    return None
