"""Runs of a situation, each judged by the verdict and compared with the truth, and counted."""

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bayesnn_ppl.diagnostics import diagnose, ess_bulk, ess_tail
from benchmarks.verdicts.verdict_chains import Array, Runs
from benchmarks.verdicts.verdict_kernels import KernelSituation, judged_run
from benchmarks.verdicts.verdict_situations import Situation
from benchmarks.verdicts.verdict_tables import AMPLE

MEAN_LIMIT, SPREAD_LIMIT = 0.2, 0.2
FEWEST_CHAINS = 4
_VALUES = 4_000_000  # function values that are made at once
_PILOT = (4, 4, 20_000)
_MOST_DRAWS = 100_000  # of a chain with four times the draws needed

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
