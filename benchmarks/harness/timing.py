"""Times of functions that are compiled once and then take turns with the others."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

type Run = Callable[[], float]


def timed(function: Callable[..., Any], *args: Any) -> Run:
    """Compile and run once; the function returned runs again and gives the seconds."""
    compiled = jax.jit(function).lower(*args).compile()
    jax.block_until_ready(compiled(*args))

    def run() -> float:
        began = time.perf_counter()
        jax.block_until_ready(compiled(*args))
        return time.perf_counter() - began

    return run


def in_turns[K](runs: Mapping[K, Run], repeats: int) -> dict[K, list[float]]:
    """What each run gives, `repeats` times, one after another: the machine's speed drifts."""
    found: dict[K, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            found[name].append(run())
    return found


def median_ratio(values: Sequence[float], base: Sequence[float]) -> float:
    """Median over the turns of the ratio of two contenders."""
    return statistics.median(a / b for a, b in zip(values, base, strict=True))
