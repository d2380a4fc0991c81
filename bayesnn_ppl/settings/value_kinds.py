"""Kinds of value: each reads a text, or raises ValueError that says what it must be."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.storage import is_address

__all__ = [
    "choice",
    "choice_or_run",
    "choices",
    "duration",
    "levels",
    "names",
    "number",
    "number_or_auto",
    "numbers",
    "share",
    "whole",
    "widths",
]


def whole(at_least: int | None = None) -> Callable[[str], int]:
    """An integer, not below `at_least`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"must be an integer, not `{text}`") from None
        if at_least is not None and value < at_least:
            raise ValueError(f"must be at least {at_least}, not {value}")
        return value

    return read


def number(
    *, above: float = 0.0, below: float = math.inf, least: float | None = None
) -> Callable[[str], float]:
    """A number above `above`, or from `least` on, and below `below`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"must be a number, not `{text}`") from None
        if not (above < value < below or value == least):
            if math.isinf(above):
                raise ValueError(f"must be finite, not {text}")
            unbounded = math.isinf(below)
            bounds = f"above {above:g}" if unbounded else f"between {above:g} and {below:g}"
            finite = " and finite" if unbounded else ""
            raise ValueError(f"must be {bounds}{finite}, not {text}")
        return value

    return read


def number_or_auto(text: str) -> float | str:
    """A number above 0, or the word `auto`."""
    if text == "auto":
        return text
    try:
        return number()(text)
    except ValueError as error:
        raise ValueError(f"{error}; or `auto`") from None


def share(text: str) -> float:
    """A number from 0 to 1, both included."""
    value = number(above=-math.inf)(text)
    if not 0 <= value <= 1:
        raise ValueError(f"must be from 0 to 1, not {text}")
    return value


def names(text: str) -> tuple[str, ...]:
    """Names such as `ticket,cabin`."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise ValueError(f"takes names such as `ticket,cabin`, not `{text}`")
    return found


def numbers(text: str) -> tuple[float, ...]:
    """Numbers above 0 such as `1,2.5,10`."""
    return tuple(number()(part.strip()) for part in text.split(","))


def duration(text: str) -> float:
    """Seconds of `90`, `90s`, `10m` or `1h30m`."""
    # Where it is given, the command needs JAX, which comes with this import, anyway.
    from bayesnn_ppl.inference.runtime.stopping_rule import seconds_of

    try:
        return seconds_of(f"{text}s" if text[-1:].isdigit() else text)
    except ValueError:
        raise ValueError(f"takes a time such as `90s`, `10m` or `1h30m`, not `{text}`") from None


def choice(*known: str) -> Callable[[str], str]:
    """One of a few words."""

    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"`{text}` is unknown. {near_misses(text, known)}")
        return text

    read.choices = known  # type: ignore[attr-defined]
    return read


def choice_or_run(*known: str) -> Callable[[str], str]:
    """One of a few words, or the folder or address of a run."""

    def read(text: str) -> str:
        if text not in known and not is_address(text) and not Path(text).is_dir():
            raise ValueError(
                f"`{text}` is neither a word that is known nor the folder of a run. "
                + near_misses(text, known)
            )
        return text

    return read


def choices(*known: str) -> Callable[[str], tuple[str, ...]]:
    """A few words of those, such as `one,two`."""
    one = choice(*known)
    return lambda text: tuple(one(part.strip()) for part in text.split(","))


def levels(text: str) -> tuple[float, ...]:
    """Probabilities such as `0.05,0.95`."""
    return tuple(number(below=1)(part.strip()) for part in text.split(","))


def widths(text: str) -> tuple[int, ...]:
    """Widths of hidden layers such as `50,50`; `none` is a network without any."""
    if text.strip().lower() == "none":
        return ()
    try:
        return tuple(whole(1)(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"takes widths such as `50,50`, not `{text}`: each {error}") from None


def one_or_more(text: str, read: Callable[[str], Any]) -> Any:
    """One value, or several separated by commas as a tuple."""
    parts = [read(part.strip()) for part in text.split(",")]
    return parts[0] if len(parts) == 1 else tuple(parts)
