"""What a schedule is: a function of the step, or a number; how it is checked and evaluated."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.arguments import positive, strict_switches

__all__ = [
    "Schedule",
    "arrival",
    "check_schedule",
    "evaluate",
    "fraction_of",
    "half_cosine",
    "not_negative",
    "real",
    "reference",
]


_LAST = 2**30  # a step that no run comes to; one more is still an int32
# Where a function that is not ours is looked at: at every early step, then ever more coarsely.
_EARLY, _LATER = 1000, 20_000


class Schedule(ABC):
    """A function of the step, with two numbers that are known before anything is compiled."""

    @property
    @abstractmethod
    def reference(self) -> float:
        """The value that a user has in mind: a momentum decay is stated at this step size."""

    @property
    @abstractmethod
    def first(self) -> float:
        """The value at step 0."""

    @abstractmethod
    def __call__(self, step: Any) -> Any:
        """The value after `step` steps; `step` may be an integer or traced, of any shape."""


def evaluate(schedule: Any, step: Any) -> Any:
    """The value of a number, a schedule or any function at a step; a real scalar array."""
    value = schedule(step) if callable(schedule) else schedule
    return jnp.asarray(value, real())


def reference(schedule: Any) -> float:
    """The value at which a momentum decay is stated; of a foreign function, its largest.

    At step 0 a warm-up of optax is next to nothing. Stated there, a momentum decay would be 0 at
    the steps that matter.

    Raises:
        ValueError: a foreign function that grows as long as steps are counted.
    """
    if isinstance(schedule, Schedule):
        return schedule.reference
    if not callable(schedule):
        return float(schedule)
    # A kernel asks several times, and each look compiles.
    look = _looked_at if isinstance(schedule, Hashable) else _looked_at.__wrapped__
    values = look(schedule)
    largest = float(np.nanmax(values))
    if not math.isfinite(largest) or values[-1] > max(values[-2], values[0]):
        raise ValueError(
            f"The step size {schedule!r} grows without end, so there is none at which the momentum "
            "decay could be stated. Give a function that is constant or falls after some step, as "
            "`jnp.minimum(...)` of it and of the largest step size."
        )
    return largest


def arrival(schedule: Any) -> float:
    """The value that draws are made with in the end: T of a target where a temperature moves.

    Of a foreign function it is that at a step after any run, or, where it has none there, at
    step 0.
    """
    if isinstance(schedule, Schedule) or not callable(schedule):
        return reference(schedule)
    with jax.ensure_compile_time_eval():
        first, last = (float(schedule(jnp.asarray(step))) for step in (0, _LAST))
    return last if math.isfinite(last) and last >= 0 else first


@strict_switches
def check_schedule(value: Any, what: str, *, zero: bool = False) -> Any:
    """`value` as it is, when it is a number, a schedule, or a function of the step.

    Args:
        value: what a user gave.
        what: how the sentences call it, as "`step_size` of SGLD".
        zero: whether 0 is allowed; for schedules, at their first step.

    Raises:
        TypeError: neither a number nor a function of one argument that returns a number, or a
            function that cannot be compiled, such as one with an `if` on the step.
        ValueError: not positive (negative, when 0 is allowed) or not finite; of a function, its
            value at step 0.
    """
    if isinstance(value, Schedule):
        if not zero and value.first == 0:
            raise ValueError(
                f"{what} is {value}, which is 0 at the first step, but it must be positive."
            )
        return value
    if callable(value):
        number, words = _foreign(value, what), f"{what}, evaluated at step 0,"
    else:
        number, words = value, what
    if zero:
        not_negative(number, words)
    else:
        positive(number, words)
    return value


def real() -> Any:
    """float64 where it is switched on, else float32."""
    return jax.dtypes.canonicalize_dtype(float)


def fraction_of(step: Any, length: float) -> Any:
    """step/length, real."""
    return jnp.asarray(step, real()) / length


def half_cosine(part: Any) -> Any:
    """(1 + cos(π·part))/2: 1 at 0, 0 at 1."""
    return (1 + jnp.cos(jnp.pi * part)) / 2


def not_negative(value: object, what: str) -> None:
    """TypeError or ValueError unless `value` is a number, finite, and 0 or positive."""
    if value != 0 or isinstance(value, bool):
        positive(value, f"{what}, unless 0,")


def _foreign(function: Callable[..., Any], what: str) -> float:
    """The value at step 0 of a function that is not ours, which may return anything."""
    try:
        value = jnp.asarray(function(jnp.asarray(0)))
    except TypeError as error:
        raise TypeError(
            f"{what} must be a number or a function of the step that returns one; it cannot be "
            f"called with a step: {error}"
        ) from error
    if value.shape != () or not jnp.issubdtype(value.dtype, jnp.number):
        raise TypeError(
            f"{what} must be a number or a function of the step that returns one, but it returns "
            f"shape {value.shape}, {value.dtype}."
        )
    try:
        jax.eval_shape(function, jax.ShapeDtypeStruct((), jnp.int32))
    except TypeError as error:
        raise TypeError(
            f"{what} cannot be compiled: it is a function that asks for the number of the step, by "
            "an `if`, `float`, `int`, `math` or NumPy, and compiled code has no number yet. Write "
            "it with `jax.numpy`: `jnp.where(step < 10, 1e-4, 1e-5)`, not `1e-4 if step < 10 else "
            "1e-5`."
        ) from error
    return float(value)


@lru_cache(maxsize=32)
def _looked_at(function: Callable[..., Any]) -> np.ndarray:
    """The values of a foreign function at many steps, in their order."""
    later = np.geomspace(_EARLY, _LAST, _LATER)
    steps = np.unique(np.concatenate([np.arange(_EARLY), later]).astype(np.int32))
    with jax.ensure_compile_time_eval():
        values = jax.lax.map(partial(evaluate, function), jnp.asarray(steps))
    return np.asarray(values)
