"""Long computations in blocks of about half a second, with a bar, a callback and Ctrl-C."""

import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesnn_ppl.inference.approximations.base import Problem
from bayesnn_ppl.inference.training_result import TrainingProgress
from bayesnn_ppl.inference.training_run import TrainingBar

__all__ = ["Done", "in_blocks"]

_BLOCK_SECONDS = 0.5


class Done(NamedTuple):
    """What came of it.

    Attributes:
        losses: (members, total), NaN where nothing was made.
        interrupted: whether Ctrl-C or the callback ended it.
        seconds: since the beginning, compilation included.
    """

    losses: np.ndarray
    interrupted: bool
    seconds: float


def in_blocks(
    problem: Problem,
    advance: Callable[[int], np.ndarray],
    *,
    total: int,
    members: int,
    most: int,
    name: str,
) -> Done:
    """Call `advance(count)` until `total` are made, and show how it goes.

    Args:
        problem: its bar and callback count.
        advance: makes `count` more and returns their losses, (members, count).
        total: how many in all.
        members: rows of the losses.
        most: of one block.
        name: for the bar.

    Raises:
        KeyboardInterrupt: before the first block was made.
    """
    losses, done, interrupted = np.full((members, total), np.nan), 0, False
    began, each, callback = time.perf_counter(), _BLOCK_SECONDS, problem.callback
    with TrainingBar(shown=problem.progress, chains=members) as bar:
        bar.phase(name, total)
        while done < total and not interrupted:
            count = min(int(np.clip(_BLOCK_SECONDS / each, 1, most)), total - done)
            start = time.perf_counter()
            try:
                block = advance(count)
            except KeyboardInterrupt:
                if not done:
                    raise
                bar.say(f"Interrupted after {done} of {total}.")
                interrupted = True
                break
            if done:  # the first block was compiled, and says nothing
                each = max((time.perf_counter() - start) / count, 1e-6)
            losses[:, done : done + count] = block
            done += count
            none = np.full(members, np.nan)
            bar.show(done, losses[:, done - 1], none, 0)
            if callback is not None:
                spent, held = time.perf_counter() - began, np.full((members, done), np.nan)
                try:
                    seen = TrainingProgress(done, total, spent, losses[:, :done].copy(), held)
                    interrupted = bool(callback(seen)) and done < total
                except Exception:  # the user's metric must not cost the run
                    bar.say("The callback failed and is not called again; the run goes on.")
                    bar.say(traceback.format_exc())
                    callback = None
    return Done(losses, interrupted, time.perf_counter() - began)
