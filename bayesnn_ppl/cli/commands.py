"""The commands and what they are for; what each does is imported when it runs."""

import argparse
import importlib
from collections.abc import Callable

from bayesnn_ppl import __version__
from bayesnn_ppl.cli import options
from bayesnn_ppl.cli.comparing import add_compare
from bayesnn_ppl.cli.datasets import add_data, add_split
from bayesnn_ppl.cli.ending import add_ending
from bayesnn_ppl.cli.kernels import add_kernel
from bayesnn_ppl.cli.methods import APPROXIMATIONS
from bayesnn_ppl.cli.parser import Parser, choice, levels, option, switch, whole
from bayesnn_ppl.cli.readme_flags import add_readme_flags

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
        ("demo", "sample an MLP on diabetes and show what there is to see", _demo, "demo:run_demo"),
        ("sample", "draw from a posterior, diagnose and save it", _sample, "sampling:run_sample"),
        ("fit", "approximate a posterior, judge and save it", _fit, "fitting:run_fit"),
        (
            "prior",
            "draw from the prior of a model, and say what it means",
            _prior,
            "prior:run_prior",
        ),
        ("run", "run a published recipe, or list them", _run, "recipes:run_recipe"),
        (
            "study",
            "run a study, a table of recipes, or list them",
            _study,
            "studies:run_study_command",
        ),
        ("diagnose", "say whether a saved run has converged", _diagnose, "reading:run_diagnose"),
        ("evaluate", "score a saved run on held-out rows", _evaluate, "reading:run_evaluate"),
        ("compare", "score saved runs on the same rows", add_compare, "comparing:run_compare"),
        ("predict", "predict with a saved run, as CSV", _predict, "predicting:run_predict"),
        ("resume", "go on with a run that was ended early", _resume, "going_on:run_resume"),
        ("extend", "make more draws of a run", _extend, "going_on:run_extend"),
        ("check", "say whether a run on disk is whole", _check, "going_on:run_check"),
        ("runs", "list the runs of a folder", _runs, "going_on:run_runs"),
        ("data", "list the data sets, or describe one", _data, "listing:run_data"),
        (
            "models",
            "list the models with their numbers of parameters",
            _models,
            "listing:run_models",
        ),
    ):
        sub = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        arguments(sub)
        output = sub.add_argument_group("output")
        switch(output, "--json", "print the result as JSON")
        switch(output, "--traceback", "show where an error comes from")
        sub.set_defaults(run=_when_called(runner), parser=sub)
    return parser, list(commands.choices)


def _when_called(target: str) -> Callable[[argparse.Namespace], int]:
    """A function that imports the command's own when it is called, and JAX with it."""
    module, function = target.split(":")

    def run(arguments: argparse.Namespace) -> int:
        loaded = importlib.import_module(f"bayesnn_ppl.cli.{module}")
        return getattr(loaded, function)(arguments)

    return run


def _sample(parser: Parser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="mlp",
        metavar="MODEL",
        help="a name of `bayesnn models`, or a path to a .py file that defines the program "
        "`model(x, y=None, *, batch_size=None)`; FILE.py:NAME takes another name [default: mlp]",
    )
    add_data(parser)
    options.add_sampling(parser)
    add_kernel(parser)
    add_ending(parser)
    options.add_model(parser)
    options.add_keep(parser)
    options.add_folder(parser)


def _fit(parser: Parser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="mlp",
        metavar="MODEL",
        help="as for `bayesnn sample` [default: mlp]",
    )
    add_data(parser)
    group = parser.add_argument_group("approximation")
    option(
        group,
        "--approximation",
        "how the posterior is approximated",
        default="ensemble",
        type=choice(*APPROXIMATIONS),
        metavar="{" + ",".join(APPROXIMATIONS) + "}",
        unit="word",
    )
    option(
        group,
        "--set",
        "a setting of the approximation, by its name in Python; may be given several times",
        action="append",
        metavar="NAME=VALUE",
        unit="number, word or list, as JSON",
        shown="those in Python",
    )
    option(
        group,
        "--seed",
        "seed of all randomness",
        default=0,
        type=whole(0),
        metavar="N",
        unit="whole number",
    )
    switch(group, "--float64", "double precision")
    options.add_model(parser)
    options.add_keep(parser, tensorboard=False)
    options.add_folder(parser)


def _prior(parser: Parser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="mlp",
        metavar="MODEL",
        help="as for `bayesnn sample` [default: mlp]",
    )
    add_data(parser)
    group = parser.add_argument_group("draws")
    option(
        group, "--draws", "functions to draw", default=200, type=whole(2), metavar="N", unit="draws"
    )
    option(
        group,
        "--rows",
        "training rows at which functions are drawn, spread evenly over them",
        default=200,
        type=whole(2),
        metavar="N",
        unit="rows",
    )
    option(
        group,
        "--seed",
        "seed of all randomness",
        default=0,
        type=whole(0),
        metavar="N",
        unit="whole number",
    )
    options.add_model(parser)
    group = parser.add_argument_group("where figures go")
    option(
        group,
        "--out",
        "folder, new or empty, for the figures and the report as JSON",
        metavar="FOLDER",
        unit="path",
        shown="no figures",
    )


def _run(parser: Parser) -> None:
    parser.add_argument(
        "recipe",
        nargs="?",
        metavar="RECIPE",
        help="a name of `bayesnn run --list`, or a .toml file [default: list them]",
    )
    _add_scale(parser)
    group = parser.add_argument_group("what is run")
    option(
        group,
        "--set",
        "a setting of the recipe: an option of `bayesnn sample` or `bayesnn fit` by its long name, "
        "or a setting of the approximation; may be given several times",
        action="append",
        metavar="KEY=VALUE",
        unit="number, word or list, as JSON",
        shown="those of the recipe",
    )
    option(
        group,
        "--out",
        "folder of the run, new or empty",
        metavar="FOLDER",
        unit="path",
        shown="runs/RECIPE-SCALE, with -2, -3, ... if it is taken",
    )
    switch(group, "--list", "list the recipes")
    switch(group, "--no-diagnose", "do not judge convergence afterwards")
    switch(group, "--quiet", "no progress bar and no hints, only the results")
    add_readme_flags(parser)


def _study(parser: Parser) -> None:
    parser.add_argument(
        "study",
        nargs="?",
        metavar="STUDY",
        help="a name of `bayesnn study --list`, or a .toml file [default: list them]",
    )
    _add_scale(parser)
    group = parser.add_argument_group("how it is run")
    option(
        group,
        "--out",
        "folder of the study; what is done there already is not done again",
        metavar="FOLDER",
        unit="path",
        shown="runs/study-STUDY-SCALE",
    )
    option(
        group,
        "--jobs",
        "cells at a time; on a Dask cluster of its own, workers",
        default=1,
        type=whole(1),
        metavar="N",
        unit="cells",
    )
    option(
        group,
        "--engine",
        "what runs the cells: processes of this machine, or a Dask cluster",
        default="processes",
        type=choice("processes", "dask"),
        metavar="{processes,dask}",
        unit="word",
    )
    option(
        group,
        "--scheduler",
        "a Dask scheduler whose workers see the folder",
        metavar="ADDRESS",
        unit="such as tcp://host:8786",
        shown="a cluster of --jobs local processes",
    )
    switch(group, "--list", "list the studies")
    switch(group, "--quiet", "no progress and no hints, only the results")


def _add_scale(parser: Parser) -> None:
    option(
        parser,
        "--scale",
        "tiny: seconds, on bundled data; cpu: two cores, half an hour a run at most; full: as "
        "published, for an accelerator",
        default="tiny",
        type=choice("tiny", "cpu", "full"),
        metavar="{tiny,cpu,full}",
        unit="word",
    )


def _resume(parser: Parser) -> None:
    _add_run(parser)
    add_ending(parser)
    group = parser.add_argument_group("what is shown")
    switch(group, "--no-diagnose", "do not judge convergence after sampling")
    switch(group, "--quiet", "no progress bar and no hints, only the results")


def _extend(parser: Parser) -> None:
    _resume(parser)
    group = parser.add_argument_group("sampling")
    option(
        group,
        "--draws",
        "draws to add to those the run was asked for",
        default=500,
        type=whole(1),
        metavar="N",
        unit="draws per chain",
    )


def _check(parser: Parser) -> None:
    parser.add_argument("run_folder", metavar="RUN", help="folder that `bayesnn sample` made")
    group = parser.add_argument_group("repair")
    switch(group, "--repair", "keep the draws before the damage, and drop the rest")


def _runs(parser: Parser) -> None:
    parser.add_argument(
        "folder", nargs="?", default="runs", metavar="FOLDER", help="folder of runs [default: runs]"
    )


def _add_run(parser: Parser) -> None:
    parser.add_argument("run_folder", metavar="RUN", help="the folder that `bayesnn sample` made")
    option(
        parser,
        "--model",
        "the .py file of the run, where it was made with one: code is never "
        "started from a stored path",
        metavar="FILE.py",
        unit="path",
        shown="the run's zoo model; diagnose and evaluate then use what the run kept",
    )


def _diagnose(parser: Parser) -> None:
    _add_run(parser)
    option(
        parser,
        "--data",
        "where the functions are judged: a .csv file with the run's features, "
        "or a data set with them",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="the run's test rows",
    )
    switch(parser, "--check", "exit status 1 unless the run has converged")


def _evaluate(parser: Parser) -> None:
    _add_run(parser)
    option(
        parser,
        "--data",
        "rows to score on: a .csv file with the run's features and target, or "
        "the test rows of a data set with them",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="the run's test rows",
    )


def _predict(parser: Parser) -> None:
    _add_run(parser)
    option(
        parser,
        "--data",
        "rows to predict: a .csv file with the run's features, or the test rows "
        "of a data set with them",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="the run's test rows",
    )
    option(
        parser,
        "--split",
        "test rows of this split of a data set",
        type=whole(0),
        metavar="K",
        unit="number",
        shown="that of the run",
    )
    option(
        parser,
        "--out",
        "file to write, which must not exist",
        metavar="FILE",
        unit="path",
        shown="standard output",
    )
    option(
        parser,
        "--quantiles",
        "levels of the quantiles, for regression",
        type=levels,
        metavar="Q,Q",
        unit="probabilities",
        shown="0.05,0.95",
    )


def _demo(parser: Parser) -> None:
    option(
        parser,
        "--out",
        "folder of the run; an earlier demo there is replaced",
        default="runs/demo",
        metavar="FOLDER",
        unit="path",
    )
    option(
        parser,
        "--seed",
        "seed of all randomness",
        default=0,
        type=whole(0),
        metavar="N",
        unit="whole number",
    )


def _data(parser: Parser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME|FILE.csv", help="describe this one [default: list all]"
    )
    add_split(parser)


def _models(parser: Parser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="show this one: a name, or a path to a .py file [default: list the zoo]",
    )
    option(
        parser,
        "--data",
        "count parameters for this data set",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="diabetes, and digits for classification",
    )
    option(
        parser,
        "--target",
        "column to predict, of a .csv file",
        metavar="COLUMN",
        unit="name",
        shown="none",
    )
    option(
        parser,
        "--task",
        "task, of a .csv file",
        type=choice("regression", "classification"),
        metavar="{regression,classification}",
        unit="word",
        shown="inferred",
    )
    option(
        parser,
        "--inputs",
        "count for this many inputs, in place of --data",
        type=whole(1),
        metavar="D",
        unit="features",
        shown="those of the data",
    )
    option(
        parser,
        "--classes",
        "count for this many classes, with --inputs",
        type=whole(2),
        metavar="K",
        unit="classes",
        shown="10",
    )
