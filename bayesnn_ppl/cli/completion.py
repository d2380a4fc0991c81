"""`bayesnn completion`: a script with which a shell completes commands, options and their values.

shtab writes the script from the parser. What may stand after an option is read from its metavar.
"""

import argparse
from typing import Any

import shtab

import bayesnn_ppl as bnn
from bayesnn_ppl.cli.commands import build_parser
from bayesnn_ppl.cli.output import print_json
from bayesnn_ppl.experiments import recipe_names, study_names

__all__ = ["run_completion"]

_FOLDERS = ("FOLDER", "OUT", "RUN")


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script of one shell."""
    parser, _ = build_parser()
    named = {
        "MODEL": _names_or_files("models", bnn.models.__all__),
        "NAME|FILE.csv": _names_or_files("data", bnn.data.names()),
        "RECIPE": _names_or_files("recipes", recipe_names()),
        "STUDY": _names_or_files("studies", study_names()),
    }
    for command in _commands(parser):
        for action in command._actions:
            _say_what_may_stand(action, named)
    script = shtab.complete(parser, arguments.shell)
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print(script)
    return 0


def _commands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    choices = next(a.choices for a in parser._actions if isinstance(a.choices, dict))
    return list(choices.values())


def _say_what_may_stand(action: Any, named: dict[str, Any]) -> None:
    metavar = action.metavar or ""
    if metavar in named:
        action.complete = named[metavar]
    elif metavar.startswith("{"):
        action.choices = metavar.strip("{}").split(",")
    elif metavar in _FOLDERS:
        action.complete = shtab.DIRECTORY
    elif metavar.startswith("FI"):  # FILE and FIGURE, with their ending
        action.complete = shtab.FILE


def _names_or_files(kind: str, names: Any) -> dict[str, Any]:
    """Names and files in bash; in the other shells files alone."""
    function = f"_bayesnn_{kind}"
    body = f'compgen -W "{" ".join(names)}" -- "$1"; compgen -f -- "$1"'
    return shtab.FILE | {
        "bash": function,
        "preamble": {"bash": f"{function}() {{ {body}; }}"},
    }
