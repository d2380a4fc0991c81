"""Processes of the kill campaign: started, killed, and kept from the processors by others."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.faults.kill_workers import Job, work

__all__ = ["attempt", "competitors", "import_all"]

_ROOT = Path(__file__).parents[2]
_LIMIT_SECONDS = 1800.0


def _start(job: Job, *, fresh: bool) -> int:
    """Start the process of a job; returns its number."""
    words = Path(job.meeting) / "words"
    if fresh:
        command = [sys.executable, "-m", "benchmarks.faults.kill_workers"]
        with words.open("w") as file:
            child = subprocess.Popen(
                [*command, json.dumps(asdict(job))], stdout=file, stderr=file, cwd=_ROOT
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


def attempt(job: Job, *, fresh: bool, after: float | None) -> tuple[int, float]:
    """Run the process, and kill it after so many seconds of its processor time.

    By the clock, a kill would come before the first draw or after the last one of a busy machine.

    Returns:
        The exit status, and seconds of processor time.
    """
    child, began = _start(job, fresh=fresh), time.monotonic()
    while not (found := os.wait4(child, os.WNOHANG))[0]:
        if after is not None and _processor_time(child) > after:
            after = None
            os.kill(child, signal.SIGKILL)
        if time.monotonic() - began > _LIMIT_SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise RuntimeError(f"It took more than {_LIMIT_SECONDS:.0f} s.")
        time.sleep(0.005)
    if child in _popen:
        _popen.pop(child).returncode = 0  # collected above
    _, status, usage = found
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def _processor_time(process: int) -> float:
    """Seconds of the processor that a process has used, by Linux's own account."""
    after_the_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, after_the_name[11:13])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def competitors(count: int, generator: random.Random) -> Iterator[None]:
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


# A fork has the locks of libraries' threads and not the threads, so there must not be any.
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


def import_all() -> None:
    """Import what the children need, without a thread; a process of its own, if need be."""
    if any(os.environ.get(name) != value for name, value in _WITHOUT_THREADS.items()):
        again = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
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
