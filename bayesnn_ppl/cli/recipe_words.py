"""From the settings of a recipe to the arguments of `bayesnn sample` or `bayesnn fit`."""

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from bayesnn_ppl.cli.parser import Parser
from bayesnn_ppl.core.arguments import near_misses

__all__ = ["arguments_of", "line_of", "words_as_settings"]

# Options that say how a command talks, and where it writes: no part of what a recipe is.
_NOT_SETTINGS = ("help", "json", "traceback", "quiet", "no_diagnose", "out", "set")


def arguments_of(
    command: str, settings: Mapping[str, Any], where: str, more: Sequence[str] = ()
) -> argparse.Namespace:
    """The parsed arguments of the command, which checks every value as if it were typed.

    Args:
        command: "sample" or "fit".
        settings: options of the command by their long names, `_` for `-`; `model`; and, for "fit",
            settings of the approximation, where "none" is Python's None.
        where: how sentences call the recipe.
        more: words that are no settings, such as `--quiet`.

    Raises:
        ValueError: a setting that the command does not have, or a value that it cannot take.
    """
    parser, subparser = _parser(command)

    def refuse(message: str) -> NoReturn:
        raise ValueError(f"{where}: {message.removeprefix('argument ')}")

    subparser.error = refuse  # type: ignore[method-assign]
    return parser.parse_args([command, *_words(command, subparser, settings, where), *more])


def line_of(command: str, settings: Mapping[str, Any], where: str) -> str:
    """The command as one would type it."""
    return shlex.join(["bayesnn", command, *_words(command, _parser(command)[1], settings, where)])


def words_as_settings(given: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` words as settings; a value is read as JSON, or else as a word.

    Raises:
        ValueError: a word without `=`, or a key given twice.
    """
    found: dict[str, Any] = {}
    for word in given:
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise ValueError(
                f"--set takes KEY=VALUE, such as `--set draws=100`, not `{word}`: a setting of "
                "the recipe."
            )
        if key in found:
            raise ValueError(f"--set {key} is given twice. Leave one of the two out.")
        try:
            read = json.loads(value)
        except json.JSONDecodeError:
            read = value
        found[key] = "none" if read is None else value if isinstance(read, dict) else read
    return found


def _parser(command: str) -> tuple[Parser, Parser]:
    from bayesnn_ppl.cli.commands import build_parser

    parser = build_parser()[0]
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return parser, commands.choices[command]


def _words(command: str, parser: Parser, settings: Mapping[str, Any], where: str) -> list[str]:
    options = {
        action.dest: action
        for action in parser._actions
        if action.option_strings and action.dest not in _NOT_SETTINGS
    }
    own: list[str] = []
    if command == "fit":
        from bayesnn_ppl.cli.fitting import settable

        own = settable(settings.get("approximation", "ensemble"))
    words = [str(settings["model"])] if "model" in settings else []
    for key, value in settings.items():
        if key in options:
            words += _option(options[key], value)
        elif key in own:
            words.append(f"--set={key}={json.dumps(None if value == 'none' else value)}")
        elif key != "model":
            raise ValueError(
                f"{where} has no setting `{key}`. {near_misses(key, ['model', *options, *own])}"
            )
    return words


def _option(action: argparse.Action, value: Any) -> list[str]:
    flag = action.option_strings[0]
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            raise ValueError(f"`{action.dest}` is true or false, not {value!r}.")
        return [flag] if value else []
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if isinstance(value, list):
        value = ",".join(map(str, value)) or "none"
    return [f"{flag}={value}"]
