"""What a schedule is: a function of the step, or a number; how it is checked and evaluated."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import positive, strict_switches

__all__ = [
    "Schedule",
    "check_schedule",
    "evaluate",
    "fraction_of",
    "half_cosine",
    "not_negative",
    "real",
    "reference",
]


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
    """The value at which a momentum decay is stated; of a foreign function, that at step 0."""
    if isinstance(schedule, Schedule):
        return schedule.reference
    return _at_zero(schedule) if callable(schedule) else float(schedule)


@strict_switches
def check_schedule(value: Any, what: str, *, zero: bool = False) -> Any:
    """`value` as it is, when it is a number, a schedule, or a function of the step.

    Args:
        value: what a user gave.
        what: how the sentences call it, as "`step_size` of SGLD".
        zero: whether 0 is allowed; for schedules, at their first step.

    Raises:
        TypeError: neither a number nor a function of one argument that returns a number.
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
    return float(value)


def _at_zero(function: Callable[..., Any]) -> float:
    with jax.ensure_compile_time_eval():
        return float(function(jnp.asarray(0)))
