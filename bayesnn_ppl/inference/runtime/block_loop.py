"""The loop of every long computation: blocks of half a second, each one kept before it is shown."""

import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesnn_ppl.inference.runtime.interrupts import raise_if_swallowed, uninterrupted
from bayesnn_ppl.inference.runtime.progress import ProgressBar

__all__ = ["BlockLoop"]

BLOCK_SECONDS = 0.5  # how long a Ctrl-C or the bar's next move may take, about


class BlockLoop:
    """Chooses block sizes by the time that blocks took, and calls the user's callback.

    Args:
        bar: told when the callback fails.
        callback: of the user; returns true to end the computation.
    """

    def __init__(self, bar: ProgressBar, callback: Callable[[Any], Any] | None) -> None:
        self._bar, self._callback = bar, callback
        self._seconds_each: float | None = None

    def run[Block](
        self,
        total: int,
        *,
        done: int,
        most: int,
        make: Callable[[int, int], Block],
        keep: Callable[[Block, int], None],
        show: Callable[[Block, int], bool],
        step: int = 1,
        cost: int = 1,
        agree: Callable[[int], int] = int,
    ) -> int:
        """Go from `done` to `total`, block by block.

        Args:
            total: how many to make, `done` of which were made before.
            done: see `total`.
            most: of one block.
            make: `make(done, count)` makes `count` more.
            keep: `keep(block, done)` keeps a block and the state after it; Ctrl-C waits for it.
            show: `show(block, done)` returns true where the loop ends early.
            step: blocks are multiples of it, except the last.
            cost: of one, in the unit that the time is measured in (transitions of a draw).
            agree: on the size of a block, between processes.

        Returns:
            How many are made.
        """
        while done < total:
            count = min(total - done, agree(self._next(most, step, cost)))
            raise_if_swallowed()
            began = time.perf_counter()
            block = make(done, count)
            self._seconds_each = (time.perf_counter() - began) / (count * cost)
            with uninterrupted():  # together, or what is kept would be of another state
                done += count
                keep(block, done)
            if show(block, done):
                break
        return done

    def _next(self, most: int, step: int, cost: int) -> int:
        if self._seconds_each is None:
            return step
        room = int(np.clip(BLOCK_SECONDS / max(self._seconds_each * cost, 1e-9), 1, most))
        return step * max(1, room // step)

    def asked_to_end(self, seen: Callable[[], Any]) -> bool:
        """Whether the callback ends the computation; one that fails is not called again.

        Args:
            seen: makes what the callback is given.
        """
        if self._callback is None:
            return False
        try:
            return bool(self._callback(seen()))
        except Exception:  # the user's metric must not cost the results
            self._bar.say("The callback failed and is not called again; the run continues.")
            self._bar.say(traceback.format_exc())
            self._callback = None
            return False
