"""Do memory, file handles or the time of a block grow over many short blocks?

    python -m benchmarks short_blocks [--blocks 10000] [--out FILE]

One run of HMC on a linear model, one draw a block, streamed to a temporary folder and committed
every two seconds, as any run is. Measured after each hundredth of the blocks: resident memory, open
files, and the time that the hundredth took. Written down are their growth from the second tenth to
the last one, and the slopes by least squares.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.core.wording import json_text
from benchmarks.harness.records import write_result


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(blocks: int) -> dict[str, Any]:
    """Run so many blocks of one draw; the record."""
    from bayesnn_ppl.inference.runtime import block_loop

    block_loop.BLOCK_SECONDS = 0.0  # the shortest block there is, one draw
    import bayesnn_ppl as bnn

    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 4)).astype(np.float32)
    seen: list[tuple[float, int, int]] = []
    every = max(blocks // 100, 1)

    def look(progress: Any) -> bool:
        if progress.phase == "sample" and progress.done % every == 0:
            handles = len(os.listdir("/proc/self/fd"))
            seen.append((time.process_time(), resident_bytes(), handles))
        return False

    kernel = bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=3)
    with tempfile.TemporaryDirectory() as folder:
        bnn.sample(
            kernel,
            x,
            x[:, 0],
            warmup=20,
            draws=blocks,
            chains=2,
            progress=False,
            out=Path(folder) / "run",
            callback=look,
        )
    times, memory, handles = (np.array(column, float) for column in zip(*seen, strict=True))
    steps = np.diff(times) / every
    tenth = max(len(memory) // 10, 1)
    number = np.arange(len(memory)) * every

    def grown(values: np.ndarray) -> float:
        return float(np.median(values[-tenth:]) / np.median(values[tenth : 2 * tenth]) - 1)

    return {
        "blocks": blocks,
        "processor_seconds_a_block": round(float(np.median(steps)), 6),
        "growth_of_block_time": round(grown(steps), 4),
        "resident_mb": [round(float(memory[i]) / 2**20, 1) for i in (tenth, -1)],
        "growth_of_memory": round(grown(memory), 4),
        "bytes_a_block": round(float(np.polyfit(number[tenth:], memory[tenth:], 1)[0]), 1),
        "file_handles": [int(handles[tenth]), int(handles[-1])],
        "draws_in_memory_bytes": 2 * blocks * 4 * 6,
    }


def main(*, blocks: int = 10_000, out: Path | None = None) -> None:
    """Measure, print and write down."""
    found = measure(blocks)
    print(json_text(found))
    if out is not None:
        write_result(out, found)
