"""Fixtures that several tests share."""

import signal

import jax
import numpy as np
import pytest

# A suite that a script starts with `&` inherits SIGINT ignored, and so would every process that a
# test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
