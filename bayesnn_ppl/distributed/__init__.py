"""Several processes, on one host or many, that make one run together."""

import atexit
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from bayesnn_ppl.distributed.alone import ALONE, LOST, Alone, EndedTogether
from bayesnn_ppl.distributed.team import Team

__all__ = ["LOST", "Alone", "EndedTogether", "Team", "current", "initialize", "use"]

_team: Alone = ALONE
_ADDRESS_BYTES = 256
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
    silence: float = 15.0,
    timeout: float = 300.0,
) -> Alone:
    """Join the other processes of a run, before anything is computed.

    Every process runs the same program, with the same arguments. `device_mesh(chain, data)` then
    spans all their devices; each puts its own rows on its devices and writes its own chains'
    draws, and process 0 commits them. On SLURM, Open MPI, Kubernetes and Cloud TPUs JAX finds the
    arguments itself; elsewhere give all three.

    When a process is lost, the others end within 20 s with status 75 and a sentence that names it.

    Args:
        coordinator_address: "host:port" of process 0, a port that is free there.
        num_processes: how many there are.
        process_id: 0, ..., num_processes - 1.
        local_device_ids: devices of this host that the process may use; all by default.
        silence: seconds without a sign of life after which a process counts as lost, at most 20.
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
    if not 1.0 <= silence <= 20.0:
        raise ValueError(f"`silence` is from 1 to 20 seconds, not {silence}.")
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
    import jax

    # Nothing else carries collectives between CPUs; other platforms take no notice.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would take SIGTERM and do nothing with it; the command line has a handler of its own.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator_address,
            num_processes,
            process_id,
            local_device_ids=local_device_ids,
            initialization_timeout=int(timeout),
            heartbeat_timeout_seconds=20,
            shutdown_timeout_seconds=20,
            cluster_detection_method=None if coordinator_address is None else "deactivate",
        )
    except ValueError as error:
        raise ValueError(
            f"JAX found no cluster here ({error}). Give coordinator_address, num_processes and "
            "process_id."
        ) from error
    count, index = jax.process_count(), jax.process_index()
    if count == 1:
        return _team
    use(_meet(index, count, _host_of(coordinator_address), silence=silence, timeout=timeout))
    _speak_on_abort()
    return _team


def _host_of(address: str | None) -> str:
    """The host of process 0, as the other processes reach it."""
    if address is None:
        from jax._src.distributed import global_state  # where JAX has found it itself

        address = global_state.coordinator_address
    assert address is not None
    return address.rpartition(":")[0].strip("[]")


def _meet(index: int, count: int, host: str, *, silence: float, timeout: float) -> Team:
    """Connect to process 0, whose port the first collective tells."""
    import numpy as np
    from jax.experimental import multihost_utils

    key, gather = "", None
    if index == 0:
        team, key, gather = Team.listen(count, silence=silence)
    told = np.frombuffer(key.encode().ljust(_ADDRESS_BYTES, b"\0"), np.uint8)
    told = np.asarray(multihost_utils.broadcast_one_to_all(told))
    if gather is not None:
        gather(timeout)
        return team
    key = bytes(told.astype(np.uint8)).rstrip(b"\0").decode()
    return Team.join(index, count, host, key, seconds=timeout, silence=silence)


def _leave() -> None:
    """At the process's end: JAX would wait for the others where this one has failed."""
    if isinstance(_team, Team):
        if _team.failed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        _team.close()


def _speak_on_abort() -> None:
    """Say who was lost when JAX aborts this process, as it does when process 0 is gone.

    A handler of Python's would not run any more: `abort` ends the process when it returns.
    """

    def handle(_: int) -> None:
        if isinstance(_team, Team):
            _team.wait_for_the_end(2.0)  # its threads know who was lost, and end the process
            sentence = "JAX ended this process, having lost process 0 of the run or an error."
            print(f"bayesnn: error: {sentence}", file=sys.stderr, flush=True)
        os._exit(LOST)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int)(handle)
    _kept.append(callback)
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = [ctypes.c_int, type(callback)]
    libc.signal(int(signal.SIGABRT), callback)


def __dir__() -> list[str]:
    return sorted(__all__)  # what a prompt offers, without what is imported here
