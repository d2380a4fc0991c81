"""Arguments of the commands for runs that are there, and of the lists."""

from bayesnn_ppl.cli.datasets import add_split
from bayesnn_ppl.cli.ending import add_ending
from bayesnn_ppl.cli.parser import Parser, choice, levels, option, switch, whole
from bayesnn_ppl.cli.processes import add_processes

__all__ = [
    "add_check",
    "add_completion",
    "add_data",
    "add_diagnose",
    "add_doctor",
    "add_evaluate",
    "add_extend",
    "add_models",
    "add_notebooks",
    "add_predict",
    "add_resume",
    "add_runs",
]


def add_resume(parser: Parser) -> None:
    """Arguments of `bayesnn resume`."""
    _add_run(parser)
    add_ending(parser)
    add_processes(parser)
    group = parser.add_argument_group("what is shown")
    switch(group, "--no-diagnose", "do not judge convergence after sampling")
    switch(group, "--quiet", "no progress bar and no hints, only the results")


def add_extend(parser: Parser) -> None:
    """Arguments of `bayesnn extend`."""
    add_resume(parser)
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


def add_check(parser: Parser) -> None:
    """Arguments of `bayesnn check`."""
    parser.add_argument("run_folder", metavar="RUN", help="folder that `bayesnn sample` made")
    group = parser.add_argument_group("repair")
    switch(group, "--repair", "keep the draws before the damage, and drop the rest")


def add_doctor(parser: Parser) -> None:
    """Arguments of `bayesnn doctor`: none of its own."""


def add_runs(parser: Parser) -> None:
    """Arguments of `bayesnn runs`."""
    parser.add_argument(
        "folder", nargs="?", default="runs", metavar="FOLDER", help="folder of runs [default: runs]"
    )


def add_notebooks(parser: Parser) -> None:
    """Arguments of `bayesnn notebooks`."""
    parser.add_argument("out", metavar="OUT", help="folder to copy them to")
    switch(parser, "--student", "without outputs, and with solutions left empty")


def add_completion(parser: Parser) -> None:
    """Arguments of `bayesnn completion`."""
    parser.add_argument(
        "shell",
        type=choice("bash", "zsh", "fish"),
        metavar="{bash,zsh,fish}",
        help="the shell whose script is printed",
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


def add_diagnose(parser: Parser) -> None:
    """Arguments of `bayesnn diagnose`."""
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
    switch(
        parser,
        "--check",
        "exit status 0 if converged, 1 if not, 3 if approximate, 4 if doubtful, 5 if not judged; "
        "fits, which never converge, have 1",
    )


def add_evaluate(parser: Parser) -> None:
    """Arguments of `bayesnn evaluate`."""
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


def add_predict(parser: Parser) -> None:
    """Arguments of `bayesnn predict`."""
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


def add_data(parser: Parser) -> None:
    """Arguments of `bayesnn data`."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME|FILE.csv", help="describe this one [default: list all]"
    )
    add_split(parser)


def add_models(parser: Parser) -> None:
    """Arguments of `bayesnn models`."""
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
