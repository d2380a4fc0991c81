"""Several processes: one mesh over hosts by `--distributed`, or workers of Dask by `--cluster`."""

from dataclasses import dataclass
from typing import Any

from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["CLUSTER", "ClusterSettings", "ProcessSettings", "join"]

CLUSTER = "Workers of a cluster"  # title of the group in the help


@dataclass(frozen=True)
class ClusterSettings:
    """Which workers share the work."""

    cluster: str | None = setting(
        "workers of Dask that share the work: local:N, so many processes of this machine; slurm:N, "
        "so many jobs as dask-jobqueue is configured to start; or the address of a scheduler, such "
        "as tcp://host:8786. If a worker is lost, another one continues its work",
        metavar="CLUSTER",
        unit="local:N, slurm:N or address",
        shown="this process alone",
    )


@dataclass(frozen=True)
class ProcessSettings(ClusterSettings):
    """Which processes make the run, and how they meet."""

    processes: int | None = setting(
        "as --cluster local:N",
        read=whole(1),
        metavar="N",
        unit="processes",
        shown="one",
    )
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

    def workers(self) -> str | None:
        """The cluster that is asked for, by whichever option; None for this process alone.

        Raises:
            ValueError: options that do not go together.
        """
        given = [
            name
            for name, value in (
                ("--cluster", self.cluster),
                ("--processes", self.processes),
                ("--distributed", self.distributed),
            )
            if value
        ]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} are different ways to share the chains. With --distributed "
                "you start each process yourself; the others start processes for you. Give only "
                "one of them."
            )
        if self.processes is not None:
            return f"local:{self.processes}" if self.processes > 1 else None
        return self.cluster


def join(settings: ProcessSettings) -> Any:
    """Meet the other processes of the mesh; returns the team, which may be this process alone.

    Raises:
        ValueError: options that do not go together.
    """
    from bayesnn_ppl import distributed

    given = (settings.coordinator, settings.num_processes, settings.process_id)
    if not settings.distributed and given != (None, None, None):
        raise ValueError(
            "--coordinator, --num-processes and --process-id need --distributed. Add it."
        )
    return distributed.initialize(*given) if settings.distributed else distributed.current()
