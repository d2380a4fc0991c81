"""Which rows each step of a streamed run takes: a pure function of seed, chain and step.

Nothing is remembered between steps, so a run that resumes after a crash takes the rows that it
would have taken.
"""

from dataclasses import dataclass, field

import numpy as np

_STEPS, _CHUNKS, _WINDOWS = range(3)  # streams of random numbers that never meet


@dataclass(frozen=True)
class RowOrder:
    r"""The minibatches of every chain, B rows a step.

    With `epoch` False a step takes B rows drawn independently of everything else.

    With `epoch` True the steps go through one permutation of all N rows after another, without a
    break: step t takes the places tB … tB + B - 1, so that a batch may span two epochs and N need
    not divide by B. With `chunk` C = 1 it is a uniform permutation. With C > 1 the rows of C
    neighbours stay near each other, so that a file is read in long pieces: the chunks are permuted,
    K of them make a *window*, and the rows of a window are permuted. Every row still comes once an
    epoch, and the mean of a batch is unbiased, but its variance is

        Var = (1 - B/KC) s²_within/B + (1 - K/n) σ²_chunks/K,    n = N/C chunks,

    where σ²_chunks is the variance of the chunks' means and s²_within that inside a window: the
    second term, which all KC/B batches of a window share, does not fall with B. In a file in random
    order the sum is s²/B, as without chunks. In one that is sorted by class the second term is
    large: then shuffle the file once, or make the window larger.

    Attributes:
        rows: N.
        batch: B ≤ N.
        seed: in [0, 2⁶⁴).
        epoch: one permutation an epoch, else independent rows.
        chunk, window: C and K. Memory per chain: 4 bytes for each chunk, and 8KC.
    """

    rows: int
    batch: int
    seed: int
    epoch: bool
    chunk: int = 1
    window: int = 64
    _permutations: dict[int, tuple[int, np.ndarray]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def batches(self, chain: int, begin: int, end: int) -> np.ndarray:
        """Row numbers of the steps begin … end - 1 of a chain, int64 (end - begin, B)."""
        if not self.epoch:
            drawn = [
                self._generator(_STEPS, chain, step).integers(self.rows, size=self.batch)
                for step in range(begin, end)
            ]
            return np.stack(drawn)
        place, last = begin * self.batch, end * self.batch
        parts = []
        while place < last:
            epoch, rank = divmod(place, self.rows)
            until = min(self.rows, rank + last - place)
            parts += self._ranks(chain, epoch, rank, until)
            place += until - rank
        return np.concatenate(parts).astype(np.int64).reshape(end - begin, self.batch)

    def _ranks(self, chain: int, epoch: int, begin: int, end: int) -> list[np.ndarray]:
        """The rows at the places begin … end - 1 of one epoch, in parts."""
        order = self._chunk_order(chain, epoch)
        if self.chunk == 1:
            return [order[begin:end]]
        # The last chunk of the file may be short; the windows behind it begin so much earlier.
        missing = len(order) * self.chunk - self.rows
        short = int(np.flatnonzero(order == len(order) - 1)[0]) if missing else len(order)
        size = self.window * self.chunk

        def starts(window: int) -> int:
            return window * size - (missing if short < window * self.window else 0)

        window = begin // size
        parts = []
        while (start := starts(window)) < end:
            chunks = order[window * self.window : (window + 1) * self.window].astype(np.int64)
            inside = (chunks[:, None] * self.chunk + np.arange(self.chunk)).ravel()
            inside = inside[inside < self.rows]
            self._generator(_WINDOWS, chain, epoch, window).shuffle(inside)
            parts.append(inside[max(begin - start, 0) : end - start])
            window += 1
        return parts

    def _chunk_order(self, chain: int, epoch: int) -> np.ndarray:
        """The permutation of the chunks of one epoch; the latest of each chain is kept."""
        known = self._permutations.get(chain)
        if known is None or known[0] != epoch:
            order = np.arange(-(-self.rows // self.chunk), dtype=np.uint32)
            self._generator(_CHUNKS, chain, epoch).shuffle(order)
            known = self._permutations[chain] = (epoch, order)
        return known[1]

    def _generator(
        self, kind: int, chain: int, number: int, window: int = 0
    ) -> np.random.Generator:
        """Counter-based, so that any step has its numbers without those before it."""
        key = np.array([self.seed, 4 * chain + kind], np.uint64)
        counter = np.array([0, 0, window, number], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))
