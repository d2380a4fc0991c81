"""Runs of real samplers, killed at random moments and resumed: do they end with the same bits?

    nice -n 15 python -m benchmarks kill_and_resume [--kills 500] [--busy 2] [--out FILE]

A trial is one run, killed by SIGKILL up to three times and then resumed to its end. It is compared
bit by bit with a run of the same seed that was never killed. One trial in ten is not killed at all:
where that one differs, resuming is not to blame. One line of JSON a trial is appended to the
record, so the command can be ended at any time and continues with the next trial.

Samplers are HMC, NUTS, SGHMC, MCLMC and ChEES on `mlp(hidden=(12,))` and the diabetes data; all but
the last, which moves its chains together, also with two processes that share the chains. `--busy`
processes compete for the processors, in bursts.

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

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.faults.kill_comparison import apart, compare, summary
from benchmarks.faults.kill_workers import CASES, Job, committed, source_hash, work

HERE = Path(__file__).parents[1]
STARTS = ("forked", "crash", "forked", "fresh")
_LIMIT_SECONDS = 1800.0
_CRASHES = 12


def start(job: Job, *, fresh: bool) -> int:
    """Start the process of a job; returns its number."""
    words = Path(job.meeting) / f"words-{job.index}"
    if fresh:
        command = [sys.executable, "-m", "benchmarks.faults.kill_workers"]
        with words.open("w") as file:
            child = subprocess.Popen(
                [*command, json.dumps(asdict(job))], stdout=file, stderr=file, cwd=HERE.parent
            )
        _popen[child.pid] = child
        return child.pid
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        said = os.open(words, os.O_CREAT | os.O_WRONLY)
        os.dup2(said, 1)
        os.dup2(said, 2)
        work(job)
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    os._exit(status)


_popen: dict[int, Any] = {}  # kept, for a child that is collected would be waited for twice


def _attempt(
    jobs: Sequence[Job], *, fresh: bool, victim: int, after: float | None
) -> tuple[list[int], float]:
    """Run the processes, and kill one after so many seconds of its processor time.

    By the clock, a kill would come before the first draw or after the last one of a busy machine.

    Returns:
        The exit statuses, and the victim's seconds of processor time.
    """
    children = [start(job, fresh=fresh) for job in jobs]
    began, ends, used = time.monotonic(), {}, 0.0
    while len(ends) < len(children):
        for index, child in enumerate(children):
            if index not in ends:
                found, status, usage = os.wait4(child, os.WNOHANG)
                if found:
                    ends[index] = os.waitstatus_to_exitcode(status)
                    if index == victim:
                        used = usage.ru_utime + usage.ru_stime
        passed = time.monotonic() - began
        if after is not None and victim not in ends and _processor_time(children[victim]) > after:
            after = None
            os.kill(children[victim], signal.SIGKILL)
        if passed > _LIMIT_SECONDS:
            for index, child in enumerate(children):
                if index not in ends:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
            raise RuntimeError(f"It took more than {_LIMIT_SECONDS:.0f} s.")
        time.sleep(0.005)
    for child in children:
        if child in _popen:
            _popen.pop(child).returncode = 0  # collected above
    return [ends[i] for i in range(len(children))], used


def _processor_time(process: int) -> float:
    """Seconds of the processor that a process has used, by Linux's own account."""
    after_the_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, after_the_name[11:13])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Campaign:
    """Where trials are made, and what they are compared with."""

    place: Path
    scale: float

    def __post_init__(self) -> None:
        self.place /= f"{source_hash()}-{self.scale:g}"
        self.place.mkdir(parents=True, exist_ok=True)
        self.cache = str(self.place / "compiled")
        # (case, processes, whether fresh) -> processor time of a run that is not killed
        self.seconds: dict[tuple[str, int, bool], float] = {}
        for file in self.place.glob("*/seconds"):
            case, _, count = file.parent.name.rpartition("-")
            self.seconds[case, int(count), False] = float(file.read_text())

    def trial(
        self, case: str, count: int, generator: random.Random, *, start: str, kills: int
    ) -> dict[str, Any]:
        """One run, killed up to so many times; the row of the record."""
        reference = self.reference(case, count)
        path = self.place / "trial" / "run"
        shutil.rmtree(path.parent, ignore_errors=True)
        row: dict[str, Any] = {
            "case": case,
            "processes": count,
            "start": start,
            "source": source_hash(),
            "load": round(os.getloadavg()[0], 1),
        }
        fresh, began = start == "fresh", time.monotonic()
        whole = self.seconds.get((case, count, fresh), self.seconds[case, count, False])
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
            jobs = self.jobs(case, path, count, meeting, cache=not fresh)
            jobs = [replace(j, crashes=crashes, seed=generator.randrange(2**32)) for j in jobs]
            victim = generator.randrange(count)
            ends, seconds = _attempt(jobs, fresh=fresh, victim=victim, after=moment)
            programs += [f.read_text() for f in sorted(meeting.glob("program-*"))]
            if not any(ends):
                if not number and not crashes:
                    self.seconds[case, count, fresh] = seconds
                break
            if ends[victim] != -signal.SIGKILL or last:
                words = [_last_sentence(f, path) for f in meeting.glob("words-*")]
                return row | {"same": None, "ended": {"with": ends, "words": words}}
            where = committed(path, int(CASES[case].draws * self.scale))
            struck.append({"after": round(seconds, 2), "victim": victim} | where)
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

    def jobs(self, case: str, path: Path, count: int, meeting: Path, *, cache: bool) -> list[Job]:
        place = self.cache if cache else None
        return [
            Job(case, str(path), index, count, str(meeting), place, self.scale)
            for index in range(count)
        ]

    def reference(self, case: str, count: int) -> Path:
        """A run that was never killed, made once; its time is that of one with warm caches."""
        path = self.place / f"{case}-{count}"
        if (case, count, False) in self.seconds:
            return path
        for again in (False, True):
            shutil.rmtree(path, ignore_errors=True)
            meeting = self.place / f"{case}-{count}-{'second' if again else 'first'}"
            shutil.rmtree(meeting, ignore_errors=True)
            meeting.mkdir(parents=True)
            jobs = self.jobs(case, path, count, meeting, cache=True)
            ends, seconds = _attempt(jobs, fresh=False, victim=0, after=None)
            if any(ends):
                words = "\n".join(f.read_text() for f in meeting.glob("words-*"))
                raise RuntimeError(f"The reference of {case} was not made: {words}")
        self.seconds[case, count, False] = seconds
        (path / "seconds").write_text(str(seconds))  # last: with it the reference is whole
        return path


def _last_sentence(file: Path, path: Path) -> str:
    """What a process said last, without the names of this machine."""
    said = file.read_text().strip().split("\n")[-1].replace(str(path), "the run")
    return re.sub(r"\(host [^)]*\) ", "", said)


@contextmanager
def busy(count: int, generator: random.Random) -> Iterator[None]:
    """Processes that compute in bursts of up to half a second, and rest as long."""
    children = []
    for seed in [generator.randrange(2**32) for _ in range(count)]:
        child = os.fork()
        if not child:
            own = random.Random(seed)
            parent = os.getppid()
            while os.getppid() == parent:  # not longer than the campaign
                ends = time.monotonic() + own.uniform(0.0, 0.5)
                while time.monotonic() < ends:
                    pass
                time.sleep(own.uniform(0.0, 0.5))
            os._exit(0)
        children.append(child)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def main() -> int:
    """Trials until the record has the kills asked for; 1 where a run differed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=500, help="in the record, when it ends")
    parser.add_argument("--trials", type=int, default=10**6, help="in the record, at most")
    parser.add_argument("--busy", type=int, default=2, help="processes that compete")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of draws")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "kill_and_resume.jsonl")
    parser.add_argument("--place", type=Path, default=None, help="keeps references and caches")
    parser.add_argument("--keep", type=Path, default=None, help="folder for runs that differ")
    arguments = parser.parse_args()
    _import_all()
    rows = _read(arguments.out)
    wanted = [(n, c) for n in arguments.cases for c in CASES[n].processes]
    with tempfile.TemporaryDirectory(prefix="bayesnn-kill-") as place:
        campaign = Campaign(arguments.place or Path(place), arguments.scale)
        with busy(arguments.busy, random.Random(0)):
            while len(rows) < arguments.trials and summary(rows)["kills"] < arguments.kills:
                number = len(rows)  # each trial has its own seed, whichever session makes it
                case, count = wanted[number % len(wanted)]
                generator = random.Random(number)
                begun = arguments.starts[number // len(wanted) % len(arguments.starts)]
                if begun == "crash" and count > 1:
                    begun = "forked"  # the others would wait for one that has crashed
                kills = 0 if number % 10 == 9 else 3
                row = campaign.trial(case, count, generator, start=begun, kills=kills)
                rows.append({"trial": number} | row)
                with arguments.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
                if not row["same"] and arguments.keep is not None:
                    kept = arguments.keep / f"trial-{number}-{time.time():.0f}"
                    shutil.copytree(campaign.place / "trial", kept / "trial")
                    shutil.copytree(campaign.reference(case, count), kept / "reference")
    found = summary(rows)
    print(json.dumps(found, indent=1))
    return 1 if found["differing"] or found["ended_by_themselves"] else 0


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


# A fork has the locks of libraries' threads and not the threads, so there must not be any.
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


def _import_all() -> None:
    """Import what the children need, without a thread; a process of its own, if need be."""
    if any(os.environ.get(name) != value for name, value in _WITHOUT_THREADS.items()):
        again = [sys.executable, "-m", "benchmarks", "kill_and_resume", *sys.argv[1:]]
        os.execve(sys.executable, again, os.environ | _WITHOUT_THREADS)
    import numpyro.infer
    import xarray
    import zarr

    from bayesnn_ppl.inference import resuming
    from bayesnn_ppl.inference.sampling import sampler

    assert numpyro.infer and xarray and zarr and resuming and sampler
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SystemExit(f"Importing has started {threads - 1} threads, which a fork would lose.")
