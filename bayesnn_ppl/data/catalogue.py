"""Data sets by name."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bayesnn_ppl.core.arguments import series
from bayesnn_ppl.data.common.checks import check_units, lower, nearest
from bayesnn_ppl.data.common.dataset import Dataset
from bayesnn_ppl.data.common.standardisation import Task, Units
from bayesnn_ppl.data.sources import (
    archives,
    bundled,
    image_folders,
    images,
    imdb,
    openml,
    synthetic,
    tfds,
    uci,
)
from bayesnn_ppl.data.tables import table_files

# What each source has by name, and the loader of one of them; in the order of `names`.
SOURCES: list[tuple[Mapping[str, Any], Callable[..., Dataset]]] = [
    (bundled.SETS, bundled.load_bundled),
    (synthetic.SETS, synthetic.load_synthetic),
    (uci.SETS, uci.load_uci),
    (images.SETS, images.load_images),
    (imdb.SETS, imdb.load_imdb),
]
_PLACES = ("data_dir", "manual_dir", "vocabulary")
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
    sets = {name: entry for known, _ in SOURCES for name, entry in known.items()}
    return {name: getattr(entry, "description", entry) for name, entry in sets.items()}


def load(
    name: str | os.PathLike[str],
    *,
    split: int = 0,
    standardise: Units = True,
    target: str | None = None,
    drop: Sequence[str] | None = None,
    task: Task | None = None,
    test_fraction: float | None = None,
    order: str | None = None,
    subset: int | None = None,
    num_words: int | None = None,
    length: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    manual_dir: str | os.PathLike[str] | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load a data set by its name, from a file or folder, from TFDS or from OpenML.

    Sets from scikit-learn and synthetic ones need nothing. UCI sets, MNIST, Fashion-MNIST,
    CIFAR-10, CIFAR-100 and IMDB are read from the folder that the environment variable
    BAYESNN_DATA names, with their standard splits and checked against published checksums.

    Args:
        name: a key of `names()`, whatever its case and punctuation, or a short form such as
            "boston" or "naval"; the path of a .csv, .parquet or .npz file; the path of a folder of
            .npy files (`load_npz`) or of class folders of images (`load_image_folder`);
            "tfds:NAME" (`load_tfds`); "openml:NAME" or "openml:NUMBER" (`load_openml`).
        split: which standard split, 0..19 (protein: 0..4); of a synthetic set the seed, any
            non-negative integer. A split holds out 10 % of the rows, of nuclei 30 %. Sets whose
            split is fixed have split 0 only.
        standardise: whether to map x, and y in regression, to mean 0 and standard deviation 1 of
            the training rows, and published image sets by their usual means and scales.
            `train.y.standardisation` brings targets back to the data's units. Token ids stay.
            "inputs" leaves y as it is, for counts, and "positive" divides it by its geometric mean.
        target: tables, .npz files, TFDS, OpenML: the column, array or feature to predict;
            CIFAR-100: "label" or "coarse_label".
        drop: tables: names of columns to leave out.
        task: tables, arrays, OpenML: "regression" or "classification"; None infers it.
        test_fraction: data without a split of their own: the share of the test rows, 0.1 by
            default.
        order: image sets: "original" or "tfds"; IMDB: "keras", "original" or "tfds". None is the
            first.
        subset: image sets, IMDB, TFDS: the first so many training rows in that order.
        num_words, length: IMDB and texts of TFDS: see `load_imdb`; by default 20000 and 100.
        data_dir: TFDS and OpenML: where prepared data are kept.
        manual_dir: TFDS: a folder with archives that were downloaded by hand.
        vocabulary: texts of TFDS: a JSON file of words and their ranks (`read_vocabulary`).

    Raises:
        ValueError: if the name or the split does not exist, an option is given that this kind of
            data does not take, a checksum differs, or a file cannot be used.
        FileNotFoundError: if a file is not there; the message says what to lay where.
    """
    given = {option: value for option, value in locals().items() if value is not None}
    for fixed in ("name", "split", "standardise"):
        del given[fixed]
    check_units(standardise)
    text = os.fspath(name)
    subject, loader = _source(text)
    bound = getattr(loader, "keywords", {})
    takes = [option for option in inspect.signature(loader).parameters if option not in bound]
    if refused := [f"`{option}`" for option in given if option not in takes]:
        known = [f"`{o}`" for o in takes if o not in ("split", "standardise")]
        raise ValueError(
            f"{series(refused)} cannot be chosen for {lower(subject)}, which takes the options "
            f"{', '.join(['`split`', '`standardise`', *known])}."
        )
    if "split" not in takes and (split != 0 or isinstance(split, bool)):
        raise ValueError(f"{subject} has one published split, number 0, but `split` is {split!r}.")
    common = {"split": split, "standardise": standardise, "target": target}
    dataset = loader(**given | {o: value for o, value in common.items() if o in takes})
    by = {"name": _lasting_name(text, dataset), "split": split, **given}
    if standardise is not True:
        by["standardise"] = standardise
    folders = {key: str(Path(by[key]).resolve()) for key in _PLACES if key in by}
    return replace(dataset, loaded_by=by | folders)


def _lasting_name(given: str, dataset: Dataset) -> str:
    """A name that brings the data back from any folder: whole paths, and whole names of sources."""
    if given.startswith(("tfds:", "openml:")):
        return given
    path = Path(given)
    # `mnist` is the data set though there be a folder of that name.
    known = path.name == given and dataset.name in names()
    if path.is_file() or (path.is_dir() and not known):
        return str(path.resolve())
    return dataset.name


def _source(text: str) -> tuple[str, Callable[..., Dataset]]:
    """What a name stands for, and its loader, whose unbound arguments are what may be chosen."""
    prefix, _, rest = text.partition(":")
    if prefix in ("tfds", "openml"):
        if not rest:
            raise ValueError(f"`{text}` lacks a name: write `{prefix}:NAME`.")
        if prefix == "tfds":
            return f"The TFDS data set `{rest}`", partial(tfds.load_tfds, rest)
        return f"The OpenML data set `{rest}`", partial(openml.load_openml, rest)
    ending = Path(text).suffix.lower()
    if ending == ".npz":
        return f"The file `{text}`", partial(archives.load_npz, text)
    if ending == ".csv" or ending in table_files.PARQUET:
        return f"The file `{text}`", partial(table_files.load_table, text)
    forms = {_fold(alias): name for alias, name in _ALIASES.items()}
    key = (forms | {_fold(name): name for name in names()}).get(_fold(text))
    # A folder that happens to be called `mnist` does not hide the data set; `./mnist` is a folder.
    if Path(text).is_dir() and (os.path.basename(text) != text or key is None):
        return _folder(Path(text))
    if key is None:
        known = list(names())
        raise ValueError(
            f"There is no data set `{text}`.{nearest(text, [*known, *_ALIASES])} Known are "
            f"{', '.join(known)}; or pass `tfds:NAME`, `openml:NAME`, or the path of a .csv, "
            ".parquet or .npz file or of a folder."
        )
    subject = f"The data set `{key}`"
    if key in imdb.SETS:
        return subject, imdb.load_imdb
    loader = next(partial(load, key) for sets, load in SOURCES if key in sets)
    one_label = key in images.SETS and len(images.SETS[key].targets) == 1
    return subject, partial(loader, target="label") if one_label else loader


def _folder(path: Path) -> tuple[str, Callable[..., Dataset]]:
    """A folder of arrays, or of images."""
    subject = f"The folder `{path}`"
    if any(path.glob("*.npy")):
        return subject, partial(archives.load_npy_folder, path)
    if image_folders.class_folders(path):
        return subject, partial(image_folders.load_image_folder, path)
    raise ValueError(
        f"{subject} holds neither arrays nor images. Lay `x.npy` and `y.npy` there, or "
        "`x_train.npy`, `y_train.npy`, `x_test.npy` and `y_test.npy`; or a sub-folder of "
        f"{', '.join(image_folders.ENDINGS)} images for each class."
    )


def _fold(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())
