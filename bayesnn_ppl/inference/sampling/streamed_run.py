"""A run on data that are read from the disk while it goes on."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import jax
import numpy as np

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.sampling.run import Run
from bayesnn_ppl.inference.sampling.streamed_blocks import block_sharding
from bayesnn_ppl.inference.sampling.streamed_plan import StreamPlan
from bayesnn_ppl.inference.sampling.traced_functions import Settings

__all__ = ["RowBlocks", "StreamedRun"]


class RowBlocks:
    """Blocks of rows on the devices; the next one is read while the last one is used.

    Two blocks are held, and a third while it is copied from the host to the device.

    Args:
        plan, settings: of the run.
        transitions: of each chain, of the kernel's own, that the run needs rows for.
    """

    def __init__(self, plan: StreamPlan, settings: Settings, transitions: int) -> None:
        self.plan = plan
        self._settings = settings
        self._count = -(-transitions * plan.blocks.pieces // plan.blocks.transitions)
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bayesnn-rows")
        self._present: tuple[int, Any] = (-1, None)
        self._coming: tuple[int, Future[Any]] | None = None

    @classmethod
    @contextmanager
    def opened(
        cls, plan: StreamPlan | None, settings: Settings, transitions: int
    ) -> Iterator[Self | None]:
        """The blocks of a streamed run, whose thread ends with the context; else None."""
        if plan is None:
            yield None
            return
        blocks = cls(plan, settings, transitions)
        try:
            yield blocks
        finally:
            blocks._reader.shutdown(wait=True, cancel_futures=True)

    def prefetch(self, number: int) -> None:
        """Begin to read a block, if the run needs it."""
        if number < self._count:
            self._coming = (number, self._reader.submit(self._load, number))

    def get(self, number: int) -> tuple[jax.Array, jax.Array]:
        """Block `number`; the one before it is given up, and the next one begun."""
        if self._present[0] != number:
            self._present = (-1, None)
            if self._coming is None or self._coming[0] != number:
                self.prefetch(number)
            assert self._coming is not None
            coming, self._coming = self._coming[1], None
            self._present = (number, coming.result())
            self.prefetch(number + 1)
        return self._present[1]

    def _load(self, number: int) -> Any:
        sharding = block_sharding(self._settings)
        with arithmetic(float64=self._settings.float64):  # which is a thread's own
            return jax.block_until_ready(self.plan.placed(number, self._settings, sharding))


class StreamedRun(Run):
    """A run whose program is handed its rows, block by block; see `Run`."""

    def __init__(self, *args: Any, blocks: RowBlocks, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._blocks = blocks

    def _make(self, phase: str, done: int, count: int, thinning: int) -> tuple[Any, Any]:
        """The state `count` draws later, and these draws; from one call of the program or more."""
        shape = self._blocks.plan.blocks
        per_draw = shape.pieces * thinning
        before = self._settings.warmup * shape.pieces if phase == "sample" else 0
        state, kept = self._state, []
        made, wanted = 0, count * per_draw
        while made < wanted:
            number, begin = divmod(before + done * per_draw + made, shape.transitions)
            transitions = min(shape.transitions - begin, wanted - made)
            state, groups = self._program.advance(
                state,
                *self._blocks.get(number),
                self._probe,
                self._predictive_keys,
                *self._counts(done if phase == "sample" else 0, made, begin, transitions, per_draw),
            )
            draws = (made + transitions) // per_draw - made // per_draw
            if draws:
                kept.append(jax.tree.map(lambda a, n=draws: self._share.fetched(a)[:, :n], groups))
            jax.block_until_ready(state)  # before a third block is asked for
            made += transitions
        return state, jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *kept)
