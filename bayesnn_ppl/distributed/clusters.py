"""A Dask cluster by its name, its address, or as an object."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

__all__ = ["connected", "say_dashboard"]

_CONNECT_SECONDS = 30


@contextmanager
def connected(cluster: Any, workers: int) -> Iterator[Any]:
    """A Dask client of the cluster within the block; what was started here ends with it.

    Args:
        cluster: a `distributed.Client`, or a cluster object such as `dask_kubernetes.KubeCluster`;
            the address of a scheduler, such as tcp://10.0.0.1:8786; "local" or "local:4", for
            so many processes of this machine; or "slurm" or "slurm:4", for so many jobs as the
            configuration of dask-jobqueue describes them.
        workers: that are of use, where "local" or "slurm" has no number; "local" starts as many as
            there are cores for.

    Raises:
        TypeError, ValueError: it is not one of these, or the scheduler does not answer.
        ImportError: dask-jobqueue is not installed.
    """
    from distributed import Client

    if isinstance(cluster, Client):
        yield cluster
        return
    with ExitStack() as stack:
        yield stack.enter_context(_client(_cluster(cluster, workers, stack)))


def _cluster(cluster: Any, workers: int, stack: ExitStack) -> Any:
    """A cluster object, or the address of a scheduler."""
    if hasattr(cluster, "scheduler_address"):
        return cluster
    if not isinstance(cluster, str):
        raise TypeError(
            "`cluster` is a Dask client or cluster, the address of a scheduler, such as "
            f'"tcp://10.0.0.1:8786", "local" or "slurm", not {cluster!r}.'
        )
    name, _, count = cluster.partition(":")
    if name in ("local", "slurm") and (not count or count.isdigit() and int(count)):
        if name == "slurm":
            return stack.enter_context(_slurm(int(count or workers)))
        return stack.enter_context(_local(int(count or min(workers, os.cpu_count() or 1))))
    if "://" in cluster:
        return cluster
    raise ValueError(
        f'There is no cluster `{cluster}`. Give "local", "local:4" or "slurm:4", or the address of '
        "a Dask scheduler, such as tcp://10.0.0.1:8786, which `dask scheduler` prints."
    )


def _client(cluster: Any) -> Any:
    from distributed import Client

    try:
        return Client(cluster, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        raise ValueError(
            f"No Dask scheduler answers at {cluster} within {_CONNECT_SECONDS} s. Start one by "
            "`dask scheduler`, and workers by `dask worker ADDRESS`."
        ) from error


def _local(workers: int) -> Any:
    from distributed import LocalCluster

    # A process for each: JAX takes the threads, and a crash takes no other along.
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",  # any free port
        silence_logs=logging.CRITICAL,
        preload=[f"{__package__}.worker_signals"],
    )


def say_dashboard(client: Any, say: Callable[[str], Any]) -> None:
    """Say where the scheduler's pages are, if it serves any.

    A scheduler of this process without bokeh has one page, which says to install it.
    """
    if client.cluster is not None and find_spec("bokeh") is None:
        return
    if "dashboard" in client.scheduler_info(n_workers=0).get("services", {}):
        say(f"Workers and their tasks: {client.dashboard_link}")


def _slurm(workers: int) -> Any:
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise ImportError(
            "Jobs of SLURM are started by dask-jobqueue: `pip install dask-jobqueue`, and describe "
            "them in ~/.config/dask/jobqueue.yaml."
        ) from error
    cluster = SLURMCluster()
    cluster.scale(jobs=workers)
    return cluster
