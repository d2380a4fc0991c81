"""Runs of real samplers, killed at random moments and resumed: do they end with the same bits?

    nice -n 15 python -m benchmarks.kill_and_resume [--kills 500] [--busy 2] [--out FILE]

A trial is one run, killed by SIGKILL up to three times and then resumed to its end. It is compared
bit by bit with a run of the same seed that was never killed. One trial in ten is not killed at all:
where that one differs, resuming is not to blame. One line of JSON a trial is appended to the
record, so the command can be ended at any time and goes on with the next trial.

Samplers are HMC, NUTS, SGHMC, MCLMC and ChEES on `mlp(hidden=(12,))` and the diabetes data; all but
the last, which moves its chains together, also with two processes that share the chains. `--busy`
processes compete for the processors, in bursts.

**What is made cheaper than in use.** "forked" trials start their processes as forks of this one,
which has imported everything and computed nothing, take compiled programs from JAX's cache, and
commit every tenth of a second in short chunks. They repeat what is written and read a hundred times
as often, but would not notice that a program was compiled in another way. "fresh" ones start Python
anew, with another hash seed, compile, and commit as by default. In "crash" trials no process dies:
a random write, and each one after it, fails by an exception that nothing catches, and the same
process resumes the run, twelve times. They are counted apart from kills.

Each process leaves a hash of its compiled program, and each row has one of the library's files: a
difference can then be told from a change of the code while the campaign ran. Runs that differ are
kept in `--keep`.
"""

import argparse
import hashlib
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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import distributed, storage

HERE = Path(__file__).parent
STARTS = ("forked", "crash", "forked", "fresh")
GROUPS = ("starts", "posterior", "sample_stats", "predictions")
_LIMIT_SECONDS = 1800.0
_CRASHES = 12
_SEED = 5


@dataclass(frozen=True)
class Case:
    """A sampler, and how long it runs."""

    make: Callable[[Any], Any]
    warmup: int
    draws: int
    chains: int = 2
    processes: tuple[int, ...] = (1, 2)


def _nuts(model: Any) -> Any:
    from numpyro.infer import NUTS

    return NUTS(model, max_tree_depth=5)


CASES = {
    # The command of the report: one run of 71 ended with other draws, and was not seen again.
    "hmc": Case(lambda model: bnn.kernels.HMC(model, num_leapfrogs=30), 150, 3000),
    "nuts": Case(_nuts, 100, 400),
    "sghmc": Case(lambda m: bnn.kernels.SGHMC(m, batch_size=32, step_size=1e-5), 100, 4000),
    "mclmc": Case(lambda model: bnn.kernels.MCLMC(model), 150, 3000),
    "chees": Case(lambda model: bnn.kernels.ChEES(model), 100, 1000, chains=4, processes=(1,)),
}


@dataclass(frozen=True)
class Job:
    """What one process is told: which run, and its place among those that make it."""

    case: str
    path: str
    index: int
    count: int
    meeting: str
    cache: str | None  # folder of compiled programs; None compiles
    scale: float  # of the numbers of draws
    crashes: int = 0  # of its writes, each of which it survives
    seed: int = 0


def work(job: Job) -> None:
    """Make the run, or go on with it, as one of `job.count` processes."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 1 if job.count > 1 else 2)
    if job.cache is None:
        jax.config.update("jax_enable_compilation_cache", False)
    else:
        jax.config.update("jax_compilation_cache_dir", job.cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        _commit_often()
    team = _meet(job)
    distributed.use(team)
    if job.crashes:
        _crash(job)
    _make(job, team)
    team.close()


def _make(job: Job, team: Any) -> None:
    """Sample, or resume where there is a run."""
    path, data, case = Path(job.path), bnn.data.load("diabetes"), CASES[job.case]
    kernel = case.make(bnn.models.mlp(hidden=(12,)))
    # Agreed, since process 0 may have made the folder when another one looks.
    exists = team.agree((path / "commit.json").exists())[0]
    common: dict[str, Any] = {"progress": False, "callback": _Fingerprint(job)}
    if exists:
        bnn.resume(path, kernel, *data.train, **common)
    else:
        bnn.sample(
            kernel,
            *data.train,
            warmup=max(int(case.warmup * job.scale), 2),
            draws=max(int(case.draws * job.scale), 2),
            chains=case.chains,
            seed=_SEED,
            keep=bnn.Keep(probe=tuple(data.test)),
            out=path,
            **common,
        )


class _Crash(BaseException):
    """The process would be dead."""


def _crash(job: Job) -> None:
    """Start the run, and let a random write of it and all that follow fail, again and again."""
    generator, synchronise, replace = random.Random(job.seed), os.fsync, os.replace
    writes_left = 0

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def crashing(*arguments: Any, **options: Any) -> Any:
            nonlocal writes_left
            writes_left -= 1
            if writes_left < 0:
                raise _Crash
            return write(*arguments, **options)

        return crashing

    path, where = Path(job.path), []
    for _ in range(job.crashes):
        writes_left = generator.randrange(150)
        os.fsync, os.replace = counted(synchronise), counted(replace)
        try:
            _make(job, distributed.current())
            break  # it was finished before
        except _Crash:
            pass
        finally:
            os.fsync, os.replace = synchronise, replace
        where.append(_committed(path, int(CASES[job.case].draws * job.scale)))
        if path.is_dir() and not (path / "commit.json").exists():
            shutil.rmtree(path)
    (Path(job.meeting) / "crashes").write_text(json.dumps(where))


def _commit_often() -> None:
    """Shorter blocks, commits and chunks: as many writes in a second as else in a minute."""
    from bayesnn_ppl.inference import run, sinks
    from bayesnn_ppl.storage import folder

    run._BLOCK_SECONDS, sinks._COMMIT_SECONDS, folder._MOST_CHUNK_DRAWS = 0.05, 0.1, 100


def _meet(job: Job) -> Any:
    """The processes of the run, as `bayesnn sample --processes` has its workers meet."""
    if job.count == 1:
        return distributed.current()
    key = Path(job.meeting) / "key"
    # Processes of a low priority may not say a word for half a minute, which is no loss.
    settings: dict[str, Any] = {"collective": False, "silence": 300.0}
    if job.index == 0:
        team, said, gather = distributed.Team.listen(job.count, **settings)
        key.with_suffix(".partial").write_text(said)
        os.replace(key.with_suffix(".partial"), key)
        gather(120.0)
        return team
    ends = time.monotonic() + 120.0
    while not key.exists():
        if time.monotonic() > ends:
            raise TimeoutError("Process 0 did not come.")
        time.sleep(0.02)
    return distributed.Team.join(job.index, job.count, "127.0.0.1", key.read_text(), **settings)


class _Fingerprint:
    """Leaves a hash of the compiled program, once."""

    def __init__(self, job: Job) -> None:
        self._file: Path | None = Path(job.meeting) / f"program-{job.index}"

    def __call__(self, progress: Any) -> None:
        if self._file is None:
            return
        from bayesnn_ppl.inference.program import _programs

        advance: Any = next(reversed(_programs.values())).advance
        # Metadata say where in the source an operation comes from, which changes no number.
        text = re.sub(r", metadata=\{[^}]*\}", "", advance.as_text())
        self._file.write_text(_sha(text.encode()))
        self._file = None


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:10]


def source_hash() -> str:
    """Of the library's files: a run that goes on with other code is no trial of this one."""
    package = Path(bnn.__file__).parent
    files = sorted([*package.rglob("*.py"), *Path(bnn.models.__file__).parent.glob("*.py")])
    return _sha(b"".join(file.read_bytes() for file in files))


def start(job: Job, *, fresh: bool) -> int:
    """Start the process of a job; returns its number."""
    words = Path(job.meeting) / f"words-{job.index}"
    if fresh:
        command = [sys.executable, "-m", "benchmarks.kill_and_resume", "--job"]
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
            where = _committed(path, int(CASES[case].draws * self.scale))
            struck.append({"after": round(seconds, 2), "victim": victim} | where)
            if path.is_dir() and not (path / "commit.json").exists():
                shutil.rmtree(path)  # killed before there was a run
        difference = _apart(lambda: compare(path, reference))
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


def _committed(path: Path, draws: int) -> dict[str, Any]:
    """Where a killed run of so many draws stands."""
    if not (path / "commit.json").exists():
        return {"phase": "start", "done": 0, "share": 0.0, "committed": False}
    record = storage.read_commit(path)
    return {
        "phase": record["phase"],
        "done": record["done"],
        "share": round(record["draws"] / draws, 3),
        "committed": record["checkpoint"] is not None and not record["complete"],
    }


def compare(path: Path, reference: Path) -> dict[str, Any] | None:
    """Where two finished runs first differ in a bit; None where they do not.

    Returns:
        group, variable, how many draws of which chain are alike, and the size of the difference in
        the first that is not: one of rounding is a program's, a large one a file's.
    """
    record = storage.read_commit(path)
    if not record["complete"] or storage.check(path):
        return {"record": record, "problems": storage.check(path)}
    one, two = storage.read(path), storage.read(reference)
    found = []
    for group in (group for group in GROUPS if group in two.children):
        for name, values in one[group].data_vars.items():
            a, b = values.values, two[group][name].values
            if a.shape != b.shape:
                return {"group": group, "variable": str(name), "shapes": [a.shape, b.shape]}
            if a.tobytes() == b.tobytes():
                continue
            a, b = (v.reshape(len(v), 1 if group == "starts" else v.shape[1], -1) for v in (a, b))
            other = (a.view(np.uint8) != b.view(np.uint8)).any(-1)
            for chain in np.flatnonzero(other.any(1)).tolist():
                draw = int(np.argmax(other[chain]))
                size = np.abs(a[chain, draw].astype(float) - b[chain, draw].astype(float)).max()
                where = {"group": group, "variable": str(name), "chain": chain, "alike": draw}
                found.append(where | {"difference": float(size)})
    return min(found, key=lambda f: f["alike"]) | {"places": len(found)} if found else None


def _apart(look: Callable[[], Any]) -> Any:
    """What `look()` returns, found by a child: zarr's threads must not be there at a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = look()
        except BaseException:
            found = {"error": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(found, pipe, default=str)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    return found


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


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the record says so far."""
    kills = [(row, kill) for row in rows for kill in row.get("kills", ())]
    return {
        "trials": len(rows),
        "kills": len(kills),
        "kills_of_a_run_with_a_commit": sum(kill["committed"] for _, kill in kills),
        "in_warmup": sum(kill["committed"] and kill["phase"] == "warmup" for _, kill in kills),
        "of_each": dict(Counter(f"{r['case']} x {r['processes']}" for r, _ in kills)),
        "crashes": sum(len(row.get("crashes", ())) for row in rows),
        "of_each_start": dict(Counter(row["start"] for row, _ in kills)),
        "never_killed": sum(not (row.get("kills") or row.get("crashes")) for row in rows),
        "programs": {
            name: len({p for r in rows if _named(r) == name for p in r.get("programs", ())})
            for name in sorted({_named(row) for row in rows})
        },
        "differing": [row for row in rows if row["same"] is False],
        "ended_by_themselves": [row for row in rows if row["same"] is None],
    }


def _named(row: dict[str, Any]) -> str:
    return f"{row['case']} x {row['processes']}, {row['source']}"


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
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        work(Job(**json.loads(arguments.job)))
        return 0
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
        again = [sys.executable, "-m", "benchmarks.kill_and_resume", *sys.argv[1:]]
        os.execve(sys.executable, again, os.environ | _WITHOUT_THREADS)
    import numpyro.infer
    import xarray
    import zarr

    from bayesnn_ppl.inference import resuming, runner

    assert numpyro.infer and xarray and zarr and resuming and runner
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SystemExit(f"Importing has started {threads - 1} threads, which a fork would lose.")


if __name__ == "__main__":
    raise SystemExit(main())
