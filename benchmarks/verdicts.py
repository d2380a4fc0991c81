"""How often the verdict is wrong, on runs whose truth is known.

    python -m benchmarks.verdicts [--short] [--again] [--only WORDS ...] [--markdown]
        [--out benchmarks/results/verdicts.json]

A run is *wrong* where the mean of any function output is off by more than 0.2 standard deviations
of the posterior, or its standard deviation by more than 20 %. For each situation:

* false "converged": runs called converged though wrong, of all runs;
* withheld: runs that are right and were not called converged, of those that are right.

Situations with `ample` runs are judged a second time, with four times the draws needed: as many as
give the smallest of bulk, tail, mean and spread effective sample size 100 per chain, and 400 in
all.

Groups, run by run: *seen*, four chains or more, which together have been in every mode; *few*, less
than four chains, or starts that are closer together than draws by design; *unseen*, modes in which
no chain has been, which no diagnosis can see.

Results are kept by situation; a second call measures what is missing. `--short`: few runs of a few
situations, with bounds, and nothing is written.
"""

import argparse
import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.diagnostics import diagnose, ess_bulk, ess_tail
from benchmarks.verdict_chains import Array, Runs
from benchmarks.verdict_situations import SITUATIONS, Situation

MEAN_LIMIT, SPREAD_LIMIT = 0.2, 0.2
_VALUES = 4_000_000  # function values that are made at once
_PILOT = (4, 4, 20_000)
_MOST_DRAWS = 100_000  # of a chain with four times the draws needed
RESULTS = Path("benchmarks/results/verdicts.json")

type Judge = Callable[[Array, Array], str]


def wrong(values: Array, mean: Array, sd: Array) -> bool:
    """Whether any output of (chain, draw, output) is off in mean or standard deviation."""
    shift = np.abs(values.mean(axis=(0, 1)) - mean) / sd
    spread = np.abs(values.std(axis=(0, 1)) / sd - 1)
    return bool((shift > MEAN_LIMIT).any() or (spread > SPREAD_LIMIT).any())


def verdict_of(values: Array, starts: Array) -> str:
    """The status of one run, (chain, draw, output), of a sampler with an accept step."""
    return diagnose({"f": values}, {}, {}, starts={"f": starts}, accept_step=True).status


def draws_needed(situation: Situation) -> int:
    """Draws a chain for effective sample sizes of 100 per chain and 400 in all, from a long run."""
    runs, chains, draws = _PILOT
    draws = draws // 10 if situation.outputs > 99 else draws
    made = situation.source(_generator(situation.name, "pilot"), (runs, chains, draws))
    rates = []
    for values in made.values:
        squares = (values - values.mean(axis=(0, 1))) ** 2
        measured = (ess_bulk(values), ess_tail(values), ess_bulk(squares))
        rates.append(np.array(measured) / (chains * draws))
    # Outputs of one situation mix alike or not at all: those that differ are told apart by a mean
    # over runs, and equal ones are not judged by the luckless one of a thousand.
    lowest = np.mean(rates, axis=0).min()
    wanted = max(400, 100 * situation.chains)
    return int(np.ceil(wanted / lowest / situation.chains))


def _generator(*words: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def _blocks(situation: Situation, runs: int, draws: int, kind: str) -> Iterator[Runs]:
    """Runs of a situation, as many at a time as fit the memory."""
    size = situation.chains * draws * situation.outputs
    block = max(1, _VALUES // size)
    for begin in range(0, runs, block):
        shape = (min(block, runs - begin), situation.chains, draws)
        yield situation.source(_generator(situation.name, kind, begin), shape)


def group_of(situation: Situation, complete: bool) -> str:
    """Of one run: "seen", "few" or "unseen"."""
    if situation.chains < 4 or situation.underdispersed:
        return "few"
    return "seen" if complete else "unseen"


def measure(
    situation: Situation, runs: int, draws: int, kind: str, judge: Judge
) -> dict[str, Any]:
    """Counts of runs by group, status and truth: `counts[group][status] = [right, wrong]`."""
    began = time.process_time()
    counts: dict[str, dict[str, list[int]]] = {}
    for made in _blocks(situation, runs, draws, kind):
        for values, starts, complete in zip(made.values, made.starts, made.complete, strict=True):
            group = counts.setdefault(group_of(situation, bool(complete)), {})
            pair = group.setdefault(judge(values, starts), [0, 0])
            pair[wrong(values, made.mean, made.sd)] += 1
    return {
        "chains": situation.chains,
        "draws": draws,
        "outputs": situation.outputs,
        "runs": runs,
        "counts": counts,
        "seconds": round(time.process_time() - began, 1),
    }


def rows_of(situation: Situation, judge: Judge = verdict_of) -> dict[str, dict[str, Any]]:
    """Row name -> counts: the situation as it is, and with four times the draws needed."""
    rows = {situation.name: measure(situation, situation.runs, situation.draws, "run", judge)}
    if situation.ample:
        needed = draws_needed(situation)
        draws = 4 * needed
        if draws <= _MOST_DRAWS:
            found = measure(situation, situation.ample, draws, "ample", judge)
            rows[f"{situation.name}, ample"] = found | {"draws_needed": needed}
    return rows


def main(arguments: Sequence[str] | None = None, judge: Judge = verdict_of) -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="measure what has been measured too")
    parser.add_argument("--only", nargs="+", help="situations whose names have one of these words")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the docs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    for name, work in _everything(judge):
        chosen = not options.only or any(word in name for word in options.only)
        if not chosen or (name in rows and not options.again):
            continue
        for row, found in work().items():
            rows[row] = found
            print(f"{row}: {found['counts']}, {found['seconds']} s", flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"rows": rows}, indent=1, ensure_ascii=False) + "\n")
    if options.markdown:
        print(tables(rows))


def _everything(judge: Judge) -> Iterator[tuple[str, Callable[[], dict[str, dict[str, Any]]]]]:
    for situation in SITUATIONS:
        yield situation.name, partial(rows_of, situation, judge)


if __name__ == "__main__":
    main()
