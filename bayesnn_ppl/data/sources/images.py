"""MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100, read from the folder in BAYESNN_DATA."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.data.common.dataset import Dataset, assemble_parts, content_hash
from bayesnn_ppl.data.common.pixels import CHANNELS, scaled, tfds_order
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.data.common.stored_files import VARIABLE, locate, read_archive, verify_arrays
from bayesnn_ppl.data.sources import cifar100

ORDERS = ("original", "tfds")
_STRIP = 500


@dataclass(frozen=True)
class _Images:
    """A published set: the checksums are of each array, in the order of the rows.

    `targets` are the names of the labels that can be predicted, the usual one first, and
    `coarse_names` the classes of a second one.
    """

    title: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    class_names: tuple[str, ...]
    checksums: dict[str, str]
    coarse_names: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        return ("label", "coarse_label") if self.coarse_names else ("label",)

    @property
    def description(self) -> str:
        return f"{self.title}; needs {VARIABLE}."


_CIFAR: dict[str, Any] = {"mean": (0.49, 0.48, 0.44), "scale": (0.2, 0.2, 0.2)}

SETS = {
    # MD5 of the original idx files, which hold a header before the bytes.
    "mnist": _Images(
        "Handwritten digits, 60000 training and 10000 test images of 28x28 grey pixels "
        "(LeCun, Cortes and Burges)",
        mean=(0.1307,),
        scale=(0.3081,),
        class_names=tuple("0123456789"),
        checksums={
            "x_train": "6bbc9ace898e44ae57da46a324031adb",
            "y_train": "a25bea736e30d166cdddb491f175f624",
            "x_test": "2646ac647ad5339dbf082846283269ea",
            "y_test": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    "fashion_mnist": _Images(
        "Articles of clothing, 60000 training and 10000 test images of 28x28 grey pixels "
        "(Xiao, Rasul and Vollgraf 2017)",
        mean=(0.2860,),
        scale=(0.3530,),
        class_names=(
            "T-shirt/top",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
        checksums={
            "x_train": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "y_train": "9018921c3c673c538a1fc5bad174d6f9",
            "x_test": "8181f5470baa50b63fa0f6fddb340f0a",
            "y_test": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
    # SHA-256 of the uint8 arrays (n, 32, 32, 3) and (n,).
    "cifar10": _Images(
        "Objects and animals, 50000 training and 10000 test images of 32x32 colour pixels "
        "(Krizhevsky 2009)",
        **_CIFAR,
        class_names=tuple("airplane automobile bird cat deer dog frog horse ship truck".split()),
        checksums={
            "x_train": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
            "y_train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
            "x_test": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
            "y_test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
        },
    ),
    "cifar100": _Images(
        "Objects, animals and scenes, 50000 training and 10000 test images of 32x32 colour pixels "
        "in 100 classes, which form 20 coarse ones (Krizhevsky 2009)",
        **_CIFAR,
        class_names=cifar100.FINE,
        coarse_names=cifar100.COARSE,
        checksums={},  # of its files, in `cifar100.CHECKSUMS`
    ),
    "cifar100_ood": _Images(
        "5000 images of CIFAR-100, 50 of each class, from its training and test set mixed: inputs "
        "out of distribution for a network trained on CIFAR-10. It is not the CIFAR-100 test set, "
        "an accuracy on it is not a CIFAR-100 accuracy, and it has no training part",
        **_CIFAR,
        class_names=tuple(f"fine class {label}" for label in range(100)),
        checksums={
            "x_test": "fdae7ceaf5f0a43a1d6dc8286f6c5bf119a80395f9aa43211fa9b6a0d9cc3f86",
            "y_test": "d887060a39e455849e9ab75fa57a85121dd3409d406f0ea922cb70712bd0b866",
        },
    ),
}


def load_images(
    name: str,
    *,
    standardise: bool = True,
    order: str | None = None,
    subset: int | None = None,
    target: str | None = None,
) -> Dataset:
    """One of `SETS`, with its published split.

    Args:
        standardise: whether to map pixels in [0, 1] by the usual means and scales of the set; False
            leaves them in [0, 1].
        order: "original" (None), or "tfds": rows as TensorFlow Datasets gives them, which is how
            Izmailov et al. (2021) saw CIFAR-10.
        subset: the first so many training rows in that order; None takes all.
        target: of CIFAR-100 "label" (None), one of 100 classes, or "coarse_label", one of 20.

    Raises:
        ValueError: if an option is out of range, or a checksum differs from the published one.
        FileNotFoundError: if a file is not there.
    """
    entry = SETS[name]
    label = check_choice("target", target, entry.targets)
    labels = "y" if label == "label" else "coarse"
    chosen = check_choice("order", order, ORDERS)
    arrays = stored_arrays(name)
    evaluation_only = "x_train" not in arrays
    if evaluation_only and (subset is not None or chosen != "original"):
        raise ValueError(
            f"The data set `{name}` has no training part, and one order only, so `subset` and "
            "`order` cannot be chosen."
        )
    check_subset(subset, 0 if evaluation_only else len(arrays["y_train"]), name)
    standardisation = (
        Standardisation(np.array(entry.mean), np.array(entry.scale), 0.0, 1.0)
        if standardise
        else Standardisation.identity(len(entry.mean))
    )

    def part(which: str) -> tuple[np.ndarray, np.ndarray]:
        if f"x_{which}" not in arrays:
            return np.empty((0, *arrays["x_test"].shape[1:]), np.float32), np.empty(0, np.int32)
        x, y = arrays[f"x_{which}"], arrays[f"{labels}_{which}"]
        rows = slice(None) if chosen == "original" else tfds_order(which, len(y))
        if which == "train" and subset is not None:
            rows = slice(subset) if isinstance(rows, slice) else rows[:subset]
        return scaled(x[rows], standardisation), y[rows]

    return assemble_parts(
        {which: part(which) for which in ("train", "test")},
        standardisation,
        name=name,
        feature_names=CHANNELS[len(entry.mean)],
        target_name=label,
        class_names=entry.class_names if label == "label" else entry.coarse_names,
        description=entry.description,
        sha256=content_hash(*(arrays[key] for key in sorted(arrays))),
    )


def check_choice(option: str, value: str | None, choices: Sequence[str]) -> str:
    """The choice, where None is the first; refuse one that does not exist."""
    if value is None:
        return choices[0]
    if value not in choices:
        raise ValueError(f"`{option}` must be {' or '.join(map(repr, choices))}, but is {value!r}.")
    return value


def check_subset(subset: int | None, rows: int, name: str) -> None:
    """Refuse a number of training rows that the set does not have."""
    whole = isinstance(subset, int | np.integer) and not isinstance(subset, bool)
    if subset is not None and not (whole and 0 < subset <= rows):
        raise ValueError(
            f"`subset` is the number of training rows to keep, an integer from 1 to the {rows} of "
            f"the data set `{name}`, but is {subset!r}."
        )


def stored_arrays(name: str) -> dict[str, np.ndarray]:
    """The bytes of one of `SETS` in their original order, checked against their checksums.

    Decoded and checked once per process and state of the files. The arrays are read-only:
    `x_train`, `x_test` uint8 (n, height, width, channels), `y_train`, `y_test` uint8 (n,), and
    of CIFAR-100 `coarse_train`, `coarse_test` likewise.
    """
    files = tuple(_files(name))
    return _read(name, files, tuple(os.stat(file).st_mtime_ns for file in files))


def _files(name: str) -> list[Path]:
    if name == "cifar100":
        return cifar100.files()
    if name in ("mnist", "fashion_mnist"):
        contents = (
            "a NumPy archive with the arrays `x_train` (60000, 28, 28), `y_train` (60000,), "
            "`x_test` (10000, 28, 28), `y_test` (10000,) of uint8"
        )
        return [locate(f"{name}.npz", name, contents)]
    labels = "`y_train` and `y_test`" if name == "cifar10" else "`y_fine`"
    archive = locate(f"{name}/labels.npz", name, f"a NumPy archive with the labels {labels}, uint8")
    strip = (
        f"a lossless WebP strip of {_STRIP} images, one below the other, 32 pixels wide and "
        f"{32 * _STRIP} high"
    )
    stems = (
        [f"x_train_{k:03d}" for k in range(100)] + [f"x_test_{k:03d}" for k in range(20)]
        if name == "cifar10"
        else [f"x_{k:03d}" for k in range(10)]
    )
    return [archive, *(locate(f"{name}/{stem}.webp", name, strip) for stem in stems)]


@lru_cache(maxsize=4)
def _read(name: str, files: tuple[Path, ...], stamps: tuple[int, ...]) -> dict[str, np.ndarray]:
    if name == "cifar100":
        return cifar100.read(files)
    arrays = read_archive(files[0], ("x_train", "y_train", "x_test", "y_test", "y_fine"))
    if name == "cifar10":
        arrays["x_train"], arrays["x_test"] = _strips(files[1:101]), _strips(files[101:])
    elif name == "cifar100_ood":
        arrays = {"x_test": _strips(files[1:]), "y_test": arrays.pop("y_fine", np.empty(0))}
    verify_arrays(arrays, SETS[name].checksums, name, files[0].parent)
    return {key: array[..., None] if array.ndim == 3 else array for key, array in arrays.items()}


def _strips(files: Sequence[Path]) -> np.ndarray:
    """The images of several strips, uint8 (n, 32, 32, 3)."""
    from PIL import Image

    images = np.empty((len(files), _STRIP, 32, 32, 3), np.uint8)
    for position, file in enumerate(files):
        try:
            with Image.open(file) as strip:
                images[position] = np.asarray(strip.convert("RGB")).reshape(images.shape[1:])
        except (OSError, ValueError) as error:
            raise ValueError(
                f"The file `{file}` is not a readable strip of {_STRIP} images of 32x32 pixels "
                f"({error}). Lay out a fresh copy."
            ) from error
    return images.reshape(-1, 32, 32, 3)
