"""R-hat and effective sample sizes of more draws than fit into memory, compared with ArviZ.

    python -m benchmarks diagnostics [--weights 1000000] [--chains 4] [--draws 1000]

The draws are made as they are read: (4, 1000, 10^6) in float32 would be 16 GB of file. Their
layout is that of a file, variables last. Prints the time, the peak resident memory of the process
(without ArviZ), and on a sample of weights the largest difference from ArviZ and the ratio of
times per weight.
"""

import os
import resource
import sys
import time
from typing import Any

import numpy as np

from bayesnn_ppl.diagnostics import Convergence, convergence_by_block

TILE = 500
SAMPLE = 200


class GeneratedDraws:
    """Draws (chain, draw, variable) that exist only where they are sliced.

    Moving averages of Gaussian noise; every tenth variable has one chain apart, so that R-hat has
    something to find.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, chains: int, draws: int, variables: int) -> None:
        self.shape = (chains, draws, variables)

    def __getitem__(self, index: tuple[slice, slice, slice]) -> np.ndarray:
        first, last, _ = index[2].indices(self.shape[2])
        tiles = range(first // TILE, -(-last // TILE))
        values = np.empty((*self.shape[:2], len(tiles) * TILE), self.dtype)
        for position, tile in enumerate(tiles):
            values[:, :, position * TILE : (position + 1) * TILE] = self._tile(tile)
        offset = tiles.start * TILE
        return values[:, :, first - offset : last - offset]

    def _tile(self, tile: int) -> np.ndarray:
        chains, draws, _ = self.shape
        noise = np.random.default_rng((0, tile)).standard_normal(
            (chains, draws + 1, TILE), dtype=self.dtype
        )
        values = noise[:, 1:] + 0.7 * noise[:, :-1]
        values[0, :, ::10] += 0.5
        return values


def by_arviz(draws: np.ndarray) -> dict[str, float]:
    """R-hat and effective sample sizes of one variable (chain, draw)."""
    import arviz as az

    return {
        "rhat": az.rhat(draws, method="rank"),
        "ess_bulk": az.ess(draws, method="bulk"),
        "ess_tail": az.ess(draws, method="tail", prob=(0.05, 0.95)),
        "mcse_mean": az.mcse(draws, method="mean"),
    }


def compare(source: Any, found: Convergence) -> tuple[float, float]:
    """Largest relative difference from ArviZ on a sample of weights, and its seconds a weight."""
    rng = np.random.default_rng(1)
    chosen = rng.choice(source.shape[2], size=min(SAMPLE, source.shape[2]), replace=False)
    worst, seconds = 0.0, 0.0
    by_arviz(source[:, :, 0:1][:, :, 0])  # its first call imports and prepares
    for weight in chosen:
        values = source[:, :, weight : weight + 1][:, :, 0].astype(float)
        began = time.perf_counter()
        expected = by_arviz(values)
        seconds += time.perf_counter() - began
        for name, value in expected.items():
            worst = max(worst, abs(getattr(found, name)[weight] / value - 1))
    return worst, seconds / len(chosen)


def peak_gigabytes() -> float:
    """Peak resident memory of this process, which Linux counts in kilobytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def main(
    *,
    weights: int = 1_000_000,
    chains: int = 4,
    draws: int = 1000,
    memory: int = 2**28,
    workers: int | None = os.cpu_count(),
) -> None:
    """Print the time, the memory, and the comparison.

    Args:
        memory: bytes of draws held at a time.
        workers: threads.
    """
    source = GeneratedDraws(chains, draws, weights)
    before = peak_gigabytes()
    began = time.perf_counter()
    found = convergence_by_block(source, memory=memory, workers=workers)
    seconds = time.perf_counter() - began
    peak = peak_gigabytes()
    size = np.prod(source.shape, dtype=np.int64) * source.dtype.itemsize / 1e9
    print(f"draws             {source.shape}, {size:.2f} GB in float32, made while they are read")
    print(f"time              {seconds:.1f} s with {workers} threads")
    print(f"peak memory       {peak:.2f} GB, of which {before:.2f} GB before the first block")
    print(
        f"R-hat above 1.01  {np.mean(found.rhat > 1.01):.4f} of the weights (one in ten is apart)"
    )
    worst, each = compare(source, found)
    print(f"ArviZ             largest relative difference {worst:.1e} on {SAMPLE} weights")
    ours = seconds / weights
    print(
        f"                  {1e3 * each:.2f} ms a weight against {1e3 * ours:.2f} ms here: "
        f"{each / ours:.0f} times as long"
    )
