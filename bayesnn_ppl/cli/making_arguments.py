"""Arguments of the commands that make runs."""

from bayesnn_ppl.cli import options
from bayesnn_ppl.cli.datasets import add_data
from bayesnn_ppl.cli.ending import add_ending
from bayesnn_ppl.cli.kernel_tables import KERNELS
from bayesnn_ppl.cli.kernels import add_kernel
from bayesnn_ppl.cli.methods import APPROXIMATIONS
from bayesnn_ppl.cli.parser import Parser, choice, number, option, switch, whole
from bayesnn_ppl.cli.processes import add_processes
from bayesnn_ppl.cli.readme_flags import add_readme_flags

__all__ = [
    "add_calibrate",
    "add_demo",
    "add_fit",
    "add_prior",
    "add_run",
    "add_sample",
    "add_study",
]


def add_sample(parser: Parser) -> None:
    """Arguments of `bayesnn sample`."""
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
    add_processes(parser)
    options.add_folder(parser)


def add_fit(parser: Parser) -> None:
    """Arguments of `bayesnn fit`."""
    _add_model(parser)
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
    options.add_seed(group)
    switch(group, "--float64", "double precision")
    options.add_model(parser)
    options.add_keep(parser, tensorboard=False)
    options.add_folder(parser)


def add_prior(parser: Parser) -> None:
    """Arguments of `bayesnn prior`."""
    _add_model(parser)
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
    options.add_seed(group)
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


def add_calibrate(parser: Parser) -> None:
    """Arguments of `bayesnn calibrate`."""
    _add_model(parser)
    add_data(parser)
    _add_replications(parser)
    group = parser.add_argument_group("method: a kernel or an approximation")
    option(
        group,
        "--kernel",
        "sampler",
        type=choice(*KERNELS),
        metavar="{" + ",".join(KERNELS) + "}",
        unit="word",
        shown="nuts",
    )
    for name, text, default in (
        ("--warmup", "draws that adapt the kernel, in each replication", "150"),
        ("--draws", "draws that are kept, in each replication", "150"),
        ("--chains", "chains", "2, and 4 of chees and parallel-tempering"),
    ):
        option(group, name, text, type=whole(1), metavar="N", unit="count", shown=default)
    option(
        group,
        "--approximation",
        "in place of a kernel",
        type=choice(*APPROXIMATIONS),
        metavar="{" + ",".join(APPROXIMATIONS) + "}",
        unit="word",
        shown="none",
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
    switch(group, "--float64", "double precision")
    add_kernel(parser)
    options.add_model(parser)
    group = parser.add_argument_group("where the calibration goes")
    option(
        group,
        "--out",
        "folder that keeps every replication; the same command resumes what was ended there",
        metavar="FOLDER",
        unit="path",
        shown="nothing is kept",
    )
    switch(group, "--quiet", "no progress bar and no hints, only the results")


def _add_replications(parser: Parser) -> None:
    group = parser.add_argument_group("replications")
    option(
        group,
        "--replications",
        "data sets that are simulated",
        default=200,
        type=whole(20),
        metavar="N",
        unit="data sets",
    )
    option(
        group,
        "--rows",
        "training rows whose inputs are used, spread evenly over them",
        default=50,
        type=whole(2),
        metavar="N",
        unit="rows",
    )
    option(
        group,
        "--truth",
        "another model that makes the data: a model option and its value there, such as "
        "prior-scale=1, which may be given several times, or FILE.py:NAME",
        action="append",
        metavar="NAME=VALUE",
        unit="option, or path",
        shown="the model itself",
    )
    switch(
        group,
        "--around-data",
        "start from the posterior given the data at hand, not from the prior (posterior SBC)",
    )
    option(
        group,
        "--false-alarm",
        "probability at which a right method is called wrong, over all quantities",
        default=0.01,
        type=number(below=1),
        metavar="P",
        unit="probability",
    )
    options.add_seed(group)


def add_run(parser: Parser) -> None:
    """Arguments of `bayesnn run`."""
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


def add_study(parser: Parser) -> None:
    """Arguments of `bayesnn study`."""
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


def add_demo(parser: Parser) -> None:
    """Arguments of `bayesnn demo`."""
    option(
        parser,
        "--out",
        "folder of the run; an earlier demo there is replaced",
        default="runs/demo",
        metavar="FOLDER",
        unit="path",
    )
    options.add_seed(parser)


def _add_model(parser: Parser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="mlp",
        metavar="MODEL",
        help="as for `bayesnn sample` [default: mlp]",
    )
