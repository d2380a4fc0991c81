"""The metrics of a run as TensorBoard shows them, during the run."""

import time
import weakref
from pathlib import Path
from typing import Any

from bayesnn_ppl.inference.sampling.run import Progress

__all__ = ["TensorBoard"]


class TensorBoard:
    """A callback of `sample`, `resume` and `extend` that writes each block's metrics as events.

    Look at them with `tensorboard --logdir FOLDER`. The step is the number of draws of the phase;
    warm-up and sampling are curves of their own. A resumed run adds to the same folder.

    Args:
        folder: where the event file goes; made when the first block comes.

    Raises:
        ImportError: the package tensorboardX is not installed.

    Example:
        bnn.sample(kernel, x, y, ..., callback=bnn.TensorBoard("runs/mine/tensorboard"))
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            import tensorboardX  # noqa: F401
        except ImportError:
            raise ImportError(
                "TensorBoard events are written with the package tensorboardX, which is not "
                "installed. Install it with: pip install 'bayesnn_ppl[tensorboard]'. Without it, "
                "a run on disk has the same numbers in its metrics.csv."
            ) from None
        self._folder = Path(folder)
        self._writer: Any = None

    def __call__(self, progress: Progress) -> None:
        """Write the numbers of a block; never ends the run."""
        # Not its SummaryWriter, which writes in a thread: a run that ends would lose the last.
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(self._folder / "events"))
            weakref.finalize(self, self._writer.close)
        values = [
            Summary.Value(tag=f"{progress.phase}/{name}", simple_value=value)
            for name, value in progress.metrics.items()
            if name not in ("phase", "draws") and value is not None
        ]
        event = Event(wall_time=time.time(), step=progress.done, summary=Summary(value=values))
        self._writer.write_event(event)
        self._writer.flush()
