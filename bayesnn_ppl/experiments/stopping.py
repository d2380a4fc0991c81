"""SIGTERM, as a batch system sends it: save and stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bayesnn_ppl.distributed import LOST, EndedTogether, current

__all__ = ["STOPPED", "Stop", "stop_on_sigterm"]

STOPPED = LOST  # "try again later", as where a process was lost


class Stop:
    """Whether SIGTERM has come.

    Attributes:
        came: it has.
        also: another callback, called before.
    """

    def __init__(self) -> None:
        self.came = False
        self.also: Callable[[Any], Any] | None = None

    def asked(self, progress: Any) -> bool:
        """A callback of `sample`: ends the run at the end of the block."""
        if self.also is not None:
            self.also(progress)
        return self.came

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Let pass the error of a run that SIGTERM ended in its warm-up, with nothing to return."""
        try:
            yield
        except RuntimeError as error:
            together = isinstance(error, EndedTogether) and error.by == "callback"
            # Another process of the run may be the one that it came to.
            if not self.came and not (together and current().count > 1):
                raise
            self.came = True

    def came_to_any(self) -> bool:
        """Whether it has come to this process, or to another one of the run."""
        self.came = any(current().agree(self.came))
        return self.came


@contextmanager
def stop_on_sigterm() -> Iterator[Stop]:
    """Within the block SIGTERM sets a flag instead of ending the process.

    A process of several that was stopped heeds none after the block either: each gets its own, at
    its own time, and one that it ended on its way out would be lost to the others.
    """
    stop = Stop()

    def handle(*_: Any) -> None:
        stop.came = True

    try:
        before = signal.signal(signal.SIGTERM, handle)
    except ValueError:  # not the main thread, where no signal arrives
        yield stop
        return
    try:
        yield stop
    finally:
        if not (stop.came and current().count > 1):
            signal.signal(signal.SIGTERM, before)
