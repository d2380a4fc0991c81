"""The data of `bayesnn sample`: the options that choose them, and loading them."""

from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.cli.options import COUNTS
from bayesnn_ppl.cli.parser import Parser, choice, number, option, whole

__all__ = ["DATA_OPTIONS", "add_data", "add_split", "load_data"]

# Attributes of the parsed arguments that are arguments of `data.load` by the same name.
DATA_OPTIONS = (
    "split",
    "target",
    "task",
    "test_fraction",
    "order",
    "subset",
    "num_words",
    "length",
    "vocabulary",
)

_STANDARDISED: dict[str, Any] = {"all": True, "inputs": "inputs", "none": False}


def add_data(parser: Parser) -> None:
    """Which data, and which part of them is held out."""
    group = parser.add_argument_group("data")
    option(
        group,
        "--data",
        "a name of `bayesnn data`, or a .csv file with a header",
        default="diabetes",
        metavar="NAME|FILE.csv",
        unit="name or path",
    )
    add_split(group)
    option(
        group,
        "--standardise",
        "what is mapped to mean 0 and standard deviation 1 of the training rows; a likelihood of "
        "positive numbers or counts needs its targets as they are",
        type=choice(*_STANDARDISED),
        metavar="{" + ",".join(_STANDARDISED) + "}",
        unit="word",
        shown="all, and inputs for counts",
    )
    option(
        group,
        "--subset",
        "images, imdb and tfds:NAME: train with the first so many rows",
        type=whole(1),
        metavar="N",
        unit="rows",
        shown="all",
    )
    option(
        group,
        "--order",
        "images and imdb: the order of the rows, which --subset counts in",
        type=choice("original", "tfds", "keras"),
        metavar="{original,tfds,keras}",
        unit="word",
        shown="original, and keras for imdb",
    )
    option(
        group,
        "--num-words",
        "texts (imdb, tfds:NAME): how many tokens there are; rarer words share one",
        type=whole(4),
        metavar="N",
        unit="tokens",
        shown="20000",
    )
    option(
        group,
        "--length",
        "texts: the last so many tokens of each are kept, and shorter ones padded",
        type=whole(1),
        metavar="N",
        unit="tokens",
        shown="100",
    )
    option(
        group,
        "--vocabulary",
        "texts of tfds:NAME: a JSON file of words and their ranks",
        metavar="FILE.json",
        unit="path",
        shown="ranked in the training rows",
    )


def add_split(group: object) -> None:
    """How a table is read, and which part of it is held out."""
    option(
        group,
        "--target",
        "column to predict; needed for a .csv file, and only there",
        metavar="COLUMN",
        unit="name",
        shown="none",
    )
    option(
        group,
        "--task",
        "what the target of a .csv file is",
        type=choice("regression", "classification"),
        metavar="{regression,classification}",
        unit="word",
        shown="inferred from the column",
    )
    option(
        group,
        "--split",
        "which train/test split of the data",
        default=0,
        type=whole(0),
        metavar="K",
        unit="number from 0 to 19",
    )
    option(
        group,
        "--test-fraction",
        "share of the rows of a .csv file held out for testing; 0 trains on all",
        type=number(least=0, below=1),
        metavar="F",
        unit="share of the rows",
        shown="0.1",
    )


def load_data(options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The data set of the options, and the arguments of `data.load` that bring it back.

    Without `--standardise` counts stay as they are, and their inputs are standardised.
    """
    given = {name: options[name] for name in DATA_OPTIONS if options[name] is not None}
    if "vocabulary" in given:
        given["vocabulary"] = str(Path(given["vocabulary"]).resolve())
    if options["standardise"] is not None:
        given["standardise"] = _STANDARDISED[options["standardise"]]
    elif options.get("likelihood") in COUNTS:
        given["standardise"] = "inputs"
    dataset = bnn.data.load(options["data"], **given)
    assert dataset.loaded_by is not None
    return dataset, dict(dataset.loaded_by)
