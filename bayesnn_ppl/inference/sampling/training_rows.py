"""The training rows of a run: arrays that are held, or a stream that is read during it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bayesnn_ppl.core.arrays import check_array, check_targets, same_index
from bayesnn_ppl.data.streaming.streams import Stream, StreamedColumn
from bayesnn_ppl.inference.kernels.common.model_kernel import needs_all_rows
from bayesnn_ppl.inference.sampling.streamed_blocks import BlockShape
from bayesnn_ppl.inference.sampling.streamed_plan import RowBlocks, StreamPlan, plan_stream
from bayesnn_ppl.inference.sampling.traced_functions import Settings
from bayesnn_ppl.modeling.contract import ModelSummary

__all__ = ["HeldRows", "StreamedRows", "open_rows"]

_SPREAD_ROWS = 100


def open_rows(
    x: Any, y: Any, kernel: Any, init: Any, *, float64: bool
) -> "HeldRows | StreamedRows":
    """The rows of a run, checked.

    Raises:
        TypeError, ValueError: the data are not what they must be, or the kernel or the start needs
            all rows, and they are streamed.
    """
    stream = _stream_of(x, y)
    if stream is not None:
        return StreamedRows(*_first_rows(stream, kernel, init, float64=float64), stream)
    same_index(x, y)
    return HeldRows(
        check_array(x, "x", float64=float64),
        check_targets(y, "y", float64=float64),
        getattr(y, "standardisation", None),
        getattr(y, "dataset", None),
    )


@dataclass(frozen=True)
class HeldRows:
    """All rows, as arrays.

    Attributes:
        x, y: the data as the compiled functions take them.
        standardisation: of the targets, or None.
        dataset: facts of the data set that the targets are of, or None.
        complete: whether x and y are all rows.
        blocks: the shape of the blocks that the rows come in; None: all at once.
    """

    x: np.ndarray
    y: np.ndarray
    standardisation: Any
    dataset: Any
    complete: ClassVar[bool] = True
    blocks: ClassVar[None] = None

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows, `(x, y)`."""
        return self.x, self.y

    def spread(self, *, float64: bool) -> np.ndarray:
        """Up to 100 inputs, evenly over the rows."""
        return self.x[_evenly(len(self.x))]

    def planned(self, settings: Settings, summary: ModelSummary, *, seed: int) -> "HeldRows":
        """The rows of a run with these settings."""
        return self

    def describe(self) -> dict[str, Any]:
        """What the provenance says of the data in place of what it says of x and y."""
        return {}

    def compiled_settings(self, settings: Settings) -> Settings:
        """The settings to compile for."""
        return settings

    @contextmanager
    def opened(self, settings: Settings, transitions: int) -> Iterator["HeldRows"]:
        """What makes draws of the rows."""
        yield self

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
        """As `RowBlocks.make`; `rows` are x and y on the devices."""
        return advance(state, rows, done if phase == "sample" else 0, count, thinning)


@dataclass(frozen=True)
class StreamedRows:
    """A stream of rows, of which x and y are the first minibatch; otherwise as `HeldRows`."""

    x: np.ndarray
    y: np.ndarray
    stream: Stream
    plan: StreamPlan | None = None
    complete: ClassVar[bool] = False
    data: ClassVar[None] = None
    dataset: ClassVar[None] = None

    @property
    def standardisation(self) -> Any:
        return self.stream.standardisation

    @property
    def blocks(self) -> BlockShape:
        return self._planned.blocks

    @property
    def _planned(self) -> StreamPlan:
        assert self.plan is not None
        return self.plan

    def spread(self, *, float64: bool) -> np.ndarray:
        return self.stream.read(_evenly(self.stream.rows), float64=float64)[0]

    def planned(self, settings: Settings, summary: ModelSummary, *, seed: int) -> "StreamedRows":
        plan = plan_stream(self.stream, settings, summary, self.x, self.y, seed=seed)
        return replace(self, plan=plan)

    def describe(self) -> dict[str, Any]:
        return self._planned.describe()

    def compiled_settings(self, settings: Settings) -> Settings:
        return self._planned.settings(settings)

    @contextmanager
    def opened(self, settings: Settings, transitions: int) -> Iterator[RowBlocks]:
        with RowBlocks.opened(self._planned, settings, transitions) as blocks:
            yield blocks


def _evenly(rows: int) -> np.ndarray:
    """Up to 100 row numbers, evenly over the rows."""
    return np.unique(np.linspace(0, rows - 1, _SPREAD_ROWS).astype(np.int64))


def _stream_of(x: Any, y: Any) -> Stream | None:
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


def _first_rows(
    stream: Stream, kernel: Any, init: Any, *, float64: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The first B rows, in the place of all, for a kernel that needs no more at a time.

    Raises:
        ValueError: the kernel or the start needs all rows, B is more than there are, or the
            order of the minibatches is not one that the stream can be read in.
    """
    name = type(kernel).__name__
    if (why := needs_all_rows(kernel)) is not None:
        raise ValueError(
            f"{name} {why}, but the data are streamed. Use a stochastic-gradient kernel without an "
            'accept step, such as `bnn.kernels.SGHMC`, with `gradient="minibatch"`, or hold the '
            "rows in memory: `sample(kernel, *stream.read(range(stream.rows)), ...)`."
        )
    kernel.given_rows(stream.rows, 1)  # which refuses draws of unequal length
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
