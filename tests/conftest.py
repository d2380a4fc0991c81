"""Fixtures that several tests share."""

import gc
import signal
from pathlib import Path

import jax
import numpy as np
import pytest

# A suite that a script starts with `&` inherits SIGINT ignored, and so would every process that a
# test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


_MAPS = Path("/proc/self/maps")  # of Linux alone
_MOST_MAPS = 15_000


@pytest.fixture(autouse=True, scope="module")
def few_compiled_programs():
    """Let compiled programs go, once a worker holds many.

    Each takes some 26 memory maps, of which Linux gives a process 65 530: the one after them ends
    the worker with a segmentation fault.
    """
    yield
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()


class Compilations:
    """Counts what XLA compiles: `with compilations() as count: ...; count()`."""

    def __init__(self) -> None:
        self._total = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, seconds: float, **_: object) -> None:
        self._total += event == "/jax/core/compile/backend_compile_duration"

    def __call__(self) -> int:
        return self._total


@pytest.fixture(scope="session")
def compilations():
    """A function that returns how many programs have been compiled so far."""
    return Compilations()


@pytest.fixture(scope="session")
def regression():
    """Forty rows of a smooth function of two inputs: the shape that most tests share."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2)).astype(np.float32)
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.3 * generator.normal(size=40)
    return x, y.astype(np.float32)
