"""What a fit leaves on disk as it goes, so that it can be watched and resumed."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayesnn_ppl.inference.runtime.draw_writers import seconds_to_next_commit
from bayesnn_ppl.inference.runtime.metrics_log import MetricsFile
from bayesnn_ppl.inference.training.result import part_of
from bayesnn_ppl.storage import RunFolder

__all__ = ["TrainingRecord"]

type Arrays = Mapping[str, np.ndarray]


class TrainingRecord:
    """The checkpoint and the `metrics.csv` of a fit in a run folder.

    A fit has stages, one after another: the training of a mode, say, and the optimisation that
    begins there. The checkpoint holds all that the next block of the stage under way needs, and how
    the stages before it ended. So a resumed fit is bit-for-bit identical to one that was never
    ended.

    Args:
        folder: open for writing.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        record = folder.commit_record
        known = record["checkpoint"] is not None
        self._before: Arrays = folder.load_state() if known else {}
        self._metrics = MetricsFile(
            folder.path / "metrics.csv",
            phase=record["phase"] if known else "train",
            draws=record["done"],
        )
        self._stage, self._open = 0, True
        self._ended: dict[str, np.ndarray] = {}  # what the stages that are over came to
        self._current: Arrays = {}  # what the stage under way had come to at the last commit
        self._last, self._pause = time.monotonic(), seconds_to_next_commit(0.0)

    def restored(self) -> Arrays | None:
        """What an earlier process left of this stage; None where it had not come to it."""
        self._current = part_of(self._before, str(self._stage)) if self._open else {}
        return self._current or None

    def take(
        self,
        arrays: Callable[[], Arrays],
        row: Mapping[str, Any],
        *,
        phase: str,
        done: int,
        last: bool,
    ) -> bool:
        """Take the state after a block of a stage, and what the metrics were.

        Args:
            arrays: makes the state, where it is due.
            row: of the metrics.
            phase: the stage's name.
            done: how much of it is made.
            last: whether the stage ends here, so that it is kept in any case.

        Returns:
            Whether it was kept.
        """
        now = time.monotonic()
        if not self._open or not (last or now - self._last > self._pause):
            return False
        self._current = dict(arrays())
        self._folder.commit(self._ended | self._numbered(), phase=phase, done=done)
        self._metrics.write({"phase": phase, "draws": done, **row})
        self._last = time.monotonic()
        self._pause = seconds_to_next_commit(self._last - now)
        return True

    def end(self) -> None:
        """The stage is over, and what comes next is another one."""
        self._ended |= self._numbered()
        self._stage, self._current = self._stage + 1, {}

    def close(self) -> None:
        """The stage was ended early: what is made of it is not kept, since a fit resumes there."""
        self._open = False

    def _numbered(self) -> dict[str, np.ndarray]:
        return {f"{self._stage}/{name}": array for name, array in self._current.items()}
