"""Data larger than the memory: rows that are read from a file while a run needs them."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import html_table, integer, strict_switches
from bayesnn_ppl.core.arrays import check_array, check_targets
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.data.streaming.row_sources import Arrays, Records, opened, record_keys

_PIECE_BYTES = 2**23  # are read, prepared and checked at once
_FIRST_ROWS = 8
_FINGERPRINT_ROWS = 1000


class Stream:
    """Inputs and targets that stay where they are, and are read row by row; see `stream`.

    It unpacks to two columns, so that `sample(kernel, *stream, ...)` is written as for arrays.

    Attributes:
        rows: their number N.
        chunk, window: rows that are read together, and how many chunks are mixed.
        standardisation: of the targets, where they carry one; else None.
    """

    def __init__(
        self,
        source: Arrays | Records,
        *,
        prepare: Callable[[Any, Any], tuple[Any, Any]] | None,
        chunk: int,
        window: int,
        standardisation: Any = None,
    ) -> None:
        self._source, self._prepare = source, prepare
        self.rows, self.chunk, self.window = len(source), chunk, window
        self.standardisation = standardisation
        self._piece_rows = _FIRST_ROWS
        self._first = self.read(np.arange(min(_FIRST_ROWS, self.rows)))
        row_bytes = sum(part[0].nbytes for part in self._first)
        self._piece_rows = max(1, _PIECE_BYTES // max(1, row_bytes))

    @property
    def x(self) -> "StreamedColumn":
        """The inputs, as `sample` takes them."""
        return StreamedColumn(self, "x", (self.rows, *self._first[0].shape[1:]))

    @property
    def y(self) -> "StreamedColumn":
        """The targets."""
        return StreamedColumn(self, "y", (self.rows, *self._first[1].shape[1:]))

    def __iter__(self) -> Iterator["StreamedColumn"]:
        return iter((self.x, self.y))

    def _repr_html_(self) -> str:
        x, y = self._first
        rows = [
            ("rows", str(self.rows)),
            ("x", f"{x.shape[1:]} {x.dtype}"),
            ("y", f"{y.shape[1:]} {y.dtype}"),
            ("chunks", f"{self.chunk} rows, {self.window} mixed"),
        ]
        return html_table("Stream", rows)

    def __repr__(self) -> str:
        x, y = self._first
        return (
            f"Stream({self.rows} rows; x {x.shape[1:]} {x.dtype}, y {y.shape[1:]} {y.dtype}; "
            f"chunks of {self.chunk})"
        )

    @strict_switches
    def read(self, rows: Any, *, float64: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Some rows, in the order asked for, prepared and checked as `sample` checks arrays.

        They are read in ascending order, each once, in pieces that hold whole chunks.

        Args:
            rows: integers in [0, N), shape (k,), k ≥ 1; repeats are allowed.
            float64: keep double precision.

        Returns:
            x (k, ...) and y (k, ...).

        Raises:
            ValueError: no row is asked for or one is out of range, or holds a value that is not
                finite; the sentence names it.
        """
        rows = np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size:
            raise ValueError(
                f"`rows` must be a list of row numbers, not an array of {rows.dtype}{rows.shape}."
            )
        if rows.min() < 0 or rows.max() >= self.rows:
            raise ValueError(f"The rows of this stream are 0 … {self.rows - 1}; asked is {rows}.")
        unique, inverse = np.unique(rows, return_inverse=True)
        places = np.argsort(inverse, kind="stable")
        ends = np.searchsorted(inverse[places], np.arange(len(unique)), side="right")
        out: tuple[np.ndarray, np.ndarray] | None = None
        begin = 0
        while begin < len(unique):
            last = min(begin + self._piece_rows, len(unique)) - 1
            end = int(np.searchsorted(unique, (unique[last] // self.chunk + 1) * self.chunk))
            piece = self._checked(unique[begin:end], float64)
            where = places[ends[begin - 1] if begin else 0 : ends[end - 1]]
            if out is None:
                x, y = (np.empty((len(rows), *part.shape[1:]), part.dtype) for part in piece)
                out = x, y
            for whole, part in zip(out, piece, strict=True):
                whole[where] = part[inverse[where] - begin]
            begin = end
        assert out is not None
        return out

    def _checked(self, rows: np.ndarray, float64: bool) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the source gives them, prepared, and as numbers that the model may see."""
        x, y = self._source.take(rows)
        if self._prepare is not None:
            x, y = self._prepare(x, y)
        x, y = self._numbers(x, "x", rows, float64), self._numbers(y, "y", rows, float64)
        return x, y

    def _numbers(self, values: Any, name: str, rows: np.ndarray, float64: bool) -> np.ndarray:
        if np.ndim(values) == 0 or len(values) != len(rows):
            raise ValueError(
                f"`prepare` was given {len(rows)} rows, and its {name} has shape "
                f"{np.shape(values)}. It must return (x, y) with as many rows as it was given."
            )
        check = check_targets if name == "y" else check_array
        try:
            return check(values, name, float64=float64)
        except ValueError:
            for row, value in zip(rows, values, strict=True):
                try:
                    check(np.asarray(value)[None], name, float64=float64)
                except ValueError as error:
                    raise ValueError(f"Row {row} of the stream, here row 0: {error}") from None
            raise

    def sha256(self) -> str:
        """A hash of how the stream is read, and of up to 1000 rows evenly over it.

        Not of all: reading them would take longer than many a run.
        """
        how = (self.rows, self.chunk, self.window)
        digest = hashlib.sha256(f"{how}{describe(self._prepare)}".encode())
        spread = np.linspace(0, self.rows - 1, min(self.rows, _FINGERPRINT_ROWS))
        for array in self.read(spread.astype(np.int64), float64=True):
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class StreamedColumn:
    """Inputs or targets of a stream, for `sample`; it holds no values.

    Attributes:
        stream: where they are read.
        name: "x" or "y".
        shape: (N, ...).
    """

    stream: Stream
    name: str
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            f"The {self.name} of a stream of {len(self)} rows are not held in memory. Read those "
            "that are needed: `x, y = stream.read(range(1000))`."
        )


def stream(
    x: Any,
    y: Any = None,
    *,
    keys: tuple[Any, Any] | None = None,
    prepare: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    chunk: int | None = None,
    window: int = 64,
) -> Stream:
    """Data for a stochastic-gradient kernel that are read from the disk as the run needs them.

    Memory holds a few blocks of minibatches, whatever the size of the data. Rows are read in
    ascending order, a block at a time, by a thread that is one block ahead of the run.

    Args:
        x, y: arrays with a leading axis of rows that are read by index: a path to a `.npy` file
            (opened as a memory map) or to a zarr array, an `np.memmap`, a zarr array, an HDF5 data
            set. Or x alone, a source of records with `len` and `[i]`, such as
            `tfds.builder(name).as_data_source("train")`, or a list of pairs.
        keys: of records, where input and target are: `("image", "label")`. By default the
            `supervised_keys` of a TFDS data source, and (0, 1) where records are pairs.
        prepare: `(x, y) -> (x, y)` on a block of rows as they are stored, NumPy arrays, such as
            `lambda x, y: (x / np.float32(255), y)`; it must treat each row by itself. Afterwards
            floats become float32 and integers int32, as for arrays.
        chunk: so many neighbouring rows are read together; by default 1, or the length of the
            stored chunks of a zarr array, whose rows cannot be read one by one. With more than 1
            the kernel must take rows by epochs, `minibatches="epoch"`, and minibatches are noisier
            where neighbours are alike: `RowOrder` says by how much.
        window: so many chunks are mixed.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError, ValueError: x and y are not such arrays, differ in their rows or hold no numbers;
            keys are missing.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> import numpy as np
        >>> data = bnn.data.stream(np.ones((1000, 3), np.float32), np.arange(1000) % 2)
        >>> data.x.shape
        (1000, 3)
        >>> data.read([7, 3])[1]
        array([1, 1], dtype=int32)
    """
    window = integer(window, "`window`", at_least=1)
    source: Arrays | Records
    if y is None:
        source = Records(x, record_keys(x, keys))
        stored = None
    else:
        if keys is not None:
            raise ValueError("`keys` are for a source of records; leave them out, or leave out y.")
        source = Arrays(opened(x, "x"), opened(y, "y"))
        if source.x.shape[0] != source.y.shape[0]:
            raise ValueError(
                f"`x` has {source.x.shape[0]} rows and `y` has {source.y.shape[0]}: they must be "
                "equal."
            )
        stored = getattr(source.x, "chunks", None)
    if not len(source):
        raise ValueError("The stream must have at least one row.")
    chunk = integer(chunk or (stored[0] if stored else 1), "`chunk`", at_least=1)
    return Stream(
        source,
        prepare=prepare,
        chunk=min(chunk, len(source)),
        window=window,
        standardisation=getattr(y, "standardisation", None),
    )
