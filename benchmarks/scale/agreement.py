"""What an agreement of processes that make one mesh costs, by their number.

    python -m benchmarks agreement [--processes 2 8 32 128 512] [--out FILE]

Each process is a client of JAX's distributed service with a thread of its own, all of them on this
machine: the messages are those of a real mesh, the latency is that of one host, and the clients
share its cores. An agreement is over when process 0 has it.
"""

import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bayesnn_ppl.core.wording import json_text
from bayesnn_ppl.distributed import MeshProcesses
from benchmarks.harness.records import write_result

_AGREEMENTS, _ROUNDS = 100, 5


def milliseconds(count: int) -> float:
    """One agreement of so many processes; the median of several rounds."""
    from jaxlib import _jax

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    limits = {"heartbeat_timeout": 60, "shutdown_timeout": 60}
    service = _jax.get_distributed_runtime_service(address, count, recoverable=True, **limits)
    clients = [
        _jax.get_distributed_runtime_client(address, i, init_timeout=120, heartbeat_timeout=60)
        for i in range(count)
    ]
    _together([client.connect for client in clients])
    members = [MeshProcesses(i, count, client, silence=60) for i, client in enumerate(clients)]
    rounds = []

    def speak(member: MeshProcesses) -> None:
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            for number in range(_AGREEMENTS):
                member.agree(number)
            if member.leads:
                rounds.append(1e3 * (time.perf_counter() - began) / _AGREEMENTS)

    _together([partial(speak, member) for member in members])
    _together([member.close for member in members])
    service.shutdown()
    return statistics.median(rounds)


def _together(calls: Sequence[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(*, processes: Sequence[int] = (2, 8, 32, 128, 512), out: Path | None = None) -> None:
    """Measure, print and write down."""
    found = {str(count): round(milliseconds(count), 3) for count in processes}
    print(json_text({"milliseconds_an_agreement": found}))
    if out is not None:
        write_result(out, {"milliseconds_an_agreement": found})
