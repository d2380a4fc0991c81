"""What one of several processes does of a run: which chains it moves, and which it writes."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jax.sharding import Mesh

from bayesnn_ppl.core.mesh import own_chains, own_part
from bayesnn_ppl.distributed import Alone, current
from bayesnn_ppl.storage import RunFolder, SharedFolder

__all__ = ["Share", "check_cluster", "check_sharing", "open_folder", "share_of"]


@dataclass
class Share:
    """This process's part in a run.

    Attributes:
        team: the processes.
        chains: (begin, end) of the run's chains that this one writes.
        on_disk: whether draws go to a folder.
        interrupted: whether Ctrl-C has come, where it must wait for the others.
    """

    team: Alone
    chains: tuple[int, int]
    on_disk: bool
    interrupted: bool = field(default=False)

    @property
    def chains_of_program(self) -> tuple[int, int] | None:
        """Those to write of the arrays that the compiled program returns; None for all."""
        return self.chains if self.spans_hosts else None

    @property
    def spans_hosts(self) -> bool:
        """Whether the mesh has devices of several processes."""
        return self.team.count > 1

    def fetched(self, array: Any) -> np.ndarray:
        """What the program returned, on the host: this process's chains of what is sharded.

        Of a run in memory every process has all.
        """
        if isinstance(array, np.ndarray) or not self.spans_hosts or array.is_fully_replicated:
            return np.asarray(array)
        if self.on_disk:
            return own_part(array, self.chains)
        from jax.experimental import multihost_utils

        return np.asarray(multihost_utils.process_allgather(array, tiled=True))

    def written(self, groups: Mapping[str, Any]) -> Mapping[str, Any]:
        """This process's chains of a block; weights hold no others on disk."""
        if not self.spans_hosts or not self.on_disk:
            return groups
        begin, end = self.chains
        return {
            group: block
            if group == "posterior"
            else {name: a[begin:end] for name, a in block.items()}
            for group, block in groups.items()
        }

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Ctrl-C within the block is a vote to end, where other processes must hear of it."""
        if self.team.count == 1 or threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(*_: Any) -> None:
            self.interrupted = True

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def share_of(mesh: Mesh, chains: int, *, on_disk: bool) -> Share:
    """This process's part in a run of so many chains."""
    team = current()
    own = (0, chains) if team.count == 1 else own_chains(mesh, chains)
    return Share(team, own, on_disk)


def check_sharing(kernel: Any, trainer: Any) -> None:
    """Refuse what several processes cannot do.

    Raises:
        ValueError: a kernel that moves all chains together, or starts that are trained together.
    """
    team = current()
    if team.count > 1:
        _check_apart(kernel, trainer, f"{team.count} processes")


def check_cluster(kernel: Any, trainer: Any, out: Any, superchains: int | None = None) -> None:
    """Refuse what workers of a cluster cannot do.

    Raises:
        ValueError: as of `check_sharing`, or there is no place where workers leave their draws.
    """
    if out is None:
        raise ValueError(
            "The workers of a cluster write their draws to disk: give `out`, a folder that all of "
            "them see, or an address such as s3://bucket/run."
        )
    if current().count > 1:
        raise ValueError(
            "`cluster` starts the work itself, and this process is one of a mesh of several. Leave "
            "one of the two out."
        )
    _check_apart(kernel, trainer, "workers of a cluster")
    if superchains is not None:
        raise ValueError(
            "Workers of a cluster draw the start of each chain by itself, and `superchains` wants "
            "one for each group. Leave one of the two out."
        )


def _check_apart(kernel: Any, trainer: Any, who: str) -> None:
    if kernel.is_ensemble_kernel:
        raise ValueError(
            f"{type(kernel).__name__} moves all chains together, in one process, and they would be "
            f"shared by {who}. Use a kernel that moves each chain by itself, such as NUTS or SGHMC."
        )
    if trainer is not None:
        raise ValueError(
            f"`init={type(trainer).__name__}(...)` trains the starts of all chains in one process, "
            f"and they would be shared by {who}. Leave it out, or sample in one process."
        )


def open_folder(path: Path, share: Share, create: Callable[[], RunFolder] | None) -> RunFolder:
    """The run folder, for this process; a new one where `create` makes it."""
    if share.team.count > 1:
        return SharedFolder.shared(path, share.team, share.chains, create)
    return RunFolder.reopen(path) if create is None else create()
