"""The data of a run: the settings that choose them, and loading them."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.data.common.standardisation import Units
from bayesnn_ppl.settings.declaring import setting
from bayesnn_ppl.settings.value_kinds import choice, names, number, whole

__all__ = ["ColumnSettings", "DataSettings", "SplitSettings", "load_data"]

_STANDARDISED: dict[str, Any] = {
    "all": True,
    "inputs": "inputs",
    "positive": "positive",
    "none": False,
}


@dataclass(frozen=True)
class ColumnSettings:
    """How the columns of a table are read."""

    target: str | None = setting(
        "column to predict; needed for a .csv file, and only there",
        metavar="COLUMN",
        unit="name",
        shown="none",
    )
    drop: tuple[str, ...] | None = setting(
        "columns of a table to leave out, separated by commas",
        read=names,
        metavar="COLUMN,...",
        unit="names",
        shown="none",
    )
    task: str | None = setting(
        "what the target of a .csv file is",
        read=choice("regression", "classification"),
        unit="word",
        shown="inferred from the column",
    )


@dataclass(frozen=True)
class SplitSettings(ColumnSettings):
    """How a table is read, and which part of it is held out."""

    split: int = setting(
        "which train/test split of the data",
        default=0,
        read=whole(0),
        metavar="K",
        unit="number from 0 to 19",
    )
    test_fraction: float | None = setting(
        "share of the rows of a .csv file held out for testing; 0 trains on all",
        read=number(least=0, below=1),
        metavar="F",
        unit="share of the rows",
        shown="0.1",
    )


@dataclass(frozen=True)
class DataSettings(SplitSettings):
    """Which data, and how they are prepared."""

    data: str = setting(
        "a name of `bayesnn data`, or a .csv file with a header",
        default="diabetes",
        metavar="NAME|FILE.csv",
        unit="name or path",
    )
    standardise: str | None = setting(
        "what is mapped to mean 0 and standard deviation 1 of the training rows; inputs leaves "
        "targets, such as counts, as they are, and positive divides them by their geometric mean",
        read=choice(*_STANDARDISED),
        unit="word",
        shown="all, or what the likelihood needs",
    )
    subset: int | None = setting(
        "images, imdb and tfds:NAME: train with the first so many rows",
        read=whole(1),
        metavar="N",
        unit="rows",
        shown="all",
    )
    order: str | None = setting(
        "images and imdb: the order of the rows, which --subset counts in",
        read=choice("original", "tfds", "keras"),
        unit="word",
        shown="original, and keras for imdb",
    )
    num_words: int | None = setting(
        "texts (imdb, tfds:NAME): how many tokens there are; rarer words share one",
        read=whole(4),
        metavar="N",
        unit="tokens",
        shown="20000",
    )
    length: int | None = setting(
        "texts: the last so many tokens of each are kept, and shorter ones padded",
        read=whole(1),
        metavar="N",
        unit="tokens",
        shown="100",
    )
    vocabulary: str | None = setting(
        "texts of tfds:NAME: a JSON file of words and their ranks",
        metavar="FILE.json",
        unit="path",
        shown="ranked in the training rows",
    )


def load_data(settings: DataSettings, *, needed: Units | None = None) -> tuple[Any, dict[str, Any]]:
    """The data set, and the arguments of `data.load` that bring it back.

    Args:
        settings: which.
        needed: how to standardise where the settings do not say.
    """
    values = {f.name: getattr(settings, f.name) for f in fields(settings)}
    name, standardise = values.pop("data"), values.pop("standardise")
    given = {name: value for name, value in values.items() if value is not None}
    if "vocabulary" in given:
        given["vocabulary"] = str(Path(given["vocabulary"]).resolve())
    if standardise is not None:
        given["standardise"] = _STANDARDISED[standardise]
    elif needed is not None:
        given["standardise"] = needed
    dataset = bnn.data.load(name, **given)
    assert dataset.loaded_by is not None
    return dataset, dict(dataset.loaded_by)
