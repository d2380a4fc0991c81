"""Checks of arguments that many functions share, with the sentences they raise."""

import difflib
import math
import numbers
from collections.abc import Iterable

__all__ = ["near_misses", "positive", "whole_number"]


def positive(value: object, what: str) -> float:
    """`value` as a float; TypeError unless a number, ValueError unless positive and finite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{what} must be a number, not {value!r}.")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} must be positive and finite, not {number}.")
    return number


def whole_number(value: object, what: str, *, at_least: int, below: int | None = None) -> int:
    """`value` as an int; TypeError unless a whole number, ValueError when it is out of range."""
    try:
        number = value.__index__()  # type: ignore[attr-defined]
    except AttributeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{what} must be a whole number, not {value!r}.")
    if number < at_least:
        raise ValueError(f"{what} must be at least {at_least}, not {number}.")
    if below is not None and number >= below:
        raise ValueError(f"{what} must be below {below}, not {number}.")
    return int(number)


def near_misses(name: str, known: Iterable[str]) -> str:
    """A sentence with the known names nearest to `name`, or some of them when none is near."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    shown = ", ".join(f"`{k}`" for k in near or known[:8])
    if near:
        return f"Did you mean {shown}?"
    return f"There are {shown}" + (f" and {len(known) - 8} more." if len(known) > 8 else ".")
