"""How a run on streamed data reads its rows: in which order, in what blocks, and when."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import jax
import numpy as np
from jax.sharding import NamedSharding

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.data.streaming.row_order import RowOrder
from bayesnn_ppl.data.streaming.streams import Stream
from bayesnn_ppl.inference.sampling.draw_records import everything_kept
from bayesnn_ppl.inference.sampling.streamed_blocks import BlockShape, block_sharding
from bayesnn_ppl.inference.sampling.traced_functions import Settings
from bayesnn_ppl.modeling.contract import ModelSummary, observed_distribution
from bayesnn_ppl.modeling.target_support import check_support

__all__ = ["RowBlocks", "StreamPlan", "plan_stream"]

_BLOCK_BYTES = 2**25  # of all chains together; a run holds two to three blocks
_LEAST_ROW_BYTES = 64  # of the numbers that go with a row


@dataclass(frozen=True)
class StreamPlan:
    """Which rows a run reads, and in what blocks.

    Attributes:
        stream: the data.
        order: the rows of each chain's steps.
        blocks: the shape of a block; T transitions.
        shards: devices that share the rows of a minibatch.
        discrete: whether targets are integers.
        check: raises ValueError on targets that the model cannot have made.
    """

    stream: Stream
    order: RowOrder
    blocks: BlockShape
    shards: int
    discrete: bool
    check: Callable[[np.ndarray], None]

    def settings(self, settings: Settings) -> Settings:
        """The settings to compile for: the kernel's draw in pieces, on given rows."""
        kernel: Any = settings.kernel
        return replace(
            settings,
            kernel=kernel.given_rows(self.stream.rows, self.blocks.steps),
            warmup=settings.warmup * self.blocks.pieces,
        )

    @cached_property
    def _hash(self) -> str:
        return self.stream.sha256()

    def describe(self) -> dict[str, Any]:
        """What the provenance says of the data, in place of what it says of the first rows."""
        return {
            "rows": self.stream.rows,
            "input_range": None,  # that of the first rows says little
            "target_range": None,
            "data_sha256": self._hash,
            "streamed": {"chunk": self.stream.chunk, "window": self.stream.window},
        }

    def placed(
        self, number: int, settings: Settings, sharding: NamedSharding
    ) -> tuple[jax.Array, jax.Array]:
        """Block `number` on the devices; each process reads the rows that its own devices need."""
        if jax.process_count() == 1:
            return jax.device_put(self.read(number, settings), sharding)
        rows = self.row_numbers(number, settings)
        held: dict[str, tuple[np.ndarray, np.ndarray]] = {}

        def part(index: Any, which: int) -> np.ndarray:
            key = str(index[:3])
            if key not in held:
                held[key] = self._rows(rows[index[:3]], settings)
            return held[key][which]

        placed = []
        for which, row in enumerate(self._rows(rows[:1, :1, :1], settings)):
            shape = (*rows.shape, *row.shape[3:])
            placed.append(jax.make_array_from_callback(shape, sharding, partial(part, which=which)))
        return placed[0], placed[1]

    def read(self, number: int, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
        """Block `number`, x and y of shape (chains, T, steps·B, ...)."""
        return self._rows(self.row_numbers(number, settings), settings)

    def row_numbers(self, number: int, settings: Settings) -> np.ndarray:
        """The rows of a block, (chains, T, steps·B).

        Those of a transition lie as its data shards need them: shard by shard, and in each step
        by step.
        """
        blocks, chains = self.blocks, settings.chains
        steps = blocks.transitions * blocks.steps
        rows = np.stack(
            [self.order.batches(c, number * steps, (number + 1) * steps) for c in range(chains)]
        )
        rows = rows.reshape(chains, blocks.transitions, blocks.steps, self.shards, -1)
        rows = rows.swapaxes(2, 3)
        return rows.reshape(chains, blocks.transitions, blocks.steps * blocks.batch)

    def _rows(self, rows: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
        """The rows of these numbers, x and y, with the leading axes of `rows`."""
        x, y = self.stream.read(rows.ravel(), float64=settings.float64)
        self._check_targets(y, rows.ravel())
        if self.discrete:
            y = y.astype(np.int32, copy=False)
        return x.reshape(*rows.shape, *x.shape[1:]), y.reshape(*rows.shape, *y.shape[1:])

    def _check_targets(self, y: np.ndarray, rows: np.ndarray) -> None:
        try:
            self.check(y)
        except ValueError:
            for row, value in zip(rows, y, strict=True):
                try:
                    self.check(value[None])
                except ValueError as error:
                    raise ValueError(f"Row {row} of the stream, here row 0: {error}") from None
            raise


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
    def opened(cls, plan: StreamPlan, settings: Settings, transitions: int) -> Iterator[Self]:
        """The blocks of a streamed run, whose thread ends with the context."""
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

    def make(
        self,
        advance: Callable[..., tuple[Any, Any]],
        state: Any,
        rows: Any,
        *,
        phase: str,
        done: int,
        count: int,
        thinning: int,
        fetched: Callable[[Any], np.ndarray],
    ) -> tuple[Any, Any]:
        """The state `count` draws later, and these draws, of one call of the program or more.

        Args:
            advance: `(state, rows, *counts) -> (state, groups)`, the compiled program.
            state: of all chains.
            rows: held ones, of which there are none here.
            phase: "warmup" or "sample".
            done: draws of the phase made before.
            count: how many more.
            thinning: transitions of a draw.
            fetched: brings an array of the program to the host.
        """
        shape = self.plan.blocks
        per_draw = shape.pieces * thinning
        first = done if phase == "sample" else 0
        before = self._settings.warmup * shape.pieces if phase == "sample" else 0
        kept, made, wanted = [], 0, count * per_draw
        while made < wanted:
            number, begin = divmod(before + done * per_draw + made, shape.transitions)
            transitions = min(shape.transitions - begin, wanted - made)
            state, groups = advance(
                state, self.get(number), first, made, begin, transitions, per_draw
            )
            draws = (made + transitions) // per_draw - made // per_draw
            if draws:
                kept.append(jax.tree.map(lambda a, n=draws: fetched(a)[:, :n], groups))
            jax.block_until_ready(state)  # before a third block is asked for
            made += transitions
        return state, jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *kept)


def plan_stream(
    stream: Stream,
    settings: Settings,
    summary: ModelSummary,
    x: np.ndarray,
    y: np.ndarray,
    *,
    seed: int,
) -> StreamPlan:
    """How a run reads its rows; x and y are those of one minibatch.

    Raises:
        ValueError: the model has a value for each row.
    """
    kernel: Any = settings.kernel
    _refuse_values_of_rows(kernel.model, summary, x, y)
    row_bytes = max(_LEAST_ROW_BYTES, x[0].nbytes + y[0].nbytes)
    step_bytes = row_bytes * kernel.batch_size * settings.chains
    most = max(1, _BLOCK_BYTES // step_bytes)
    draw = kernel.steps_per_draw
    steps = max(n for n in range(1, min(draw, most) + 1) if draw % n == 0)
    return StreamPlan(
        stream,
        RowOrder(
            stream.rows,
            kernel.batch_size,
            seed,
            # A minibatch of all rows is an epoch.
            kernel.minibatches == "epoch" or kernel.batch_size == stream.rows,
            stream.chunk,
            stream.window,
        ),
        BlockShape(max(1, most // steps), steps, kernel.batch_size, draw // steps),
        shards=settings.mesh.shape["data"],
        discrete=summary.discrete,
        check=partial(check_support, observed_distribution(kernel.model, x), name="y"),
    )


def _refuse_values_of_rows(model: Any, summary: ModelSummary, x: np.ndarray, y: np.ndarray) -> None:
    """A deterministic site with one value for each row cannot be kept."""
    number = jax.dtypes.canonicalize_dtype(float)
    z = {name: jax.ShapeDtypeStruct((1, *shape), number) for name, shape in summary.latents.items()}
    one_more = (np.concatenate([a, a[:1]]) for a in (x, y))
    shapes = [
        jax.eval_shape(partial(everything_kept, model), z, *rows, None)
        for rows in ((x, y), one_more)
    ]
    found = [name for name, a in shapes[0].items() if a.shape != shapes[1][name].shape]
    if found:
        raise ValueError(
            f"The model has values for each row, at the sites {found}, but the data are "
            "streamed: a draw sees a few rows of them. Leave these sites out; `predict` gives "
            "function values at any rows."
        )
