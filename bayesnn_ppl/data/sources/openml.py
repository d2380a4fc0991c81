"""Data sets of OpenML, fetched by scikit-learn."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.dataset import Dataset
from bayesnn_ppl.data.common.frames import find_target
from bayesnn_ppl.data.common.splits import Preparation
from bayesnn_ppl.data.common.standardisation import Task, Units
from bayesnn_ppl.data.tables.table_files import from_frame


def load_openml(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    target: str | None = None,
    drop: Sequence[str] = (),
    task: Task | None = None,
    test_fraction: float | None = None,
    split: int = 0,
    standardise: Units = True,
) -> Dataset:
    """A table of OpenML, fetched once and then read from the cache of scikit-learn.

    Words, what OpenML marks as categories, dates and gaps become features as `TableEncoding` says.
    OpenML publishes tasks with splits of their own; those here follow the rule of
    `uci_split_indices` and are comparable with no published numbers.

    Args:
        name: the number of a data set of OpenML, or its name where only one version is active.
        data_dir: the cache of scikit-learn, its `data_home`; None is its default.
        target: the column to predict; None is the one that OpenML names.
        drop: names of columns to leave out.
        task: as `load_table`; a target that OpenML marks as categories is one of classification.
        test_fraction, split, standardise: as `load_table`.

    Raises:
        FileNotFoundError: if it is not in the cache and OpenML cannot be reached.
        ValueError: if OpenML does not know it, has several versions of the name, names several
            targets or none, or, as `load_table`, the table cannot be used.
    """
    subject = f"The OpenML data set `{name}`"
    bunch = _fetch(name, data_dir, subject)
    table = bunch.frame
    missing = "missing, NaN or infinite (or beyond the range of float32)"
    origin = checks.Origin(subject, "The target", missing=missing)
    named = list(bunch.target_names)
    if target is None and len(named) == 1:
        target = named[0]
    target = find_target(target, list(table.columns), origin)
    if table[target].dtype.name == "category":
        task = task or "classification"
        # As text, or categories that look like numbers would be named as numbers.
        table = table.assign(**{target: table[target].astype(object)})
    details = bunch.details
    return from_frame(
        table,
        origin,
        Preparation(test_fraction, split, standardise),
        name=f"openml:{details['name']}",
        target=target,
        drop=drop,
        task=task,
        description=f"Data set {details['id']} of OpenML, `{details['name']}` version "
        f"{details['version']}.",
    )


def _fetch(name: str, data_dir: str | os.PathLike[str] | None, subject: str) -> Any:
    """The Bunch of scikit-learn, with its table as a frame."""
    from sklearn.datasets import fetch_openml, get_data_home

    home = None if data_dir is None else os.fspath(data_dir)
    chosen: dict[str, Any] = {"data_id": int(name)} if name.isdecimal() else {"name": name}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Multiple active", category=UserWarning)
            # If the second try fails too, the error below says so.
            warnings.filterwarnings("ignore", message="A network error", category=UserWarning)
            return fetch_openml(
                **chosen, data_home=home, as_frame=True, parser="auto", n_retries=1, delay=0.2
            )
    except UserWarning as error:
        if not str(error).startswith("Multiple active"):
            raise
        versions = " ".join(str(error).partition("Available versions:")[2].split())
        raise ValueError(
            f"{subject} has several versions, which may be quite different data. Choose one by its "
            f"number, as `openml:NUMBER`: {versions}"
        ) from error
    except OSError as error:
        raise FileNotFoundError(
            f"{subject} is not in the cache of scikit-learn, `{get_data_home(home)}`, and OpenML "
            f"could not be reached ({error}). Fetch it where there is a network, with "
            "`sklearn.datasets.fetch_openml`, and pass its `data_home` as `data_dir`; or save the "
            "table as a CSV file and load that."
        ) from error
    except ValueError as error:
        raise ValueError(f"{subject} is not available: {error}") from error
