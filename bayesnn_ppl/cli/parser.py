"""An argument parser that says what was meant, and the kinds of value that options take."""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from bayesnn_ppl.core.arguments import near_misses

__all__ = [
    "Parser",
    "as_written",
    "choice",
    "choices",
    "duration",
    "levels",
    "number",
    "number_or_auto",
    "numbers",
    "option",
    "share",
    "switch",
    "whole",
    "widths",
]

# What a file is given by, for one that was typed without its option.
_FILES = {
    ".csv": "--data",
    ".parquet": "--data",
    ".pq": "--data",
    ".npz": "--data",
    ".py": "--model",
}


class Parser(argparse.ArgumentParser):
    """`argparse.ArgumentParser` with one-sentence errors, nearest matches and no abbreviations."""

    def __init__(self, **options: Any) -> None:
        options = {"formatter_class": argparse.RawDescriptionHelpFormatter, **options}
        super().__init__(**options | {"allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, and leave with status 2."""
        message = message.removeprefix("argument ")
        words = self.prog.split(" ", 1)
        where = "" if len(words) == 1 else f" {words[1]}"
        if not message.endswith((".", "?")):
            message += "."
        print(f"bayesnn{where}: error: {message} See `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(2)

    def options(self) -> list[str]:
        """Every option of this parser, such as `--chains`."""
        return [name for action in self._actions for name in action.option_strings]

    def check_command(self, first: str, commands: Iterable[str]) -> None:
        """Refuse a first word that is no command and no option of the program itself."""
        if first.startswith("-"):
            if first.split("=")[0] not in self.options():
                self.error(f"`{first}` must stand after a command: `bayesnn COMMAND {first}`")
        elif first not in commands:
            self.error(f"There is no command `{first}`. {near_misses(first, commands)}")

    def refuse_unknown(self, unknown: Sequence[str]) -> None:
        """Leave with an error that names the first argument nobody understood."""
        if not unknown:
            return
        wrong = next((word for word in unknown if word.startswith("-")), unknown[0])
        name = wrong.split("=")[0]
        if name.startswith("-"):
            known = [option for option in self.options() if option.startswith("--")]
            self.error(f"The option `{name}` is unknown. {near_misses(name, known)}")
        meant = next((o for end, o in _FILES.items() if wrong.lower().endswith(end)), None)
        if meant in self.options():
            self.error(f"`{wrong}` is one argument too many. Did you mean `{meant} {wrong}`?")
        self.error(f"`{wrong}` is one argument too many.")


def option(
    group: Any,
    name: str,
    text: str,
    *,
    default: Any = None,
    unit: str,
    shown: str | None = None,
    **settings: Any,
) -> None:
    """Add an option whose help ends with its unit and default.

    Args:
        group: the parser, or a group of its options.
        name: such as `--chains`.
        text: what it is for.
        default: its value where it is not given.
        unit: the unit, or the kind of value.
        shown: the default in words, where the value does not say it.
        **settings: of `add_argument`.
    """
    words = shown if shown is not None else str(default)
    group.add_argument(
        name,
        default=default,
        help=f"{text} [{unit}; default: {words}]".replace("%", "%%"),
        **settings,
    )


def switch(group: Any, name: str, text: str) -> None:
    """Add an option without a value."""
    group.add_argument(
        name, action="store_true", help=f"{text} [switch; default: off]".replace("%", "%%")
    )


def whole(at_least: int) -> Callable[[str], int]:
    """A whole number from `at_least` on."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, not `{text}`") from None
        if value < at_least:
            raise argparse.ArgumentTypeError(f"must be at least {at_least}, not {value}")
        return value

    return convert


def number(
    *, above: float = 0.0, below: float = math.inf, least: float | None = None
) -> Callable[[str], float]:
    """A number above `above`, or from `least` on, and below `below`."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, not `{text}`") from None
        if not (above < value < below or value == least):
            unbounded = math.isinf(below)
            bounds = f"above {above:g}" if unbounded else f"between {above:g} and {below:g}"
            finite = " and finite" if unbounded else ""
            raise argparse.ArgumentTypeError(f"must be {bounds}{finite}, not {text}")
        return value

    return convert


def number_or_auto(text: str) -> float | str:
    """A number above 0, or the word `auto`."""
    if text == "auto":
        return text
    try:
        return number()(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or `auto`") from None


def share(text: str) -> float:
    """A number from 0 to 1, both included."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not `{text}`") from None
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, not {text}")
    return value


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
        raise argparse.ArgumentTypeError(
            f"takes a time such as `90s`, `10m` or `1h30m`, not `{text}`"
        ) from None


def choice(*known: str) -> Callable[[str], str]:
    """One of a few words."""

    def convert(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"`{text}` is unknown. {near_misses(text, known)}")
        return text

    return convert


def choices(*known: str) -> Callable[[str], tuple[str, ...]]:
    """A few words of those, such as `one,two`."""
    one = choice(*known)

    def convert(text: str) -> tuple[str, ...]:
        return tuple(one(part.strip()) for part in text.split(","))

    return convert


def levels(text: str) -> tuple[float, ...]:
    """Probabilities such as `0.05,0.95`."""
    return tuple(number(below=1)(part.strip()) for part in text.split(","))


def widths(text: str) -> tuple[int, ...]:
    """Widths of hidden layers such as `50,50`; `none` is a network without any."""
    if text.strip().lower() == "none":
        return ()
    try:
        return tuple(whole(1)(part.strip()) for part in text.split(","))
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"takes widths such as `50,50`, not `{text}`: each {error}"
        ) from None


def as_written(error: BaseException) -> str:
    """The message of an error as a sentence."""
    text = str(error).strip() or type(error).__name__
    return text if text.endswith((".", "?", "!")) else f"{text}."
