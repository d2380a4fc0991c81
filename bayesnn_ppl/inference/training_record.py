"""What a training leaves on disk as it goes, so that it can be watched and gone on with."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayesnn_ppl.inference.watching import MetricsFile
from bayesnn_ppl.storage import RunFolder

__all__ = ["TrainingRecord"]

type Arrays = Mapping[str, np.ndarray]

_COMMIT_SECONDS = 2.0  # what a crash may cost, about


class TrainingRecord:
    """The checkpoint and the `metrics.csv` of a training in a run folder.

    The checkpoint holds all that the next epoch needs, so that a training gone on with has the
    bits of one that was never ended. One training is kept: the first of a fit.

    Args:
        folder: open for writing.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        record = folder.commit_record
        self._before = None if record["checkpoint"] is None else folder.load_state()
        self._metrics = MetricsFile(
            folder.path / "metrics.csv", phase="train", draws=record["done"]
        )
        self._last, self._taken = time.monotonic(), False

    def restored(self) -> Arrays | None:
        """What an earlier process left; None where it left nothing, or to a second training."""
        before, self._before = self._before, None
        return before

    def take(
        self,
        arrays: Callable[[], Arrays],
        row: Mapping[str, Any],
        *,
        done: int,
        last: bool,
    ) -> None:
        """Take the state after a block of epochs, and what the metrics were."""
        if self._taken:  # the training has ended, and this is another one of the same fit
            return
        if last or time.monotonic() - self._last > _COMMIT_SECONDS:
            self._folder.commit(dict(arrays()), phase="train", done=done)
            self._metrics.write({"phase": "train", "draws": done, **row})
            self._last = time.monotonic()

    def end(self) -> None:
        """The training is over; what is trained after it is not recorded."""
        self._taken = True
