"""Faults in runs of several processes on one mesh, with real samplers:
`python -m tests.faults.mesh_campaign --faults 100 --out benchmarks/results/mesh_faults.jsonl`.

A run is begun, and at a random moment one of its processes fails, is killed, is stopped, or its
host is cut off from the others; process 0, which holds JAX's service, as often as another. All the
others must end within a minute, naming it; every committed draw must be that of a run without
faults; and the run is continued, until the next fault or its end. Each fault is a line of the
record, so that an interrupted campaign continues.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from bayesnn_ppl import storage
from tests.distributed.processes import ENVIRONMENT, free_port
from tests.faults import networks
from tests.faults.campaign import NOT_MET, Failure, expect
from tests.faults.mesh_worker import CASES

_LIMIT_SECONDS = 60.0
_MOST_FAULTS = 8  # of one run
_SIGNALS = {"error": signal.SIGUSR1, "kill": signal.SIGKILL, "stop": signal.SIGSTOP}
KINDS = (*_SIGNALS, "cut off")


class Campaign:
    """Runs of one case after another, each without a fault first.

    Args:
        place: folder for the runs, and the compiled programs.
    """

    def __init__(self, place):
        self._place, self._references = place, {}
        self._environment = ENVIRONMENT | {"BAYESNN_MESH_CACHE": str(place / "cache")}

    def faults(self, case, kinds, generator):
        """One run of a case to its end, with faults; yields what happened at each."""
        path = Path(tempfile.mkdtemp(prefix=f"{case}-", dir=self._place))
        path.rmdir()
        before = made = 0
        while not _complete(path):
            kind = next(kinds) if made < _MOST_FAULTS else None  # then it comes to its end
            victim = generator.randrange(_processes(case))
            found = self._until_fault(path, case, kind, victim, before, generator)
            kept = self._check(path, case)
            expect(kept >= before, f"{before} draws were committed, and {kept} are left")
            before = kept
            if found is not None:
                made += 1
                yield {"case": case, "kind": kind, "victim": victim, "committed": kept} | found
        expect(self._check(path, case) == CASES[case][2], "draws are missing at the end")
        shutil.rmtree(path)

    def _until_fault(self, path, case, kind, victim, before, generator):
        """Begin or continue the run, and strike; None where it ended before."""
        count = _processes(case)
        words = [path.with_name(f"{path.name}-{i}.txt") for i in range(count)]
        hosts = networks.Hosts(count) if kind == "cut off" else nullcontext()
        with hosts:
            processes = self._start(path, case, count, words, hosts)
            try:
                if kind is None or not _moment(path, processes, before, generator):
                    codes = [process.wait() for process in processes]
                    said = [_last_line(file) for file in words]
                    expect(codes == [0] * count, f"without a fault it ended: {said}")
                    return None
                began = time.monotonic()
                if kind == "cut off":
                    hosts.cut_off(victim)
                else:
                    processes[victim].send_signal(_SIGNALS[kind])
                watched = [
                    p for i, p in enumerate(processes) if (kind, i) not in {("stop", victim)}
                ]
                while any(process.poll() is None for process in watched):
                    late = time.monotonic() - began > _LIMIT_SECONDS
                    left = [_last_line(words[i]) for i, p in enumerate(processes) if p in watched]
                    expect(not late, f"after `{kind}` of {victim} some still run: {left}")
                    time.sleep(0.05)
                seconds = round(time.monotonic() - began, 1)
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
        said = [_last_line(file) for file in words]
        codes = [process.returncode for process in processes]
        if 0 in codes and _complete(path):
            return None  # it was finished as the fault came
        for index, (code, last) in enumerate(zip(codes, said, strict=True)):
            if index != victim or kind == "cut off":
                told = f"process {index} ended with {code} after `{kind}` of {victim}: {last}"
                named = _named(kind, index, victim, count) in last or NOT_MET in last
                expect(code == 75 and named, told)
        told = next(last for index, last in enumerate(said) if index != victim)
        return {"seconds": seconds, "said": told.replace(str(path), "RUN")}

    def _start(self, path, case, count, words, hosts):
        address = f"127.0.0.1:{free_port()}"
        if isinstance(hosts, networks.Hosts):
            address = f"{hosts.address(0)}:{free_port()}"
        started = []
        for index in range(count):
            own = [str(path), str(index), str(count), address, case]
            command = [sys.executable, "-m", "tests.faults.mesh_worker", *own]
            if isinstance(hosts, networks.Hosts):
                command = hosts.command(index, command)
            with words[index].open("w") as file:
                started.append(
                    subprocess.Popen(
                        command, stdout=file, stderr=subprocess.STDOUT, env=self._environment
                    )
                )
        return started

    def _check(self, path, case):
        """How many draws are committed; each is that of a run without faults."""
        kept = _committed(path)
        if not (path / "commit.json").exists():
            shutil.rmtree(path, ignore_errors=True)
            return kept
        expect(storage.check(path) == [], f"it is not whole: {storage.check(path)}")
        if not kept:
            return 0
        expected, found = storage.read(self._reference(case)), storage.read(path)
        for name, array in found["posterior"].data_vars.items():
            same = np.array_equal(array.values, expected["posterior"][name].values[:, :kept])
            expect(same, f"committed draws of {name} are not what they must be")
        return kept

    def _reference(self, case):
        if case not in self._references:
            path = self._place / f"{case}-without-faults"
            words = path.with_suffix(".txt")
            (process,) = self._start(path, case, 1, [words], None)
            expect(process.wait() == 0, f"the run without faults failed: {_last_line(words)}")
            self._references[case] = path
        return self._references[case]


def _moment(path, processes, before, generator):
    """Wait for a random moment; False where the run ended before it.

    One in five is in the seconds in which it starts, the others follow a commit of more draws than
    the `before` that it had.
    """
    starting = generator.random() < 0.2
    delay, due = generator.uniform(0.0, 8.0 if starting else 3.0), None
    while any(process.poll() is None for process in processes):
        if due is None and (starting or _committed(path) > before):
            due = time.monotonic() + delay
        if due is not None and time.monotonic() > due:
            return True
        time.sleep(0.02)
    return False


def _committed(path):
    return storage.read_commit(path)["draws"] if (path / "commit.json").exists() else 0


def _named(kind, index, victim, count):
    """What process `index` must say of the fault."""
    if kind != "cut off" or index != victim:
        return f"Process {victim} of {count}"
    if victim == 0:  # from where it is, all others are lost
        return "Process 1 of" if count == 2 else "Processes 1 of"
    return f"Process 0 of {count} is lost, or has lost this one."


def _processes(case):
    chain, data = CASES[case][1]
    return chain * data


def _complete(path):
    return (path / "commit.json").exists() and storage.read_commit(path)["complete"]


def _last_line(file):
    lines = file.read_text().strip().splitlines()
    return lines[-1] if lines else ""


def _in_turns(kinds, generator):
    while True:
        yield from generator.sample(kinds, len(kinds))


def campaign(faults, out, seed=0, kinds=KINDS):
    """Make faults until the record has so many; returns its lines."""
    known = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    generator = random.Random(f"{seed}/{len(known)}")
    in_turns = _in_turns(kinds, generator)
    with tempfile.TemporaryDirectory(prefix="bayesnn-mesh-") as place:
        runs = Campaign(Path(place))
        while len(known) < faults:
            made = Counter(line.get("case") for line in known)
            case = min(CASES, key=made.__getitem__)  # the one with the fewest faults
            for found in _or_failure(runs.faults(case, in_turns, generator)):
                known.append(found)
                with out.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                print(json.dumps(found), flush=True)
                if len(known) >= faults:
                    break
    return known


def _or_failure(found):
    """What happened at each fault; a run that fails the campaign ends with its sentence."""
    try:
        yield from found
    except Failure as failure:
        yield {"kind": "failure", "seconds": 0.0, "said": str(failure)}


def main():
    parser = argparse.ArgumentParser(description="Faults in runs of several processes.")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("mesh_faults.jsonl"))
    arguments = parser.parse_args()
    kinds = KINDS if networks.available() else tuple(_SIGNALS)
    if kinds != KINDS:
        print("No network namespaces here (Linux, `ip`, root): no process is cut off.")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    found = campaign(arguments.faults, arguments.out, arguments.seed, kinds)
    for kind in KINDS:
        seconds = [line["seconds"] for line in found if line["kind"] == kind]
        if seconds:
            print(f"{kind}: {len(seconds)}, named after at most {max(seconds)} s")
    failures = [line["said"] for line in found if line["kind"] == "failure"]
    print(f"{len(failures)} failures", *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
