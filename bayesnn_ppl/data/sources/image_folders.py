"""Data sets from folders of images, one sub-folder for each class."""

from pathlib import Path

import numpy as np

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.dataset import Dataset, assemble_parts, content_hash
from bayesnn_ppl.data.common.pixels import CHANNELS, channel_moments, scaled
from bayesnn_ppl.data.common.splits import Preparation
from bayesnn_ppl.data.common.standardisation import Standardisation

ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
_GREY = ("1", "L")


@strict_switches
def load_image_folder(
    path: Path, *, test_fraction: float | None = None, split: int = 0, standardise: bool = True
) -> Dataset:
    """A `Dataset` from `folder/CLASS/*.png` (or .jpg, .jpeg, .webp).

    Folders `train` and `test` that hold the class folders give the split; otherwise it is the
    published rule. Classes are the sub-folders in sorted order, rows the files in sorted order.
    Images have one size; they become one grey channel if all of them are grey, otherwise three.

    Args:
        test_fraction, split: as `from_arrays`; a given split takes neither.
        standardise: whether to map pixels in [0, 1] to mean 0 and standard deviation 1 of each
            channel over the training images; False leaves them in [0, 1].

    Raises:
        ValueError: if there are fewer than two classes, a class has too few images, an image
            cannot be read or has another size, or an option is out of range.
    """
    preparation = Preparation(test_fraction, split, standardise)
    names = class_folders(path)
    given = {"train", "test"} <= set(names)
    if given:
        preparation.require_no_choice(f"The folder `{path}`", " (`train` and `test`)")
        names = class_folders(path / "train")
        unseen = [name for name in class_folders(path / "test") if name not in names]
        if unseen:
            raise ValueError(
                f"The folder `{path / 'test'}` has classes that the folder `train` lacks: "
                f"{checks.listing(f'`{name}`' for name in unseen)}. No image could teach them."
            )
        listed = [_files(path / part, names) for part in ("train", "test")]
    else:
        listed = [_files(path, names)]
    if len(names) < 2:
        raise ValueError(
            f"The folder `{path}` has {len(names)} class folders with images, but classification "
            "needs at least two. Lay the images of each class in a sub-folder that has its name."
        )
    images = _read([file for part in listed for file, _ in part])
    y = np.array([label for part in listed for _, label in part], dtype=np.int64)
    if given:
        train, test = np.split(np.arange(len(y)), [len(listed[0])])
        if len(test) == 0:
            raise ValueError(f"The folder `{path / 'test'}` has no images. Every part needs some.")
    else:
        origin = checks.Origin(f"The folder `{path}`", "The folder names")
        checks.check_rows(len(y), origin)
        checks.check_classes(y, names, origin)
        train, test = preparation.rows(len(y))
        checks.check_split_targets(y, train, test, names, origin)
    channels = images.shape[-1]
    standardisation = (
        channel_moments(images[train]) if standardise else Standardisation.identity(channels)
    )
    parts = {"train": train, "test": test}
    return assemble_parts(
        {part: (scaled(images[rows], standardisation), y[rows]) for part, rows in parts.items()},
        standardisation,
        name=path.name,
        feature_names=CHANNELS[channels],
        target_name="class",
        class_names=names,
        description=f"Images of the folder {path.name}.",
        sha256=content_hash(images, y),
    )


def class_folders(path: Path) -> list[str]:
    """The sub-folders that hold images, themselves or (train, test) one level below."""

    def holds_images(folder: Path) -> bool:
        nested = folder.iterdir() if folder.name in ("train", "test") else ()
        return any(_images(entry) for entry in (folder, *nested) if entry.is_dir())

    return sorted(entry.name for entry in path.iterdir() if entry.is_dir() and holds_images(entry))


def _images(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in ENDINGS)


def _files(folder: Path, names: list[str]) -> list[tuple[Path, int]]:
    return [
        (file, label)
        for label, name in enumerate(names)
        if (folder / name).is_dir()
        for file in _images(folder / name)
    ]


def _read(files: list[Path]) -> np.ndarray:
    """All images as uint8 (n, height, width, 1 or 3)."""
    from PIL import Image

    modes, size = set(), None
    arrays = []
    for file in files:
        try:
            with Image.open(file) as image:
                modes.add(image.mode)
                size = size or image.size
                if image.size != size:
                    raise ValueError(
                        f"The image `{file}` is {image.size[0]}x{image.size[1]} pixels (width x "
                        f"height), but `{files[0]}` is {size[0]}x{size[1]}. All images must have "
                        "one size: resize them beforehand."
                    )
                arrays.append(np.asarray(image.convert("L" if image.mode in _GREY else "RGB")))
        except OSError as error:
            raise ValueError(
                f"The file `{file}` is not a readable image ({error}). Replace or remove it."
            ) from error
    if modes <= set(_GREY):
        return np.stack(arrays)[..., None]
    return np.stack(
        [np.repeat(array[..., None], 3, axis=2) if array.ndim == 2 else array for array in arrays]
    )
