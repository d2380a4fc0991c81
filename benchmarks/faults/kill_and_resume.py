"""Runs of real samplers, killed at random moments and resumed: do they end with the same bits?

    nice -n 15 python -m benchmarks kill_and_resume [--kills 500] [--busy 2] [--out FILE]

A trial is one run, killed by SIGKILL up to three times and then resumed to its end. It is compared
bit by bit with a run of the same seed that was never killed. One trial in ten is not killed at all:
where that one differs, resuming is not to blame. One line of JSON a trial is appended to the
record, so the command can be ended at any time and continues with the next trial.

Samplers are HMC, NUTS, SGHMC, MCLMC and ChEES on `mlp(hidden=(12,))` and diabetes. `--busy`
processes compete for the processors, in bursts. A worker of a cluster makes its chains as such a
process does.

**What is made cheaper than in use.** "forked" trials start their processes as forks of this one,
which has imported everything and computed nothing, take compiled programs from JAX's cache, and
commit every tenth of a second in short chunks. They repeat what is written and read a hundred times
as often, but would not notice that a program was compiled in another way. "fresh" ones start Python
again, with another hash seed, compile, and commit as by default. In "crash" trials no process dies:
a random write, and each one after it, fails by an exception that nothing catches, and the same
process resumes the run, twelve times. They are counted apart from kills.

Each process leaves a hash of its compiled program, and each row has one of the library's files: a
difference can then be told from a change of the code while the campaign ran. Runs that differ are
kept in `--keep`.
"""

import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.faults.kill_comparison import apart, compare, summary
from benchmarks.faults.kill_processes import attempt, competitors, import_all
from benchmarks.faults.kill_workers import CASES, Job, committed, source_hash
from benchmarks.harness.records import RESULTS, Record

STARTS = ("forked", "crash", "forked", "fresh")
_CRASHES = 12


@dataclass
class Campaign:
    """Where trials are made, and what they are compared with."""

    place: Path
    scale: float

    def __post_init__(self) -> None:
        self.place /= f"{source_hash()}-{self.scale:g}"
        self.place.mkdir(parents=True, exist_ok=True)
        self.cache = str(self.place / "compiled")
        # (case, whether fresh) -> processor time of a run that is not killed
        self.seconds: dict[tuple[str, bool], float] = {}
        for file in self.place.glob("*/seconds"):
            self.seconds[file.parent.name, False] = float(file.read_text())

    def trial(
        self, case: str, generator: random.Random, *, start: str, kills: int
    ) -> dict[str, Any]:
        """One run, killed up to so many times; the row of the record."""
        reference = self.reference(case)
        path = self.place / "trial" / "run"
        shutil.rmtree(path.parent, ignore_errors=True)
        row: dict[str, Any] = {
            "case": case,
            "processes": 1,
            "start": start,
            "source": source_hash(),
            "load": round(os.getloadavg()[0], 1),
        }
        fresh, began = start == "fresh", time.monotonic()
        whole = self.seconds.get((case, fresh), self.seconds[case, False])
        crashes = _CRASHES if start == "crash" else 0
        kills = 0 if crashes else kills
        struck: list[dict[str, Any]] = []
        programs: list[str] = []
        for number in range(kills + 1):
            last = number == kills
            # Of the time that is left: about 2/5 of the whole goes by before a draw is made.
            left = whole * (1.0 - 0.6 * struck[-1]["share"] if struck else 1.0)
            moment = None if last else left * generator.uniform(0.2, 0.95)
            meeting = path.parent / f"attempt-{number}"
            meeting.mkdir(parents=True)
            job = self.job(case, path, meeting, cache=not fresh)
            job = replace(job, crashes=crashes, seed=generator.randrange(2**32))
            status, seconds = attempt(job, fresh=fresh, after=moment)
            programs += [f.read_text() for f in meeting.glob("program")]
            if not status:
                if not number and not crashes:
                    self.seconds[case, fresh] = seconds
                break
            if status != -signal.SIGKILL or last:
                words = _last_sentence(meeting / "words", path)
                return row | {"same": None, "ended": {"with": status, "words": words}}
            where = committed(path, int(CASES[case].draws * self.scale))
            struck.append({"after": round(seconds, 2)} | where)
            if path.is_dir() and not (path / "commit.json").exists():
                shutil.rmtree(path)  # killed before there was a run
        difference = apart(lambda: compare(path, reference))
        crashed = path.parent / "attempt-0" / "crashes"
        return row | {
            "kills": struck,
            "crashes": json.loads(crashed.read_text()) if crashed.exists() else [],
            "kills_of_a_run_with_a_commit": sum(kill["committed"] for kill in struck),
            "programs": sorted(set(programs)),
            "seconds": round(time.monotonic() - began, 1),
            "same": difference is None,
            "difference": difference,
        }

    def job(self, case: str, path: Path, meeting: Path, *, cache: bool) -> Job:
        return Job(case, str(path), str(meeting), self.cache if cache else None, self.scale)

    def reference(self, case: str) -> Path:
        """A run that was never killed, made once; its time is that of one with warm caches."""
        path = self.place / case
        if (case, False) in self.seconds:
            return path
        for again in (False, True):
            shutil.rmtree(path, ignore_errors=True)
            meeting = self.place / f"{case}-{'second' if again else 'first'}"
            shutil.rmtree(meeting, ignore_errors=True)
            meeting.mkdir(parents=True)
            job = self.job(case, path, meeting, cache=True)
            status, seconds = attempt(job, fresh=False, after=None)
            if status:
                words = (meeting / "words").read_text()
                raise RuntimeError(f"The reference of {case} was not made: {words}")
        self.seconds[case, False] = seconds
        (path / "seconds").write_text(str(seconds))  # last: with it the reference is whole
        return path


def _last_sentence(file: Path, path: Path) -> str:
    """What a process said last, without the names of this machine."""
    said = file.read_text().strip().split("\n")[-1].replace(str(path), "the run")
    return re.sub(r"\(host [^)]*\) ", "", said)


def main(
    *,
    kills: int = 500,
    trials: int = 10**6,
    busy: int = 2,
    cases: tuple[Literal[*CASES], ...] = tuple(CASES),
    starts: tuple[Literal[*STARTS], ...] = STARTS,
    scale: float = 1.0,
    out: Path = RESULTS / "kill_and_resume.jsonl",
    place: Path | None = None,
    keep: Path | None = None,
) -> int:
    """Trials until the record has the kills asked for; 1 where a run differed.

    Args:
        kills: in the record, when it ends.
        trials: in the record, at most.
        busy: processes that compete.
        scale: of the numbers of draws.
        place: keeps references and caches.
        keep: folder for runs that differ.
    """
    import_all()
    record = Record(out, key=("trial",))
    with tempfile.TemporaryDirectory(prefix="bayesnn-kill-") as folder:
        campaign = Campaign(place or Path(folder), scale)
        with competitors(busy, random.Random(0)):
            while (number := len(record.rows)) < trials and _summary(record)["kills"] < kills:
                # Each trial has its own seed, whichever session makes it.
                case = cases[number % len(cases)]
                generator = random.Random(number)
                begun = starts[number // len(cases) % len(starts)]
                most = 0 if number % 10 == 9 else 3
                row = campaign.trial(case, generator, start=begun, kills=most)
                record[number] = row
                if not row["same"] and keep is not None:
                    kept = keep / f"trial-{number}-{time.time():.0f}"
                    shutil.copytree(campaign.place / "trial", kept / "trial")
                    shutil.copytree(campaign.reference(case), kept / "reference")
    found = _summary(record)
    print(json.dumps(found, indent=1))
    return 1 if found["differing"] or found["ended_by_themselves"] else 0


def _summary(record: Record) -> dict[str, Any]:
    return summary(list(record.rows.values()))
