"""Data sets by name."""

from __future__ import annotations

import os

from bayesnn_ppl.data import bundled, checks, synthetic, uci
from bayesnn_ppl.data.dataset import Dataset
from bayesnn_ppl.data.files import load_csv
from bayesnn_ppl.data.splits import TEST_FRACTION
from bayesnn_ppl.data.standardisation import Task

_ALIASES = {
    "bike": "bikesharing",
    "boston": "bostonHousing",
    "ccpp": "power-plant",
    "moons": "two_moons",
    "naval": "naval-propulsion-plant",
    "power": "power-plant",
    "protein": "protein-tertiary-structure",
    "red wine": "wine-quality-red",
    "wine quality": "wine-quality-red",
    "wine red": "wine-quality-red",
}


def names() -> dict[str, str]:
    """Every name that `load` knows, with one line about it.

    The line of a set that is read from a file says that it needs BAYESNN_DATA.
    """
    return {
        **{name: entry.description for name, entry in bundled.SETS.items()},
        **synthetic.SETS,
        **{name: table.description for name, table in uci.SETS.items()},
    }


def load(
    name: str | os.PathLike[str],
    *,
    split: int = 0,
    standardise: bool = True,
    target: str | None = None,
    task: Task | None = None,
    test_fraction: float | None = None,
) -> Dataset:
    """Load a data set by its name, or a CSV file by its path.

    Sets from scikit-learn and synthetic ones need nothing. UCI sets are read from `uci/NAME.npz` in
    the folder that the environment variable BAYESNN_DATA names, with their standard splits.

    Args:
        name: a key of `names()`, whatever its case and punctuation, or a short form such as
            "boston" or "naval"; or a path that ends in .csv.
        split: which standard split, 0..19 (protein: 0..4); of a synthetic set the seed, any
            non-negative integer. Every split holds out 10 % of the rows.
        standardise: whether to map x, and y in regression, to mean 0 and standard deviation 1 of
            the training rows. `train.y.standardisation` brings them back to the data's units.
        target: CSV only: the column to predict.
        task: CSV only: "regression" or "classification"; None infers it, see `load_csv`.
        test_fraction: CSV only: the share of the test rows, 0.1 by default.

    Raises:
        ValueError: if the name or the split does not exist, a CSV option is given for a named set,
            or, for a CSV file, as `load_csv`.
        FileNotFoundError: if the file of the set, or the CSV file, is not there.
    """
    text = os.fspath(name)
    if text.lower().endswith(".csv"):
        return load_csv(
            text,
            target=target,
            task=task,
            test_fraction=TEST_FRACTION if test_fraction is None else test_fraction,
            split=split,
            standardise=standardise,
        )
    key = _resolve(text)
    options = {"target": target, "task": task, "test_fraction": test_fraction}
    given = [f"`{option}`" for option, value in options.items() if value is not None]
    if given:
        raise ValueError(
            f"The data set `{key}` has a fixed target, task and test fraction, so "
            f"{' and '.join(given)} cannot be chosen. These options are for CSV files."
        )
    for module_sets, loader in (
        (bundled.SETS, bundled.load_bundled),
        (synthetic.SETS, synthetic.load_synthetic),
    ):
        if key in module_sets:
            return loader(key, split=split, standardise=standardise)
    return uci.load_uci(key, split=split, standardise=standardise)


def _resolve(text: str) -> str:
    known = names()
    forms = {_fold(alias): name for alias, name in _ALIASES.items()}
    forms |= {_fold(name): name for name in known}
    if (folded := _fold(text)) in forms:
        return forms[folded]
    raise ValueError(
        f"There is no data set `{text}`.{checks.nearest(text, [*known, *_ALIASES])} "
        f"Known are {', '.join(known)}; or pass the path of a .csv file."
    )


def _fold(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())
