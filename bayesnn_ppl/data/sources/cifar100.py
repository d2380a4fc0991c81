"""CIFAR-100 in the binary layout in which it is published, packed or unpacked."""

import hashlib
import os
import tarfile
import zlib
from pathlib import Path

import numpy as np

from bayesnn_ppl.data.common.stored_files import VARIABLE, locate, verify

FOLDER = "cifar-100-binary"
# SHA-1 of each file of the archive, as Apache MXNet publishes them.
CHECKSUMS = {
    "train.bin": "e207cd2e05b73b1393c74c7f5e7bea451d63e08e",
    "test.bin": "8fb6623e830365ff53cf14adec797474f5478006",
}
FINE = tuple(
    """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab
    crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm""".split()
)
COARSE = tuple(
    """aquatic_mammals fish flowers food_containers fruit_and_vegetables
    household_electrical_devices household_furniture insects large_carnivores
    large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
    medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1
    vehicles_2""".split()
)
_PIXELS = 3 * 32 * 32
_CONTENTS = (
    f"the published archive of the binary version ({FOLDER}.tar.gz, MD5 "
    "03b5dce01913d631647c71ecec9e9cb8, from https://www.cs.toronto.edu/~kriz/cifar.html); the "
    f"folder `{FOLDER}` that unpacking it makes does as well. The version for Python "
    "(cifar-100-python) is not read, because it is a pickle, and unpickling can run code"
)


def files() -> list[Path]:
    """The archive, or the two files of the unpacked folder, whichever is laid."""
    folder = os.environ.get(VARIABLE)
    if folder and (Path(folder) / FOLDER).is_dir():
        return [locate(f"{FOLDER}/{name}", "cifar100", _CONTENTS) for name in CHECKSUMS]
    return [locate(f"{FOLDER}.tar.gz", "cifar100", _CONTENTS)]


def read(paths: tuple[Path, ...]) -> dict[str, np.ndarray]:
    """The images and both labels of what `files` found, in their published order.

    A record is one byte for the coarse label, one for the fine label, then the 32x32 pixels of the
    red, the green and the blue channel, row by row.

    Returns:
        `x_train`, `x_test` uint8 (n, 32, 32, 3); `y_*` (fine) and `coarse_*` uint8 (n,).

    Raises:
        ValueError: if the archive cannot be read, or a file in it is not the published one.
    """
    arrays = {}
    for name, content in _contents(paths).items():
        found = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        verify(found, CHECKSUMS[name], f"The file `{name}` of the data set `cifar100`", paths[0])
        records = np.frombuffer(content, np.uint8).reshape(-1, 2 + _PIXELS)
        part = Path(name).stem
        planes = records[:, 2:].reshape(-1, 3, 32, 32)
        arrays[f"x_{part}"] = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
        arrays[f"coarse_{part}"], arrays[f"y_{part}"] = records[:, 0].copy(), records[:, 1].copy()
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _contents(paths: tuple[Path, ...]) -> dict[str, bytes]:
    if len(paths) > 1:
        return {path.name: path.read_bytes() for path in paths}
    contents = {}
    try:
        with tarfile.open(paths[0], "r:*") as archive:
            # Read in memory by name: nothing is unpacked to a path that an archive could choose.
            for member in archive:
                if member.isfile() and member.name.removeprefix("./") in _MEMBERS:
                    stream = archive.extractfile(member)
                    assert stream is not None
                    contents[Path(member.name).name] = stream.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"The file `{paths[0]}` is not a readable archive ({error}). Lay out a fresh copy."
        ) from error
    if absent := [name for name in CHECKSUMS if name not in contents]:
        raise ValueError(
            f"The archive `{paths[0]}` lacks the file `{FOLDER}/{absent[0]}`. Lay out a fresh copy."
        )
    return contents


_MEMBERS = {f"{FOLDER}/{name}" for name in CHECKSUMS}
