"""The commands and what they are for; what a command does is imported when it is typed."""

import importlib
from typing import Any

from cyclopts import App

from bayesnn_ppl import __version__

__all__ = ["COMMANDS", "METHODS", "app_for", "whole_app"]

_DESCRIPTION = """\
Bayesian neural networks as NumPyro models.

  bayesnn demo                         a first posterior in about a minute
  bayesnn sample mlp --data diabetes   draw from a posterior, diagnose and save it
  bayesnn sample hmc --help            the options of one kernel
  bayesnn sample nuts my_model.py --data my.csv --target price
"""
_EPILOGUE = """\
Exit status: 0 done, 1 the job failed, 2 wrong usage. Errors are one sentence on stderr;
--traceback, or BAYESNN_TRACEBACK=1 in the environment, shows where they come from.
"""

# Command -> module of `commands`, name there ("" where its first word is a method), what it is for.
COMMANDS = {
    "demo": ("demo", "COMMAND", "sample an MLP on diabetes and show the results"),
    "sample": ("sample", "", "draw from a posterior by a kernel, diagnose and save it"),
    "fit": ("fit", "", "approximate a posterior, judge and save it"),
    "prior": ("prior", "COMMAND", "draw from the prior of a model, and describe its functions"),
    "calibrate": (
        "calibrate",
        "",
        "check a method on data that the model makes (simulation-based calibration)",
    ),
    "run": ("recipes", "COMMAND", "run a published recipe, or list them"),
    "study": ("studies", "COMMAND", "run a study, a table of recipes, or list them"),
    "diagnose": ("reading", "DIAGNOSE", "say whether a saved run has converged"),
    "evaluate": ("reading", "EVALUATE", "score a saved run on held-out rows"),
    "compare": ("compare", "COMMAND", "score saved runs on the same rows"),
    "report": ("reporting", "REPORT", "write a page about saved runs"),
    "watch": ("reporting", "WATCH", "serve the page of a run in progress"),
    "gallery": ("reporting", "GALLERY", "write a page of animated samplers"),
    "predict": ("predict", "COMMAND", "predict with a saved run, as CSV"),
    "compress": (
        "predict",
        "COMPRESS",
        "keep the few draws of a saved run that together predict as all do",
    ),
    "export": (
        "predict",
        "EXPORT",
        "write the predictions of a saved run as a function for JAX alone",
    ),
    "resume": ("saved_runs", "RESUME", "continue a run that was ended early"),
    "extend": ("saved_runs", "EXTEND", "make more draws of a run"),
    "check": ("saved_runs", "CHECK", "check whether a run on disk is complete and undamaged"),
    "doctor": (
        "doctor",
        "COMMAND",
        "show devices, precision, versions and memory, and check a known posterior",
    ),
    "runs": ("saved_runs", "RUNS", "list the runs of a folder"),
    "data": ("listing", "DATA", "list the data sets, or describe one"),
    "models": ("listing", "MODELS", "list the models with their numbers of parameters"),
    "notebooks": ("notebooks", "COMMAND", "copy the teaching notebooks to a folder"),
    "completion": (
        "doctor",
        "COMPLETION",
        "print the script with which a shell completes what is typed",
    ),
}
# Commands whose first word is a kernel or an approximation: how the help calls it.
METHODS = {"sample": "KERNEL", "fit": "APPROXIMATION", "calibrate": "METHOD"}


def app_for(typed: list[str]) -> tuple[App, list[str], list[str]]:
    """The program with the options of the command that was typed.

    Where a command takes a kernel or an approximation and none was typed, it is the usual one.

    Returns:
        The program; the words to parse; and the options of the command.
    """
    name = typed[0] if typed else ""
    app = _root()
    for other, (_, _, text) in COMMANDS.items():
        if other != name:
            app.command(App(name=other, help=text))
    if name not in COMMANDS:
        return app, typed, []
    module = _module(name)
    if name not in METHODS:
        from bayesnn_ppl.cli.shared.options import command_app

        command = getattr(module, COMMANDS[name][1])
        app.command(command_app(command))
        return app, typed, command.options()
    words, rest = module.words(), typed[1:]
    if rest[:1] in (["--help"], ["-h"]):
        app.command(_methods_app(name, module))
        return app, typed, []
    if not rest or rest[0] not in words:
        rest = [words[0], *rest]
    app.command(_methods_app(name, module, rest[0]))
    return app, [name, *rest], module.command(rest[0]).options()


def whole_app() -> App:
    """The program with the options of all commands."""
    from bayesnn_ppl.cli.shared.options import command_app

    app = _root()
    for name in COMMANDS:
        module = _module(name)
        if name in METHODS:
            app.command(_methods_app(name, module, *module.words()))
        else:
            app.command(command_app(getattr(module, COMMANDS[name][1])))
    return app


def _root() -> App:
    return App(
        name="bayesnn",
        help=_DESCRIPTION,
        help_epilogue=_EPILOGUE,
        help_format="plaintext",
        version=f"bayesnn {__version__}",
    )


def _module(name: str) -> Any:
    return importlib.import_module(f"bayesnn_ppl.cli.commands.{COMMANDS[name][0]}")


def _methods_app(name: str, module: Any, *chosen: str) -> App:
    """A command and its methods; those chosen have their options, the others are listed."""
    from bayesnn_ppl.cli.shared.options import command_app

    word, usual = METHODS[name], module.words()[0]
    app = App(
        name=name,
        help=COMMANDS[name][2],
        help_format="plaintext",
        version_flags=[],
        usage=f"Usage: bayesnn {name} [{word}] [MODEL] [OPTIONS]",
        help_epilogue=f"`bayesnn {name} {word} --help` shows its options. The default {word} is "
        f"{usual}.",
    )
    for method in module.words():
        app.command(command_app(module.command(method), listed_only=method not in chosen))
    return app
