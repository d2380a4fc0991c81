"""Where draws go: into memory, or into a run folder as they come."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from bayesnn_ppl.distributed import current
from bayesnn_ppl.inference.runtime.keep import Keep, rounded
from bayesnn_ppl.inference.runtime.metrics_log import MetricsFile
from bayesnn_ppl.inference.runtime.weight_moments import RunningMoments
from bayesnn_ppl.storage import RunFolder, read, writing_to

__all__ = ["FolderSink", "MemorySink", "Sink", "seconds_to_next_commit"]

type Block = Mapping[str, np.ndarray]

_READ_DRAWS = 500
_COMMIT_SECONDS = 2.0  # what a crash may cost, about
_QUICK_COMMIT = 0.1  # seconds; one that takes longer, as to an object store, is made less often


def seconds_to_next_commit(taken: float) -> float:
    """How long to continue after a commit that took `taken` seconds: it is to cost 5 % at most."""
    return _COMMIT_SECONDS * max(1.0, taken / _QUICK_COMMIT)


class Sink(Protocol):
    """Takes blocks of draws, and from time to time the sampler's state."""

    done: int
    phase: str
    warmup_done: int
    site_names: dict[str, str]

    def take_starts(self, starts: Block) -> None:
        """Take where the chains start, `"<group>/<variable>"` -> (chain, ...)."""

    def append(self, groups: Mapping[str, Block]) -> None:
        """Take a block, group -> variable -> (chain, block, ...)."""

    def checkpoint(
        self, state: Callable[[], Block], phase: str, done: int, *, now: bool = False
    ) -> None:
        """Take the state after `done` draws of the phase; `now` makes it durable at once."""

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""

    def watch(self, row: Mapping[str, Any]) -> None:
        """Take the metrics after a block."""


class MemorySink:
    """Keeps draws in arrays allocated once.

    Args:
        total: draws that are to come.
        keep: what is kept of them.

    Attributes:
        moments: of the weights, where only those are kept.
        starts: where the chains started.
    """

    phase, warmup_done = "warmup", 0

    def __init__(self, total: int, keep: Keep) -> None:
        self._total, self._keep, self.done = total, keep, 0
        self.site_names: dict[str, str] = {}
        self.moments = RunningMoments() if keep.weights == "moments" else None
        self.starts: Block = {}
        self._arrays: dict[str, dict[str, np.ndarray]] = {}

    def take_starts(self, starts: Block) -> None:
        self.starts = starts

    def _every(self, group: str) -> int:
        return self._keep.every if group == "posterior" else 1

    def append(self, groups: Mapping[str, Block]) -> None:
        made = 0
        if self.moments is not None:
            self.moments.add(groups["posterior"])
            groups = {name: block for name, block in groups.items() if name != "posterior"}
        for group, block in groups.items():
            every, target = self._every(group), self._arrays.setdefault(group, {})
            first, begin = -(self.done + 1) % every, self.done // every
            for name, array in block.items():
                if name not in target:
                    shape = (array.shape[0], self._total // every, *array.shape[2:])
                    target[name] = np.empty(shape, array.dtype)
                made, kept = array.shape[1], array[:, first::every]
                target[name][:, begin : begin + kept.shape[1]] = kept
        # Last, so that an interrupt between two arrays never leaves a half-written draw counted.
        self.done += made

    def checkpoint(
        self, state: Callable[[], Block], phase: str, done: int, *, now: bool = False
    ) -> None:
        """Nothing: what is in memory is lost with the process."""

    def due(self) -> bool:
        """Never."""
        return False

    def watch(self, row: Mapping[str, Any]) -> None:
        """Nothing: the callback has seen it."""

    def restored_state(self) -> None:
        """None: a run in memory begins at its start."""

    def filled(self) -> dict[str, dict[str, np.ndarray]]:
        """What is kept, without what was never filled; group -> variable -> (chain, draw, ...)."""
        if self.done == self._total:
            return self._arrays
        return {
            group: {n: a[:, : self.done // self._every(group)].copy() for n, a in block.items()}
            for group, block in self._arrays.items()
        }


class FolderSink:
    """Streams draws into a run folder, and commits them with the state every two seconds or so,
    less often where a commit takes long.

    Attributes:
        folder: the run folder, open for writing.
        phase, warmup_done: where an earlier process left the run.
    """

    def __init__(self, folder: RunFolder, keep: Keep) -> None:
        self.folder, self._keep = folder, keep
        record = folder.commit_record
        self.done, self.phase = record["draws"], record["phase"]
        self.warmup_done = record["done"] if self.phase == "warmup" else 0
        self.site_names: dict[str, str] = {}
        self._moments: RunningMoments | None = None
        if keep.weights == "moments":
            self._moments = RunningMoments()
            before = folder.load_moments()
            if before is not None:
                self._moments.restore(before, self.done)
        self._metrics = (
            MetricsFile(folder.path / "metrics.csv", phase=self.phase, draws=record["done"])
            if current().leads
            else None
        )
        self._last, self._committed, self._pause = time.monotonic(), False, _COMMIT_SECONDS
        self._row: Mapping[str, Any] | None = None

    def append(self, groups: Mapping[str, Block]) -> None:
        if "site_names" not in self.folder.config:
            self.folder.config["site_names"] = self.site_names
        made = next(array.shape[1] for block in groups.values() for array in block.values())
        if self._moments is not None:
            self._moments.add(groups["posterior"])
            groups = {name: block for name, block in groups.items() if name != "posterior"}
        elif self._keep.bfloat16:
            weights = {
                name: rounded(array) if array.dtype.kind == "f" else array
                for name, array in groups["posterior"].items()
            }
            groups = {**groups, "posterior": weights}
        self.folder.append(groups)
        self.done += made

    def take_starts(self, starts: Block) -> None:
        self.folder.keep_starts(starts)

    def checkpoint(
        self, state: Callable[[], Block], phase: str, done: int, *, now: bool = False
    ) -> None:
        # Also whenever a chunk is whole, so that fast kernels do not fill the memory meanwhile.
        if now or self.folder.holds_a_chunk:
            self._commit(state(), phase=phase, done=done)

    def due(self) -> bool:
        return time.monotonic() - self._last > self._pause

    def _commit(self, state: Block, **how: Any) -> None:
        moments = None if self._moments is None else self._moments.arrays()
        began = time.monotonic()
        self.folder.commit(state, moments=moments, **how)
        self._last, self._committed = time.monotonic(), True
        self._pause = seconds_to_next_commit(self._last - began)

    def watch(self, row: Mapping[str, Any]) -> None:
        """Write the metrics down, when the draws they are of have been committed."""
        self._row = row
        if self._committed:
            self._write_row()
            self._committed = False

    def _write_row(self) -> None:
        if self._row is not None and self._metrics is not None:
            with writing_to(self.folder.path, self.folder.kept_so_far):
                self._metrics.write(self._row)
            self._row = None

    def restored_state(self) -> Block | None:
        """The state of the last commit; None where nothing was committed yet."""
        if self.folder.commit_record["checkpoint"] is None:
            return None
        return self.folder.load_state()

    def kept_functions(self) -> Iterator[Block]:
        """Function values that an earlier process kept, in blocks (chain, block, ...)."""
        if not self.done or self._keep.probe is None:
            return
        tree = read(self.folder.path)["predictions"]
        for begin in range(0, self.done, _READ_DRAWS):
            part = tree.isel(draw=slice(begin, begin + _READ_DRAWS))
            yield {str(name): a.values for name, a in part.data_vars.items()}

    def finish(self, state: Block, *, complete: bool, **happened: Any) -> None:
        """Commit the end of this stretch; a complete run leaves no journal behind."""
        self._commit(state, phase="sample", done=self.done, complete=complete)
        self._write_row()
        self.folder.update_config(**happened)
