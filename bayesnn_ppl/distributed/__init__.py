"""Several processes, on one host or many, that make one run together."""

import atexit
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bayesnn_ppl.distributed.alone import ALONE, LOST, Alone, EndedTogether
from bayesnn_ppl.distributed.coordination import MeshProcesses, print_and_end

__all__ = ["LOST", "Alone", "EndedTogether", "MeshProcesses", "current", "initialize", "use"]

_team: Alone = ALONE
_kept: list[Any] = []  # C keeps a pointer to what is here


def current() -> Alone:
    """The processes that make a run together; of one process, itself alone."""
    return _team


def use(team: Alone) -> None:
    """Make runs with these processes from now on."""
    global _team
    if _team is ALONE and team is not ALONE:
        atexit.register(_leave)
    _team = team


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    local_device_ids: int | Sequence[int] | None = None,
    silence: int = 10,
    timeout: float = 300.0,
) -> Alone:
    """Join the other processes of a run, before anything is computed.

    Every process runs the same program, with the same arguments. `device_mesh(chain, data)` then
    spans all their devices; each puts its own rows on its devices and writes its own chains'
    draws, and process 0 commits them. On SLURM, Open MPI, Kubernetes and Cloud TPUs JAX finds the
    arguments itself; elsewhere give all three.

    When a process is lost, the others end within a minute, by default some 15 s, with status 75 and
    a sentence that names it.

    Args:
        coordinator_address: "host:port" of process 0, a port that is free there.
        num_processes: how many there are.
        process_id: 0, ..., num_processes - 1.
        local_device_ids: devices of this host that the process may use; all by default.
        silence: seconds without a heartbeat after which JAX takes a process for lost, at most 20.
        timeout: seconds to wait for the others.

    Returns:
        The team: its `index`, its `count`, and `leads`, true of process 0.

    Raises:
        ValueError: some of the three are given and others not, or nothing is given and JAX knows
            no such cluster.
        RuntimeError: JAX has started already, or the others did not come.
    """
    given = (coordinator_address, num_processes, process_id)
    if any(value is not None for value in given) and None in given:
        raise ValueError(
            "Of coordinator_address, num_processes and process_id some are given and others not. "
            "Give all three, or none on a cluster that JAX knows (SLURM, Open MPI, Kubernetes, "
            "Cloud TPU)."
        )
    if silence not in range(1, 21):
        raise ValueError(f"`silence` is from 1 to 20 whole seconds, not {silence}.")
    if coordinator_address is not None and not coordinator_address.rpartition(":")[2].isdigit():
        raise ValueError(
            f"The coordinator's address is `host:port`, such as 10.0.0.1:1234, not "
            f"`{coordinator_address}`."
        )
    if num_processes is not None and process_id is not None:
        if not 0 <= process_id < num_processes:
            raise ValueError(
                f"process_id is from 0 to {num_processes - 1} with {num_processes} processes, "
                f"not {process_id}."
            )
    # JAX warns that losses are tolerated, which is what is wanted; it reads this as it is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import jax
    from jax._src.distributed import global_state  # its client is nowhere public

    # Nothing else carries collectives between CPUs; other platforms take no notice.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would take SIGTERM and do nothing with it; the command line has a handler of its own.
    jax.config.update("jax_enable_preemption_service", False)
    # A loss is told by the processes that are left; JAX would end them and not name it.
    jax.config.update("jax_enable_recoverability", True)
    _on_abort(
        lambda: (
            f"Not all processes of the run met within {timeout:g} s. Start all of them, with the "
            "same coordinator, whose port is open to the others, and the same number of processes."
        )
    )
    try:
        jax.distributed.initialize(
            coordinator_address,
            num_processes,
            process_id,
            local_device_ids=local_device_ids,
            initialization_timeout=int(timeout),
            heartbeat_timeout_seconds=silence,
            shutdown_timeout_seconds=20,
            cluster_detection_method=None if coordinator_address is None else "deactivate",
        )
    except ValueError as error:
        _on_abort(None)
        raise ValueError(
            f"JAX found no cluster here ({error}). Give coordinator_address, num_processes and "
            "process_id."
        ) from error
    # Read here and not from `jax`, so that devices can still be chosen for this number.
    index, count = global_state.process_id, global_state.num_processes
    if count == 1:
        _on_abort(None)
        return _team
    team = MeshProcesses(index, count, global_state.client, silence=silence)
    use(team)
    _on_abort(team.service_lost)
    return _team


def _leave() -> None:
    """At the process's end: where it has failed the others are told, and not waited for."""
    if not isinstance(_team, MeshProcesses):
        return
    uncaught = getattr(sys, "last_exc", None)
    if uncaught is not None and not _team.failed:
        _team.fail(uncaught)
    if _team.failed:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    _team.close()


def _on_abort(last_words: Callable[[], str] | None) -> None:
    """Say something when JAX aborts this process, as it does when process 0 is gone.

    JAX's own callback for this cannot be a function of Python's, and neither can a handler that
    Python calls: `abort` ends the process when the C handler returns.

    Args:
        last_words: gives the sentence; with None the process aborts as any other.
    """
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    callback = None
    if last_words is not None:

        def handle(_: int) -> None:
            print_and_end(last_words())

        callback = ctypes.CFUNCTYPE(None, ctypes.c_int)(handle)
        _kept.append(callback)
    libc.signal(int(signal.SIGABRT), callback)


def __dir__() -> list[str]:
    return sorted(__all__)  # what a prompt offers, without what is imported here
