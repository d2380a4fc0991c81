"""Where draws go: into memory, or into a run folder as they come."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from bayesnn_ppl.storage import RunFolder

__all__ = ["FolderSink", "MemorySink", "Sink"]

type Block = Mapping[str, np.ndarray]

_COMMIT_SECONDS = 2.0  # what a crash may cost, about


class Sink(Protocol):
    """Takes blocks of draws, and from time to time the sampler's state."""

    done: int
    phase: str
    warmup_done: int
    site_names: dict[str, str]

    def append(self, draws: Block, statistics: Block) -> None:
        """Take a block (chain, block, ...)."""

    def checkpoint(
        self, state: Callable[[], Block], phase: str, done: int, *, now: bool = False
    ) -> None:
        """Take the state after `done` draws of the phase; `now` makes it durable at once."""


class MemorySink:
    """Keeps draws in arrays allocated once.

    Attributes:
        draws, statistics: name -> array (chain, draw, ...), of which `done` draws are filled.
    """

    phase, warmup_done = "warmup", 0

    def __init__(self, total: int) -> None:
        self._total, self.done = total, 0
        self.site_names: dict[str, str] = {}
        self.draws: dict[str, np.ndarray] = {}
        self.statistics: dict[str, np.ndarray] = {}

    def append(self, draws: Block, statistics: Block) -> None:
        made = 0
        for target, block in ((self.draws, draws), (self.statistics, statistics)):
            for name, array in block.items():
                if name not in target:
                    shape = (array.shape[0], self._total, *array.shape[2:])
                    target[name] = np.empty(shape, array.dtype)
                made = array.shape[1]
                target[name][:, self.done : self.done + made] = array
        # Last, so that an interrupt between two arrays never leaves a half-written draw counted.
        self.done += made

    def checkpoint(
        self, state: Callable[[], Block], phase: str, done: int, *, now: bool = False
    ) -> None:
        """Nothing: what is in memory is lost with the process."""

    def restored_state(self) -> None:
        """None: a run in memory begins at its start."""

    def filled(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Draws and statistics without what was never filled."""
        if self.done == self._total:
            return self.draws, self.statistics
        draws, statistics = (
            {name: array[:, : self.done].copy() for name, array in block.items()}
            for block in (self.draws, self.statistics)
        )
        return draws, statistics


class FolderSink:
    """Streams draws into a run folder, and commits them with the state every two seconds or so.

    Attributes:
        folder: the run folder, open for writing.
        phase, warmup_done: where an earlier process left the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        record = folder.commit_record
        self.done, self.phase = record["draws"], record["phase"]
        self.warmup_done = record["done"] if self.phase == "warmup" else 0
        self.site_names: dict[str, str] = {}
        self._last = time.monotonic()

    def append(self, draws: Block, statistics: Block) -> None:
        if "site_names" not in self.folder.config:
            self.folder.config["site_names"] = self.site_names
        self.folder.append(draws, statistics)
        self.done += next(iter(draws.values())).shape[1]

    def checkpoint(
        self, state: Callable[[], Block], phase: str, done: int, *, now: bool = False
    ) -> None:
        due = time.monotonic() - self._last > _COMMIT_SECONDS
        # Also whenever a chunk is whole, so that fast kernels do not fill the memory meanwhile.
        if now or due or self.folder.holds_a_chunk:
            self.folder.commit(state(), phase=phase, done=done)
            self._last = time.monotonic()

    def restored_state(self) -> Block | None:
        """The state of the last commit; None where nothing was committed yet."""
        if self.folder.commit_record["checkpoint"] is None:
            return None
        return self.folder.load_state()

    def finish(self, state: Block, *, complete: bool, **happened: Any) -> None:
        """Commit the end of this stretch; a complete run leaves no journal behind."""
        self.folder.commit(state, phase="sample", done=self.done, complete=complete)
        self.folder.update_config(**happened)
