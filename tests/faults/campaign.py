"""Faults at random moments, and what is left: `python -m tests.faults.campaign --trials 100`.

Each trial starts a run of one to three processes, lets a fault befall it, looks at what is on disk,
and resumes with another number of processes to the end. It passes when no committed draw was lost,
every draw that is ever read is the one it must be, and every process that ended before its time has
said in a sentence why, within a minute.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bayesnn_ppl import storage
from tests.distributed.processes import free_port
from tests.faults import writers

KINDS = (
    "kill -9",
    "SIGTERM",
    "full disk",
    "file limit",
    "clock jump",
    "corrupt file",
    "deleted checkpoint",
)
NOT_MET = "Not all processes of the run met within"  # of one that was lost before it had come
_LIMIT_SECONDS = 60.0


class Failure(AssertionError):
    """A trial that has lost a draw, read a wrong one, or ended silently."""


def expect(condition, words):
    if not condition:
        raise Failure(words)


def trial(kind, place, generator):
    """One trial in the folder `place`; returns what happened, for the record."""
    path = place / "run"
    count = generator.choice([2, 2, 3, 1])
    victim = generator.randrange(count)
    faults = {
        "full disk": {"full": generator.randrange(1, 60)},
        "file limit": {"limit": generator.choice([700, 1500, 4000])},
        "clock jump": {"jump": generator.choice([-1e6, 1e6, 3600.0])},
    }.get(kind, {})
    ends, words, seconds = _run(path, count, victim, kind, faults, generator, place / "first")
    again = generator.choice([1, 2, 3])
    happened = {"kind": kind, "processes": count, "seconds": round(seconds, 2)}
    expect(seconds < _LIMIT_SECONDS, f"it took {seconds:.0f} s to end")
    _told(kind, count, victim, ends, words)
    seed = generator.random()
    happened |= _apart(lambda: _looked_at(kind, path, random.Random(seed)))
    kept = happened["committed"]
    if kind == "deleted checkpoint" and kept:
        _end_without_checkpoint(path, place)
        expect(_apart(lambda: writers.holds(path, kept)), "draws were lost by resuming")
    if "found" in happened:
        return happened | {"went_on_with": 0}
    if not (path / "commit.json").exists() and path.exists():
        shutil.rmtree(path)
    ends, words, _ = _run(path, again, 0, "none", {}, generator, place / "again")
    expect(ends == [0] * again, f"it did not continue: {words}")
    _apart(lambda: _looked_at_the_end(path))
    return happened | {"went_on_with": again}


def _looked_at(kind, path, generator):
    kept = _kept(path)
    if kept:
        expect(writers.holds(path, kept), "committed draws are not what they were")
    happened = {"committed": kept}
    if kind == "corrupt file":
        happened["found"] = _corrupt(path, generator, kept)
    if kind == "deleted checkpoint" and kept:
        happened["found"] = _without_checkpoint(path, kept)
    return happened


def _looked_at_the_end(path):
    expect(_kept(path) == writers.TOTAL, "draws are missing at the end")
    expect(writers.holds(path, writers.TOTAL), "the draws are not those of a run without faults")
    expect(storage.check(path) == [], "the finished run is not whole")


def _apart(look):
    """What `look()` returns, found by a child: zarr's threads must not be there at a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = {"value": look()}
        except Failure as failure:
            found = {"failure": str(failure)}
        except BaseException as error:
            found = {"failure": f"a wrong end: {type(error).__name__}: {error}"}
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    if "failure" in found:
        raise Failure(found["failure"])
    return found["value"]


def _run(path, count, victim, kind, faults, generator, said_in):
    """Run the writers to their end; returns exit statuses, last words and seconds to the end."""
    said_in.mkdir()
    port = free_port()
    children = [
        writers.start(path, i, count, port, said_in, faults if i == victim else {})
        for i in range(count)
    ]
    began, ends = time.monotonic(), {}
    moment = _Moment(path, generator) if kind in _SIGNALS else None
    while len(ends) < count:
        if moment is not None and moment.has_come():
            moment = None
            if victim not in ends:
                os.kill(children[victim], _SIGNALS[kind])
        _collect(children, ends)
        if time.monotonic() - began > _LIMIT_SECONDS + 10:
            for index, child in enumerate(children):
                if index not in ends:
                    os.kill(child, signal.SIGKILL)
            raise Failure(f"processes {sorted(set(range(count)) - set(ends))} hang")
        time.sleep(0.005)
    said = []
    for index in range(count):
        file = said_in / f"words-{index}"
        said.append(file.read_text().strip() if file.exists() else "")
    return [ends[i] for i in range(count)], said, time.monotonic() - began


class _Moment:
    """A random moment of a run: one time in five as it starts, else at a number of its draws.

    By the clock alone most moments of a busy machine come before the first commit, where there is
    nothing to lose.
    """

    def __init__(self, path, generator):
        self.path = path
        starting = generator.random() < 0.2
        self.draws = 0 if starting else generator.randrange(1, writers.TOTAL)
        self.delay = generator.uniform(0.0, 0.8 if starting else 0.05)
        self.reached = None

    def has_come(self):
        if self.reached is None and _kept(self.path) >= self.draws:
            self.reached = time.monotonic()
        return self.reached is not None and time.monotonic() > self.reached + self.delay


_SIGNALS = {
    "kill -9": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "corrupt file": signal.SIGKILL,
    "deleted checkpoint": signal.SIGKILL,
}


def _collect(children, ends):
    for index, child in enumerate(children):
        if index in ends:
            continue
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            ends[index] = os.waitstatus_to_exitcode(status)


def _told(kind, count, victim, ends, words):
    """Every process that ended early has said why, at last in one line that names the lost one."""
    for index, (end, said) in enumerate(zip(ends, words, strict=True)):
        if end == 0 or end < 0:
            continue  # it was finished, or killed and could say nothing
        *above, last = said.splitlines() or [""]
        expect(last.startswith("bayesnn: error: "), f"it said {said!r}")
        expect(last.endswith("."), f"no sentence: {said!r}")
        # JAX has said more where it has ended the process: process 0 is lost, or all never met.
        by_jax = "is lost, or has lost this one" in last or NOT_MET in last
        expect(not above or by_jax, f"several lines: {said!r}")
        if index != victim and count > 1:
            named = f"Process {victim} of {count}" in last or NOT_MET in last
            expect(named, f"{said!r} does not name {victim}")
    if kind == "clock jump":
        expect(not any(ends), f"a jump of the clock ended it: {ends} {words}")


def _kept(path):
    if not (path / "commit.json").exists():
        return 0
    return storage.read_commit(path)["draws"]


def _corrupt(path, generator, kept):
    """Flip a byte of a file that counts: it is found, and what is kept is right."""
    files = [f for f in path.rglob("*") if f.is_file() and ("/c/" in str(f) or f.suffix == ".npz")]
    files = [f for f in files if "/chain/" not in str(f) and "/draw/" not in str(f)]
    if not files or not kept:
        return "nothing was committed"
    file = generator.choice(sorted(files))
    content = bytearray(file.read_bytes())
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    file.write_bytes(bytes(content))
    problems = storage.check(path)
    record = storage.read_commit(path)
    counted = file.parent.name not in ("journal", "checkpoint") or any(
        file.name in name for name in storage.commits.files_of(record)
    )
    if not problems:
        # A file beyond the commit, or a bit that changes nothing: then all is as it was.
        expect(not counted or writers.holds(path, kept), f"damage of {file} is not found")
        return "a file that does not count"
    try:
        whole = storage.repair(path)
    except ValueError as error:
        expect("is whole" in str(error), str(error))
        return "nothing was whole"
    expect(whole <= kept and writers.holds(path, whole), "the repaired run holds wrong draws")
    return f"{whole} of {kept} draws kept"


def _without_checkpoint(path, kept):
    record = storage.read_commit(path)
    for entry in record["checkpoint"] or ():
        (path / entry["file"]).unlink()
    expect(any("is missing" in p for p in storage.check(path)), "the loss is not found")
    expect(writers.holds(path, kept), "draws were lost with the checkpoint")
    return "told, and all draws kept"


def _end_without_checkpoint(path, place):
    (place / "again").mkdir()
    child = writers.start(path, 0, 1, None, place / "again", {})
    _, status = os.waitpid(child, 0)
    said = (place / "again" / "words-0").read_text().strip()
    expect(os.waitstatus_to_exitcode(status) == 1 and "is missing." in said, f"it said {said!r}")


def campaign(trials, seed=0):
    """Run the trials; returns the record. A failed one is in it, with the sentence."""
    generator, records, failures = random.Random(seed), [], []
    began = time.monotonic()
    for number in range(trials):
        kind = KINDS[number % len(KINDS)]
        place = Path(tempfile.mkdtemp(prefix="bayesnn-fault-"))
        try:
            records.append(trial(kind, place, generator))
        except Failure as failure:
            failures.append({"number": number, "kind": kind, "what": str(failure)})
        finally:
            shutil.rmtree(place, ignore_errors=True)
    lost = [f for f in failures if f["what"].startswith(("draws were lost", "draws are missing"))]
    wrong = [f for f in failures if "not what they were" in f["what"] or "not those" in f["what"]]
    return {
        "command": f"python -m tests.faults.campaign --trials {trials} --seed {seed}",
        "python": platform.python_version(),
        "trials": trials,
        "passed": len(records),
        "committed_draws_lost": len(lost),
        "wrong_results": len(wrong),
        "failures": failures,
        "by_kind": dict(Counter(record["kind"] for record in records)),
        "by_processes": dict(Counter(str(record["processes"]) for record in records)),
        "struck_after_a_commit": dict(
            Counter(r["kind"] for r in records if 0 < r["committed"] < writers.TOTAL)
        ),
        "slowest_end_seconds": max((r["seconds"] for r in records), default=None),
        "seconds": round(time.monotonic() - began, 1),
        "records": records,
    }


# Threads of libraries, of which a fork copies the locks and not the threads: children would hang.
# JAX's warning of tolerated losses, which a shell does not show.
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


def main():
    if any(os.environ.get(name) != value for name, value in _ENVIRONMENT.items()):
        again = [sys.executable, "-m", "tests.faults.campaign", *sys.argv[1:]]
        os.execve(sys.executable, again, os.environ | _ENVIRONMENT)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    record = campaign(arguments.trials, arguments.seed)
    text = json.dumps(record, indent=1)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")
    print(json.dumps({k: v for k, v in record.items() if k != "records"}, indent=1))
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
