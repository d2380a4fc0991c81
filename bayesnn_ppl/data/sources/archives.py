"""Data sets from NumPy files of the user: one .npz archive, or a folder of .npy files."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesnn_ppl.core.npz import UNREADABLE
from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.arrays import from_arrays
from bayesnn_ppl.data.common.dataset import Dataset
from bayesnn_ppl.data.common.given_parts import from_split
from bayesnn_ppl.data.common.splits import TEST_FRACTION, Preparation
from bayesnn_ppl.data.common.standardisation import Task, Units
from bayesnn_ppl.data.common.stored_files import read_archive


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
    `x_test` and `y_test`, whose split is kept. `X` may be used for `x`. Other arrays are ignored.

    Args:
        path: the file. Nothing in it is unpickled.
        target: the name of the target array, `y` by default; `target="price"` stands for
            `price_train` and `price_test` where the split is given.
        task, test_fraction, split, standardise: as `from_arrays`. A given split takes neither
            `test_fraction` nor `split`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not an archive, holds Python objects, lacks an array, or, as
            `from_arrays`, holds arrays that cannot be used.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"The file `{path}` does not exist. A relative path starts at `{Path.cwd()}`."
        )
    preparation = Preparation(test_fraction, split, standardise)
    return _from_named(
        read_archive(path), path.stem, f"The file `{path}`", target or "y", task, preparation
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

    The files are memory-mapped: apart from the float32 inputs of the result, only blocks of them
    are in memory. Arguments and errors are those of `load_npz`.
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
    preparation = Preparation(test_fraction, split, standardise)
    subject = f"The folder `{path}`"
    return _from_named(arrays, path.name, subject, target or "y", task, preparation)


def _from_named(
    arrays: dict[str, np.ndarray],
    name: str,
    subject: str,
    target: str,
    task: Task | None,
    preparation: Preparation,
) -> Dataset:
    """A `Dataset` from arrays by name; `subject` begins the sentence of an error."""
    checks.check_task(task)
    features = "x" if {"x", "x_train"} & set(arrays) else "X"
    given = {part: (f"{features}_{part}", f"{target}_{part}") for part in ("train", "test")}
    if all(key in arrays for keys in given.values() for key in keys):
        preparation.require_no_choice(subject, f" (`{given['train'][0]}` and `{given['test'][0]}`)")
        return from_split(
            {part: (arrays[x], arrays[y]) for part, (x, y) in given.items()},
            task=task,
            name=name,
            subject=subject,
            target_name=target,
            standardise=preparation.standardise,
        )
    if absent := [key for key in (features, target) if key not in arrays]:
        found = checks.listing(f"`{key}`" for key in arrays) or "none"
        raise ValueError(
            f"{subject} lacks the array `{absent[0]}`.{checks.nearest(absent[0], list(arrays))} It "
            f"must hold `x` and `{target}`, or `x_train`, `{target}_train`, `x_test` and "
            f"`{target}_test`; its arrays are {found}. `target=` names another target array."
        )
    fraction = preparation.test_fraction
    dataset = from_arrays(
        arrays[features],
        arrays[target],
        task=task,
        test_fraction=TEST_FRACTION if fraction is None else fraction,
        split=preparation.split,
        name=name,
        standardise=preparation.standardise,
    )
    description = f"Arrays of {checks.lower(subject)}."
    return replace(dataset, target_name=target, description=description)
