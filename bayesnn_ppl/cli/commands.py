"""The commands and what they are for; what each does is imported when it runs."""

import argparse
import importlib
from collections.abc import Callable

from bayesnn_ppl import __version__
from bayesnn_ppl.cli.comparing import add_compare
from bayesnn_ppl.cli.making_arguments import (
    add_calibrate,
    add_demo,
    add_fit,
    add_prior,
    add_run,
    add_sample,
    add_study,
)
from bayesnn_ppl.cli.parser import Parser, switch
from bayesnn_ppl.cli.reading_arguments import (
    add_check,
    add_completion,
    add_data,
    add_diagnose,
    add_doctor,
    add_evaluate,
    add_extend,
    add_models,
    add_notebooks,
    add_predict,
    add_resume,
    add_runs,
)
from bayesnn_ppl.cli.reporting import add_gallery, add_report, add_watch

__all__ = ["build_parser"]

_DESCRIPTION = """\
Bayesian neural networks as NumPyro programs.

  bayesnn demo                         a first posterior in about a minute
  bayesnn sample mlp --data diabetes   draw from a posterior, diagnose and save it
  bayesnn sample my_model.py --data my.csv --target price
"""

_EPILOGUE = """\
Exit status: 0 done, 1 the job failed, 2 wrong usage. Errors are one sentence on stderr;
--traceback, or BAYESNN_TRACEBACK=1 in the environment, shows where they come from.
"""


def build_parser() -> tuple[Parser, list[str]]:
    """The parser of the whole command line, and the names of its commands."""
    parser = Parser(prog="bayesnn", description=_DESCRIPTION, epilog=_EPILOGUE)
    parser.add_argument(
        "--version", action="version", version=f"bayesnn {__version__}", help="print the version"
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for name, text, arguments, runner in (
        (
            "demo",
            "sample an MLP on diabetes and show what there is to see",
            add_demo,
            "demo:run_demo",
        ),
        (
            "sample",
            "draw from a posterior, diagnose and save it",
            add_sample,
            "sampling:run_sample",
        ),
        ("fit", "approximate a posterior, judge and save it", add_fit, "fitting:run_fit"),
        (
            "prior",
            "draw from the prior of a model, and say what it means",
            add_prior,
            "prior:run_prior",
        ),
        (
            "calibrate",
            "check a method on data that the model makes (simulation-based calibration)",
            add_calibrate,
            "calibrating:run_calibrate",
        ),
        ("run", "run a published recipe, or list them", add_run, "recipes:run_recipe"),
        (
            "study",
            "run a study, a table of recipes, or list them",
            add_study,
            "studies:run_study_command",
        ),
        ("diagnose", "say whether a saved run has converged", add_diagnose, "reading:run_diagnose"),
        ("evaluate", "score a saved run on held-out rows", add_evaluate, "reading:run_evaluate"),
        ("compare", "score saved runs on the same rows", add_compare, "comparing:run_compare"),
        (
            "report",
            "write a page about saved runs",
            add_report,
            "reporting:run_report",
        ),
        (
            "watch",
            "serve the page of a run in progress",
            add_watch,
            "reporting:run_watch",
        ),
        (
            "gallery",
            "write a page on which samplers move",
            add_gallery,
            "reporting:run_gallery",
        ),
        ("predict", "predict with a saved run, as CSV", add_predict, "predicting:run_predict"),
        ("resume", "go on with a run that was ended early", add_resume, "going_on:run_resume"),
        ("extend", "make more draws of a run", add_extend, "going_on:run_extend"),
        ("check", "say whether a run on disk is whole", add_check, "going_on:run_check"),
        (
            "doctor",
            "show devices, precision, versions and memory, and check a known posterior",
            add_doctor,
            "doctor:run_doctor",
        ),
        ("runs", "list the runs of a folder", add_runs, "going_on:run_runs"),
        ("data", "list the data sets, or describe one", add_data, "listing:run_data"),
        (
            "models",
            "list the models with their numbers of parameters",
            add_models,
            "listing:run_models",
        ),
        (
            "notebooks",
            "copy the teaching notebooks to a folder",
            add_notebooks,
            "notebooks:run_notebooks",
        ),
        (
            "completion",
            "print the script with which a shell completes what is typed",
            add_completion,
            "completion:run_completion",
        ),
    ):
        sub = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        arguments(sub)
        output = sub.add_argument_group("output")
        switch(output, "--json", "print the result as JSON")
        switch(output, "--traceback", "show where an error comes from")
        switch(
            output,
            "--no-compilation-cache",
            "compile everything again; compiled programs are otherwise kept in the user's cache "
            "folder, up to 512 MiB, and draws are the same",
        )
        sub.set_defaults(run=_when_called(runner), parser=sub)
    return parser, list(commands.choices)


def _when_called(target: str) -> Callable[[argparse.Namespace], int]:
    """A function that imports the command's own when it is called, and JAX with it."""
    module, function = target.split(":")

    def run(arguments: argparse.Namespace) -> int:
        loaded = importlib.import_module(f"bayesnn_ppl.cli.{module}")
        return getattr(loaded, function)(arguments)

    return run
