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

import argparse
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.diagnostics import diagnose, ess_bulk, ess_tail
from benchmarks.verdicts.verdict_chains import Array, Runs
from benchmarks.verdicts.verdict_kernels import KERNEL_SITUATIONS, KernelSituation, judged_run
from benchmarks.verdicts.verdict_situations import SITUATIONS, Situation
from benchmarks.verdicts.verdict_tables import AMPLE, rates, tables

MEAN_LIMIT, SPREAD_LIMIT = 0.2, 0.2
FEWEST_CHAINS = 4
FALSE_BOUND, WITHHELD_BOUND, _CHANCE = 0.02, 0.1, 0.001
_VALUES = 4_000_000  # function values that are made at once
_PILOT = (4, 4, 20_000)
_MOST_DRAWS = 100_000  # of a chain with four times the draws needed
RESULTS = Path("benchmarks/results/verdicts.json")
BEFORE = Path("benchmarks/results/verdicts-before.json")
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

type Judge = Callable[[Array, Array], tuple[str, Sequence[str]]]
type Row = dict[str, Any]


def wrong(values: Array, mean: Array, sd: Array) -> bool:
    """Whether any output of (chain, draw, output) is off in mean or standard deviation."""
    with np.errstate(invalid="ignore", over="ignore"):
        shift = np.abs(values.mean(axis=(0, 1)) - mean) / sd
        spread = np.abs(values.std(axis=(0, 1)) / sd - 1)
    # Not "> limit": a NaN is wrong.
    return not bool((shift <= MEAN_LIMIT).all() and (spread <= SPREAD_LIMIT).all())


def verdict_of(values: Array, starts: Array) -> tuple[str, Sequence[str]]:
    """Status and what was not passed, of one run (chain, draw, output) with an accept step."""
    found = diagnose({"f": values}, {}, {}, starts={"f": starts}, accept_step=True)
    return found.status, not_passed(found)


def not_passed(found: Any) -> list[str]:
    """Names of the judgements that a diagnosis did not pass; of a fit there are none."""
    judgements = getattr(found, "judgements", ())
    return [part.name for part in judgements if part.status != "passed"]


class Tally:
    """Counts of runs: `counts[group][status] = [right, wrong]`, and what withheld the right."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, list[int]]] = {}
        self.withheld_by: dict[str, int] = {}
        self.began = time.process_time()

    def add(self, group: str, status: str, is_wrong: bool, reasons: Sequence[str]) -> None:
        """Count one run."""
        self.counts.setdefault(group, {}).setdefault(status, [0, 0])[is_wrong] += 1
        if not is_wrong:
            for name in reasons:
                self.withheld_by[name] = self.withheld_by.get(name, 0) + 1

    def row(self, **settings: Any) -> Row:
        """With the settings of the runs, as it is stored."""
        seconds = round(time.process_time() - self.began, 1)
        return settings | {
            "counts": self.counts,
            "withheld_by": self.withheld_by,
            "seconds": seconds,
        }


def draws_needed(situation: Situation) -> int:
    """Draws a chain for effective sample sizes of 100 per chain and 400 in all, from a long run."""
    runs, chains, draws = _PILOT
    draws = draws // 10 if situation.outputs > 99 else draws
    made = situation.source(_generator(situation.name, "pilot"), (runs, chains, draws))
    # Outputs of one situation mix alike or not at all: those that differ are told apart by a mean
    # over runs, and equal ones are not judged by the luckless one of a thousand.
    lowest = np.mean([effective_draws(values) for values in made.values], axis=0).min()
    return needed_at(lowest / (chains * draws), situation.chains)


def effective_draws(values: Array) -> Array:
    """Bulk, tail and spread effective sample sizes of (chain, draw, output), (3, output)."""
    squares = (values - values.mean(axis=(0, 1))) ** 2
    return np.array((ess_bulk(values), ess_tail(values), ess_bulk(squares)))


def needed_at(rate: float, chains: int) -> int:
    """Draws a chain for 100 effective draws per chain and 400 in all, `rate` of which are."""
    return int(np.ceil(max(400, 100 * chains) / rate / chains))


def _generator(*words: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def _blocks(situation: Situation, runs: int, draws: int, kind: str) -> Iterator[Runs]:
    """Runs of a situation, as many at a time as fit the memory."""
    size = situation.chains * draws * situation.outputs
    block = max(1, _VALUES // size)
    for begin in range(0, runs, block):
        shape = (min(block, runs - begin), situation.chains, draws)
        yield situation.source(_generator(situation.name, kind, begin), shape)


def group_of(chains: int, *, underdispersed: bool, complete: bool) -> str:
    """Of one run: "seen", "few" or "unseen"."""
    if chains < FEWEST_CHAINS or underdispersed:
        return "few"
    return "seen" if complete else "unseen"


def measure(situation: Situation, runs: int, draws: int, kind: str, judge: Judge) -> Row:
    """Judge runs of chains made in NumPy."""
    tally, chains = Tally(), situation.chains
    for made in _blocks(situation, runs, draws, kind):
        for values, starts, complete in zip(made.values, made.starts, made.complete, strict=True):
            group = group_of(
                chains, underdispersed=situation.underdispersed, complete=bool(complete)
            )
            status, reasons = judge(values, starts)
            tally.add(group, status, wrong(values, made.mean, made.sd), reasons)
    return tally.row(chains=chains, draws=draws, outputs=situation.outputs, runs=runs)


def rows_of(situation: Situation, judge: Judge = verdict_of) -> dict[str, Row]:
    """Row name -> counts: the situation as it is, and with four times the draws needed."""
    rows = {situation.name: measure(situation, situation.runs, situation.draws, "run", judge)}
    if situation.ample:
        needed = draws_needed(situation)
        draws = AMPLE * needed
        if draws <= _MOST_DRAWS:
            found = measure(situation, situation.ample, draws, "ample", judge)
            rows[f"{situation.name}, ample"] = found | {"draws_needed": needed}
    return rows


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


def kernel_row(situation: KernelSituation) -> dict[str, Row]:
    """Run a kernel, with one seed after another, and judge its runs."""
    tally, rates, read, outputs = Tally(), [], [], 0
    for seed in range(situation.runs):
        found, values, known = judged_run(situation, seed)
        outputs = values.shape[-1]
        is_wrong = wrong(values, known.mean, known.sd)
        if np.isfinite(values).all() and len(values) > 1:
            rates.append(effective_draws(values))
        if not situation.fitted:
            read.append(reading_needs(found.temperatures))
        group = group_of(
            situation.chains,
            underdispersed=situation.underdispersed,
            complete=known.complete(values),
        )
        if situation.fitted:
            group = "fitted"
        elif situation.biased:
            group = "biased"
        tally.add(group, found.status, is_wrong, not_passed(found))
    draws, runs = situation.draws, situation.runs
    row = tally.row(chains=situation.chains, draws=draws, outputs=outputs, runs=runs)
    if rates and not situation.fitted:
        lowest = np.mean(rates, axis=0).min() / (situation.chains * draws)
        # A median: of a reading with heavy tails a single run can ask for any number.
        longer = np.median(read) * draws
        row["draws_needed"] = max(needed_at(lowest, situation.chains), int(np.ceil(longer)))
    return {situation.name: row}


def reading_needs(temperatures: Any) -> float:
    """How many times the draws make intervals of the outputs' temperatures ± 0.36 T; 0 without.

    That is how far 0.64 T is away, below which the spread is off by 20 %.
    """
    if temperatures is None:
        return 0.0
    readings = [array.configurational for array in temperatures.functions]
    half = [(r.upper - r.lower) / 2 / temperatures.temperature for r in readings if r is not None]
    return float((max(half, default=0.0) / 0.36) ** 2)


def main(arguments: Sequence[str] | None = None, judge: Judge = verdict_of) -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="measure what has been measured too")
    parser.add_argument("--only", nargs="+", help="situations whose names have one of these words")
    parser.add_argument("--page", type=Path, help="put the tables between the marks of this page")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--short", action="store_true", help="few runs, and nothing is written")
    parser.add_argument("--before", type=Path, default=BEFORE, help="results of an older verdict")
    options = parser.parse_args(arguments)
    if options.short:
        rows = short_rows(judge)
        print(tables(rows))
        sys.exit("\n".join(beyond_bounds(rows)) or 0)
    rows = _stored(options.out)
    for name, work in _everything(judge):
        chosen = not options.only or any(word in name for word in options.only)
        if not chosen or (name in rows and not options.again):
            continue
        for row, found in work().items():
            rows[row] = found
            print(f"{row}: {found['counts']}, {found['seconds']} s", flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(
            f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(row)}"
            for name, row in rows.items()
        )
        options.out.write_text(f'{{"rows": {{\n{lines}\n}}}}\n')
    if options.page is not None:
        write_page(options.page, tables(rows, _stored(options.before)))
    print("\n".join(beyond_bounds(rows)))


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


def _stored(path: Path) -> dict[str, Row]:
    return json.loads(path.read_text())["rows"] if path.exists() else {}


def _everything(judge: Judge) -> Iterator[tuple[str, Callable[[], dict[str, dict[str, Any]]]]]:
    for situation in SITUATIONS:
        yield situation.name, partial(rows_of, situation, judge)
    for whole in KERNEL_SITUATIONS:
        yield whole.name, partial(kernel_row, whole)
