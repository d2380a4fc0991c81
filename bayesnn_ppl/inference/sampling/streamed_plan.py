"""How a run on streamed data reads its rows: what it refuses, in which order, in what blocks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from bayesnn_ppl.data.streaming.row_order import RowOrder
from bayesnn_ppl.data.streaming.streams import Stream, StreamedColumn
from bayesnn_ppl.inference.contract import ModelSummary, observed_distribution
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import StochasticGradientKernel
from bayesnn_ppl.inference.sampling.streamed_blocks import BlockShape
from bayesnn_ppl.inference.sampling.traced_functions import Settings, everything_kept
from bayesnn_ppl.posterior.mixture import check_support

__all__ = ["StreamPlan", "first_rows", "plan_stream", "spread_rows", "stream_of"]

_BLOCK_BYTES = 2**25  # of all chains together; a run holds two to three blocks
_LEAST_ROW_BYTES = 64  # of the numbers that go with a row
_SPREAD_ROWS = 100


def stream_of(x: Any, y: Any) -> Stream | None:
    """The stream that x and y are the columns of; None when they are arrays.

    Raises:
        TypeError: only one is a column, or they are not x and y of one stream.
    """
    if not isinstance(x, StreamedColumn) and not isinstance(y, StreamedColumn):
        if isinstance(x, Stream):
            raise TypeError("Unpack the stream into its x and y: `sample(kernel, *stream, ...)`.")
        return None
    columns = [c for c in (x, y) if isinstance(c, StreamedColumn)]
    if [c.name for c in columns] != ["x", "y"] or columns[0].stream is not columns[1].stream:
        raise TypeError(
            "Streamed inputs and targets must be x and y of one stream: "
            "`sample(kernel, *bnn.data.stream(x, y), ...)`."
        )
    return columns[0].stream


def first_rows(
    stream: Stream, kernel: Any, init: Any, *, float64: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The first B rows, in the place of all, for a kernel that needs no more at a time.

    Raises:
        ValueError: the kernel or the start needs all rows, B is more than there are, or the
            order of the minibatches is not one that the stream can be read in.
    """
    name = type(kernel).__name__
    if not isinstance(kernel, StochasticGradientKernel):
        raise ValueError(
            f"{name} needs all rows at once, but the data are streamed. Use a "
            "stochastic-gradient kernel such as `bnn.kernels.SGHMC`, or hold the rows in memory: "
            "`sample(kernel, *stream.read(range(stream.rows)), ...)`."
        )
    if kernel.accept_step:
        raise ValueError(
            f"{name} accepts or rejects by the density of all rows, but the data are streamed. "
            "Use a kernel without an accept step, such as `bnn.kernels.SGHMC`."
        )
    kernel.given_rows(stream.rows, 1)  # which refuses what needs all rows
    if callable(getattr(init, "starts", None)):
        raise ValueError(
            f"`init={type(init).__name__}(...)` is trained on all rows, but the data are streamed. "
            "Give `init` as a mapping from sites to values, or leave it out."
        )
    if kernel.batch_size > stream.rows:
        raise ValueError(
            f"`batch_size` of {name} is {kernel.batch_size}, and the stream has {stream.rows} rows."
        )
    if stream.chunk > 1 and kernel.minibatches != "epoch":
        raise ValueError(
            f"The stream reads {stream.chunk} neighbouring rows together, so {name} must take its "
            'rows by epochs: `minibatches="epoch"`. Or read single rows, `stream(..., chunk=1)`, '
            "which takes long where they are stored in compressed chunks."
        )
    return stream.read(np.arange(kernel.batch_size), float64=float64)


def spread_rows(stream: Stream, *, float64: bool) -> np.ndarray:
    """Up to 100 inputs, evenly over the stream."""
    rows = np.linspace(0, stream.rows - 1, min(stream.rows, _SPREAD_ROWS)).astype(np.int64)
    return stream.read(rows, float64=float64)[0]


@dataclass(frozen=True)
class StreamPlan:
    """Which rows a run reads, and in what blocks.

    Attributes:
        stream: the data.
        order: the rows of each chain's steps.
        blocks: the shape of a block; T transitions.
        shards: devices that share the rows of a minibatch.
        discrete: whether targets are whole numbers.
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
        ValueError: the program has a value for each row.
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
            f"The program has values for each row, at the sites {found}, but the data are "
            "streamed: a draw sees a few rows of them. Leave these sites out; `predict` gives "
            "function values at any rows."
        )
