"""Long computations in blocks of half a second: a bar, a callback, Ctrl-C, and checkpoints."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.inference.runtime.block_loop import BlockLoop
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.runtime.state_arrays import arrays_to_state, state_to_arrays
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.result import TrainingProgress, part_of

__all__ = ["Block", "Collector", "Done", "in_blocks"]


class Block(NamedTuple):
    """What one block came to.

    Attributes:
        state: for the next one, a pytree of arrays.
        losses: (members, count).
        made: what the collector takes, if there is one.
    """

    state: Any
    losses: np.ndarray
    made: Any = None


class Collector(Protocol):
    """Takes what blocks make, and can be put back to where it was."""

    def take(self, made: Any) -> None:
        """Take what a block made."""

    def arrays(self) -> Mapping[str, np.ndarray]:
        """All that was taken, as named arrays."""

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Be as one whose `arrays` these are."""


class Done(NamedTuple):
    """The result.

    Attributes:
        state: after the last block.
        losses: (members, total), NaN where nothing was made.
        made: how many of the total.
        interrupted: whether Ctrl-C or the callback ended it before all were made.
        asked: whether it was the callback that ended it.
        seconds: since the beginning, compilation included.
    """

    state: Any
    losses: np.ndarray
    made: int
    interrupted: bool
    asked: bool
    seconds: float


def in_blocks(
    problem: Problem,
    state: Any,
    advance: Callable[[Any, int], Block],
    *,
    total: int,
    members: int,
    most: int,
    name: str,
    step: int = 1,
    over: Callable[[Any], bool] | None = None,
    collector: Collector | None = None,
    said: Callable[[np.ndarray], str] | None = None,
) -> Done:
    """Call `advance(state, count)` until `total` are made, and show how it goes.

    With a record on disk the state is kept there every two seconds or so, and what an earlier
    process left is resumed. The result does not depend on how the total falls into blocks,
    if that of `advance` does not.

    Args:
        problem: its bar, callback and record count.
        state: where it begins, a pytree of arrays.
        advance: makes `count` more.
        total: how many in all.
        members: rows of the losses.
        most: of one block.
        name: of the stage, for the bar, the callback and the metrics.
        step: blocks are multiples of it, but for the last.
        over: whether nothing more is to be made of a state.
        collector: takes what blocks make.
        said: a block's losses as the bar shows them.

    Raises:
        KeyboardInterrupt: Ctrl-C before the first block was made.
        ValueError: the checkpoint is of another fit.
    """
    state = jax.tree.map(jnp.asarray, state)
    losses, done = np.full((members, total), np.nan), 0
    record = problem.record
    before = None if record is None else record.restored()
    if before is not None:
        state = arrays_to_state(before, jax.tree.map(_shape, state))
        losses, done = before["losses"].copy(), int(before["done"])
        if collector is not None:
            collector.restore(part_of(before, "collected"))

    def arrays() -> dict[str, np.ndarray]:
        collected = {} if collector is None else collector.arrays()
        return {
            **state_to_arrays(state),
            **{f"collected/{key}": array for key, array in collected.items()},
            "losses": losses,
            "done": np.asarray(done),
        }

    began, kept = time.perf_counter(), False
    ended = interrupted = asked = False
    row: dict[str, Any] = {}
    with ProgressBar(shown=problem.progress, chains=members) as bar:
        loop = BlockLoop(bar, problem.callback)

        def keep(block: Block, now: int) -> None:
            nonlocal state, done
            state = block.state
            losses[:, done:now] = block.losses
            done = now
            if collector is not None:
                collector.take(block.made)

        def seen() -> TrainingProgress:
            spent, held = time.perf_counter() - began, np.full((members, done), np.nan)
            return TrainingProgress(done, total, spent, losses[:, :done].copy(), held, name)

        def show(block: Block, _: int) -> bool:
            nonlocal kept, ended, asked, row
            ended = over is not None and over(state)
            known = block.losses[np.isfinite(block.losses)]
            row = {
                "seconds": time.perf_counter() - began,
                "loss": float(known.mean()) if known.size else None,
            }
            if record is not None:
                last = ended or done == total
                kept = record.take(arrays, row, phase=name, done=done, last=last)
            bar.tell(done, (said or _mean_loss)(block.losses), over=ended)
            asked = loop.asked_to_end(seen) and done < total and not ended
            return asked or ended

        bar.phase(name, total, done)
        try:
            loop.run(
                total,
                done=done,
                most=most,
                step=step,
                make=lambda _, count: advance(state, count),
                keep=keep,
                show=show,
            )
            interrupted = asked
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = done < total and not ended
            bar.say(f"Interrupted after {done} of {total}.")
    if record is not None and interrupted:
        if row and not kept:
            record.take(arrays, row, phase=name, done=done, last=True)
        record.close()
    elif record is not None:
        record.end()
    return Done(state, losses, done, interrupted, asked, time.perf_counter() - began)


def _shape(leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def _mean_loss(losses: np.ndarray) -> str:
    """Of the last of a block, over the members."""
    known = losses[:, -1][~np.isnan(losses[:, -1])]
    note = f"× {len(losses)} members"
    return f"{note} · loss {known.mean():.4g}" if known.size else note
