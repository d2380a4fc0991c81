"""What callers give, with the sentences that refuse it, and what they get, in a line or a table."""

import difflib
import functools
import html
import inspect
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

__all__ = [
    "PACKAGE",
    "html_table",
    "natural",
    "near_misses",
    "no_attribute",
    "positive",
    "readable",
    "series",
    "strict_switches",
    "told_names",
    "integer",
]

PACKAGE = str(Path(__file__).parents[1])  # warnings name the first line outside of it
_MOST_LETTERS = 60  # of one value in the line of a result


def positive(value: object, what: str) -> float:
    """`value` as a float; TypeError unless a number, ValueError unless positive and finite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{what} must be a number, not {value!r}.")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} must be positive and finite, not {number}.")
    return number


def integer(value: object, what: str, *, at_least: int, below: int | None = None) -> int:
    """`value` as an int; TypeError unless an integer, ValueError when it is out of range."""
    try:
        number = value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):  # an array has the method, and may not be one number
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, not {value!r}.")
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


def no_attribute(module: str, name: str, known: Iterable[str], hint: str = "") -> AttributeError:
    """The error of a module's `__getattr__`, with `hint`, or else with the nearest names."""
    # Python asks modules for names such as `__path__`, which nobody misspelt.
    hint = "" if name.startswith("__") else ". " + (hint or near_misses(name, known))
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def told_names[**P, R](others: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function: by a name that another library has for an argument, its own is told.

    Args:
        others: that name -> the argument's name here.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            wrong = [f"`{others[name]}`, not `{name}`" for name in kwargs if name in others]
            if wrong:
                raise TypeError(f"`{function.__name__}` takes {'; '.join(wrong)}.")
            return function(*args, **kwargs)

        return call

    return decorate


def strict_switches[F: Callable[..., Any]](callee: F) -> F:
    """Decorate a function or a class: TypeError for a word or a number where it declares a `bool`.

    Any word is true in Python, "no" and "False" as well. The arguments are looked at before
    anything is done with them.
    """
    function = vars(callee)["__init__"] if isinstance(callee, type) else callee
    arguments = inspect.signature(function).parameters.values()
    by_position = [a.name for a in arguments if a.kind <= a.POSITIONAL_OR_KEYWORD]
    switches = {a.name: a.annotation for a in arguments if a.annotation in (bool, bool | None)}
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(by_position, args, strict=False)) | kwargs
        for name, declared in switches.items():
            if name in given and not isinstance(given[name], declared):
                also = "" if declared is bool else ", or None"
                raise TypeError(
                    f"`{name}` of `{called}` must be True or False{also}, not {given[name]!r}."
                )
        return function(*args, **kwargs)

    if isinstance(callee, type):
        setattr(callee, "__init__", call)  # noqa: B010
        return callee
    return cast(F, call)


def series(words: Iterable[str], *, last: str = "and") -> str:
    """Words as a sentence lists them: `a`, `a and b`, `a, b and c`."""
    *first, final = words
    return f"{', '.join(first)} {last} {final}" if first else final


def natural(names: Iterable[str]) -> list[str]:
    """Names in the order in which people count: `Dense_2` comes before `Dense_10`."""

    def key(name: str) -> list[Any]:
        # Every other part is a number, so that numbers never meet words.
        return [int(p) if i % 2 else p for i, p in enumerate(re.split(r"(\d+)", name))]

    return sorted(names, key=key)


def readable[T](kind: type[T]) -> type[T]:
    """Decorate a class of results: `repr` is one short line, and a notebook shows a small table.

    Both show what its method `_figures` gives, name -> value, or else the arguments of its
    constructor that are not at their defaults: arrays by their shape, what is long by its kind. A
    class may have a table of its own, `_repr_html_`.
    """

    def figures(self: Any) -> Mapping[str, Any]:
        if hasattr(self, "_figures"):
            return self._figures()
        found = {}
        for name, default in _arguments(type(self)).items():
            # Of the instance: a class may have a default or a method of that private name.
            private = getattr(self, "__dict__", {}).get(f"_{name}", default)
            value = getattr(self, name, private) if private is default else private
            plain = isinstance(value, bool | int | float | str | tuple)
            if value is not default and not (plain and value == default):
                found[name] = value
        return found

    def line(self: Any) -> str:
        parts = (f"{name}={_short(value)}" for name, value in figures(self).items())
        return f"{type(self).__name__}({', '.join(parts)})"

    def table(self: Any) -> str:
        rows = [
            (name.replace("_", " "), value if isinstance(value, str) else _short(value))
            for name, value in figures(self).items()
        ]
        return html_table(type(self).__name__, rows)

    # Set here, since dataclasses and named tuples write a `__repr__` and would hide one inherited.
    setattr(kind, "__repr__", line)  # noqa: B010
    if "_repr_html_" not in vars(kind):
        setattr(kind, "_repr_html_", table)  # noqa: B010
    return kind


def _arguments(kind: type) -> dict[str, Any]:
    """Argument of the constructor -> default, with those that it hands on to a base class."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        arguments = inspect.signature(base).parameters.values()
        found = {a.name: a.default for a in arguments if a.kind is not a.VAR_KEYWORD} | found
        if not any(a.kind is a.VAR_KEYWORD for a in arguments):
            break
    return found


def html_table(
    caption: str, rows: Sequence[Sequence[str]], header: Sequence[str] | None = None
) -> str:
    """A table for a notebook, without colours: a notebook's own are light or dark.

    Words are left-aligned, and so is the first column; under a header the others are right-aligned.
    """

    def line(cells: Sequence[str], tag: str) -> str:
        sides = ["left", *["right" if header else "left"] * (len(cells) - 1)]
        return "".join(
            f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        )

    lines = [line(header, "th")] if header else []
    body = "".join(f"<tr>{cells}</tr>" for cells in [*lines, *(line(row, "td") for row in rows)])
    return f"<table><caption>{html.escape(caption)}</caption>{body}</table>"


def _short(value: Any) -> str:
    """A value among others: a number, a few words or numbers, or what kind of thing it is."""
    if isinstance(value, bool | int | str | None):
        text = repr(value)
        return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        size = ",".join(map(str, value.shape))  # float32[40,2], as JAX writes it
        return f"{value.dtype}[{size}]" if size else _short(value.item())
    if isinstance(value, tuple | list | Mapping):
        named = isinstance(value, Mapping)
        whole = ", ".join(f"{v}: {_short(value[v])}" if named else _short(v) for v in value)
        whole += "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"({whole})" if len(whole) <= _MOST_LETTERS else f"{len(value)} entries"
    return getattr(value, "__name__", type(value).__name__.lstrip("_"))
