"""Data sets from NumPy files of the user: one .npz archive, or a folder of .npy files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesnn_ppl.core.npz import UNREADABLE
from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.arrays import from_arrays
from bayesnn_ppl.data.common.dataset import Dataset
from bayesnn_ppl.data.common.given_split import from_split
from bayesnn_ppl.data.common.splits import TEST_FRACTION
from bayesnn_ppl.data.common.standardisation import Task, Units
from bayesnn_ppl.data.common.stored_files import read_archive

_PARTS = ("train", "test")


def load_npz(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    task: Task | None = None,
    test_fraction: float | None = None,
    split: int = 0,
    standardise: Units = True,
) -> Dataset:
    """A `Dataset` from a NumPy archive.

    The archive holds `x` and `y`, which are split by the published rule, or `x_train`, `y_train`,
    `x_test` and `y_test`, whose split is kept. `X` may stand for `x`. Other arrays are ignored.

    Args:
        path: the file. Nothing in it is unpickled.
        target: the name of the target array, `y` by default; `target="price"` stands for
            `price_train` and `price_test` where the split is given.
        task, test_fraction, split, standardise: as `from_arrays`. A given split takes neither
            `test_fraction` nor `split`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no archive, holds Python objects, lacks an array, or, as
            `from_arrays`, holds arrays that cannot be used.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"The file `{path}` does not exist. A relative path starts at `{Path.cwd()}`."
        )
    return from_named_arrays(
        read_archive(path),
        path.stem,
        f"The file `{path}`",
        target=target,
        task=task,
        test_fraction=test_fraction,
        split=split,
        standardise=standardise,
    )


def load_npy_folder(
    path: Path,
    *,
    target: str | None = None,
    task: Task | None = None,
    test_fraction: float | None = None,
    split: int = 0,
    standardise: Units = True,
) -> Dataset:
    """A `Dataset` from a folder with `x.npy`, `y.npy`, or `x_train.npy`, `y_train.npy`, ...

    The files are memory-mapped: beside the float32 inputs of the result, only blocks of them are in
    memory. Arguments and errors are those of `load_npz`.
    """
    arrays = {}
    for file in sorted(path.glob("*.npy")):
        try:
            arrays[file.stem] = np.load(file, mmap_mode="r", allow_pickle=False)
        except UNREADABLE as error:
            raise ValueError(
                f"The file `{file}` is not a readable array of numbers ({error}). Write it with "
                "`numpy.save`; arrays of Python objects are not read."
            ) from error
    return from_named_arrays(
        arrays,
        path.name,
        f"The folder `{path}`",
        target=target,
        task=task,
        test_fraction=test_fraction,
        split=split,
        standardise=standardise,
    )


def from_named_arrays(
    arrays: dict[str, np.ndarray],
    name: str,
    subject: str,
    *,
    target: str | None,
    task: Task | None,
    test_fraction: float | None,
    split: int,
    standardise: Units,
) -> Dataset:
    """A `Dataset` from arrays by name; `subject` begins the sentence of an error."""
    checks.check_task(task)
    target = target or "y"
    features = "x" if {"x", "x_train"} & set(arrays) else "X"
    whole = [features, target]
    given = [f"{stem}_{part}" for part in _PARTS for stem in whole]
    if all(key in arrays for key in given):
        if test_fraction is not None or split != 0:
            raise ValueError(
                f"{subject} has a split of its own (`{given[0]}` and `{given[2]}`), so `split` and "
                "`test_fraction` cannot be chosen."
            )
        return from_split(
            (arrays[given[0]], arrays[given[1]]),
            (arrays[given[2]], arrays[given[3]]),
            task=task,
            name=name,
            subject=subject,
            target_name=target,
            standardise=standardise,
        )
    if absent := [key for key in whole if key not in arrays]:
        found = checks.listing(f"`{key}`" for key in arrays) or "none"
        raise ValueError(
            f"{subject} lacks the array `{absent[0]}`.{checks.nearest(absent[0], list(arrays))} It "
            f"must hold `x` and `{target}`, or `x_train`, `{target}_train`, `x_test` and "
            f"`{target}_test`; its arrays are {found}. `target=` names another target array."
        )
    dataset = from_arrays(
        arrays[features],
        arrays[target],
        task=task,
        test_fraction=TEST_FRACTION if test_fraction is None else test_fraction,
        split=split,
        name=name,
        standardise=standardise,
    )
    description = f"Arrays of {subject[0].lower()}{subject[1:]}."
    return replace(dataset, target_name=target, description=description)
