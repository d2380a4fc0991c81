"""What benchmarks time with: compiled once, then run in turns with the others."""

import time
from collections.abc import Callable
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
