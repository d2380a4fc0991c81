"""Several processes: `--distributed` over hosts, and `--processes N` under a supervising parent."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesnn_ppl.cli.shared.output import note
from bayesnn_ppl.distributed import LOST
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["ProcessSettings", "join", "supervise"]

# Index, count, meeting place and supervisor's process number of a worker, as JSON.
_WORKER = "BAYESNN_WORKER"
_TRIES = 3  # starts without a new commit, after which the supervisor gives up


@dataclass(frozen=True)
class ProcessSettings:
    """How many processes make the run, and how they meet."""

    distributed: bool = switch(
        "one mesh over the devices of several processes, each started with this same command; "
        "SLURM, Open MPI, Kubernetes and Cloud TPUs are detected"
    )
    coordinator: str | None = setting(
        "where process 0 listens, with --distributed",
        metavar="HOST:PORT",
        unit="address",
        shown="detected",
    )
    num_processes: int | None = setting(
        "how many there are, with --distributed",
        read=whole(1),
        metavar="N",
        unit="processes",
        shown="detected",
    )
    process_id: int | None = setting(
        "which one this is, with --distributed",
        read=whole(0),
        metavar="K",
        unit="0 to N - 1",
        shown="detected",
    )
    processes: int | None = setting(
        "processes on this host that share the chains, supervised: when one is lost, all continue "
        "from the last commit",
        read=whole(1),
        metavar="N",
        unit="processes",
        shown="one",
    )


def join(settings: ProcessSettings) -> Any:
    """Meet the other processes of the run; returns the team, which may be this process alone.

    Raises:
        ValueError: options that do not go together.
        TimeoutError: the others did not come.
    """
    from bayesnn_ppl import distributed

    given = (settings.coordinator, settings.num_processes, settings.process_id)
    if not settings.distributed and given != (None, None, None):
        raise ValueError(
            "--coordinator, --num-processes and --process-id are for --distributed. Add it."
        )
    if settings.distributed:
        return distributed.initialize(*given)
    worker = os.environ.get(_WORKER)
    if worker is None:
        return distributed.current()
    index, count, place, supervisor = json.loads(worker)
    threading.Thread(target=_stop_without, args=(supervisor,), daemon=True).start()
    key = Path(place) / "key"
    if index == 0:
        team, said, gather = distributed.Team.listen(count, collective=False)
        (key.with_suffix(".partial")).write_text(said)
        os.replace(key.with_suffix(".partial"), key)
        gather(120.0)
    else:
        ends = time.monotonic() + 120.0
        while not key.exists():
            if time.monotonic() > ends:
                raise TimeoutError(f"Process {index} of {count} waited 120 s for process 0.")
            time.sleep(0.05)
        team = distributed.Team.join(index, count, "127.0.0.1", key.read_text(), collective=False)
    distributed.use(team)
    return team


def _stop_without(supervisor: int) -> None:
    """Save and stop once the supervisor is gone: killed by -9, it could not pass that on."""
    while os.getppid() == supervisor:
        time.sleep(0.5)
    note(f"bayesnn: the supervisor, process number {supervisor}, is gone.")
    os.kill(os.getpid(), signal.SIGTERM)


def supervise(
    settings: ProcessSettings, folder: str | None, *, typed: str, model: str | None
) -> int | None:
    """Start the workers of --processes and see them through; None where there are none to start.

    Args:
        settings: how many processes.
        folder: of the run.
        typed: the command line, of `sample` or `resume`.
        model: of the run, which may be a file.

    Raises:
        ValueError: options that do not go together.
    """
    count = settings.processes
    if count is None or count == 1 or _WORKER in os.environ:
        return None
    if settings.distributed:
        raise ValueError(
            "--distributed makes one mesh of processes that are started elsewhere, and --processes "
            "starts some here. Leave one of the two out."
        )
    if folder is None:
        raise ValueError("The processes meet in the run folder: give --out with --processes.")
    return Supervisor(typed, model, count, folder).run()


class Supervisor:
    """Starts workers, starts them again when one is lost, and passes SIGTERM on."""

    def __init__(self, typed: str, model: str | None, count: int, place: str) -> None:
        from bayesnn_ppl import storage  # slow to import

        self._given = shlex.split(typed)[1:]
        self._model, self._count, self._place = model or "", count, place
        self._folder = folder = storage.working_copy(place)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._stopped = False
        self._ours = not folder.exists() or not any(folder.iterdir())

    def run(self) -> int:
        """The exit status of the whole."""
        before = {s: signal.signal(s, self._pass_on) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            return self._see_through()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for worker in self._workers:
                if worker.poll() is None:
                    worker.kill()
                    worker.wait()

    def _pass_on(self, number: int, _: Any) -> None:
        self._stopped = True
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(number)

    def _see_through(self) -> int:
        words, committed, tries = self._given, self._committed(), 0
        while True:
            ends = self._start_and_wait(words)
            if not any(ends):
                return 0
            if self._stopped or not all(end in (0, LOST) or end < 0 for end in ends):
                return next(end if end > 0 else 1 for end in ends if end)
            now = self._committed()
            tries, committed = (tries + 1 if now == committed else 1), now
            lost = [f"{i} (signal {-end})" for i, end in enumerate(ends) if end < 0]
            what = f"Process {', '.join(lost)}" if lost else "A process"
            if tries >= _TRIES:
                note(
                    f"bayesnn: error: {what} of {self._count} was lost again, and nothing new has "
                    f"been committed since: given up after {tries} starts. What was committed is "
                    f"kept in {self._place}."
                )
                return 1
            note(f"{what} of {self._count} was lost; all continue from the last commit.")
            words = self._words_to_continue()

    def _start_and_wait(self, words: Sequence[str]) -> list[int]:
        with tempfile.TemporaryDirectory(prefix="bayesnn-") as place:
            self._workers = [
                subprocess.Popen(
                    [sys.executable, "-m", "bayesnn_ppl.cli", *words],
                    env=os.environ
                    | {_WORKER: json.dumps([index, self._count, place, os.getpid()])},
                )
                for index in range(self._count)
            ]
            return [worker.wait() for worker in self._workers]

    def _committed(self) -> Any:
        """What a restart would continue from."""
        file = self._folder / "commit.json"
        return file.read_text(encoding="utf-8") if file.exists() else None

    def _words_to_continue(self) -> list[str]:
        if self._given[0] == "resume":
            return self._given
        if not (self._folder / "commit.json").exists():
            if self._ours and self._folder.is_dir():  # nothing was drawn yet
                shutil.rmtree(self._folder)
            return self._given
        words = ["resume", self._place, "--processes", str(self._count)]
        words += [f for f in ("--quiet", "--no-diagnose", "--json") if f in self._given]
        if self._model.partition(":")[0].endswith(".py"):
            words += ["--model", self._model]
        return words
