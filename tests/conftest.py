"""Fixtures that several tests share."""

import signal

import jax
import numpy as np
import pytest
from numpyro.distributions import constraints


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


@pytest.fixture
def covariance_checks(monkeypatch):
    """A function that returns how often NumPyro has looked at the form of a Cholesky factor."""
    kind = type(constraints.lower_cholesky)
    check, seen = kind.__call__, []

    def counted(constraint, factor):
        seen.append(factor)
        return check(constraint, factor)

    monkeypatch.setattr(kind, "__call__", counted)
    return lambda: len(seen)


@pytest.fixture
def ctrl_c():
    """Python's handler of SIGINT, which a suite that a script started with `&` inherits ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
