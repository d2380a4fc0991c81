"""Pairs of data sets for out-of-distribution detection."""

import numpy as np

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.data.common.dataset import Dataset
from bayesnn_ppl.data.common.pixels import scaled
from bayesnn_ppl.data.sources.images import load_images, stored_arrays

PAIRS = {
    "cifar10": "cifar100_ood",
    "cifar100": "cifar10",
    "mnist": "fashion_mnist",
    "fashion_mnist": "mnist",
}


@strict_switches
def ood_pair(
    name: str, *, standardise: bool = True, order: str | None = None, subset: int | None = None
) -> tuple[Dataset, np.ndarray]:
    """A data set, and images of another one that its network has never seen.

    CIFAR-10 goes with 5000 images of CIFAR-100, CIFAR-100 with the test images of CIFAR-10, MNIST
    and Fashion-MNIST with each other's test images. There is no pair for `cifar100_ood`, which has
    no training part.

    Args:
        name: "cifar10", "cifar100", "mnist" or "fashion_mnist".
        standardise, order, subset: of the data set, as `load` takes them.

    Returns:
        `(dataset, x)`: x is float32 (n, height, width, channels), mapped as the inputs of `dataset`
        are, which is what a network sees that meets foreign images unawares.

    Raises:
        ValueError: if there is no such pair, or as `load`.
        FileNotFoundError: if a file is not there.
    """
    if name not in PAIRS:
        pairs = ", ".join(f"`{known}` (with `{other}`)" for known, other in PAIRS.items())
        raise ValueError(f"There is no pair for `{name}`. Known are {pairs}.")
    dataset = load_images(name, standardise=standardise, order=order, subset=subset)
    x = scaled(stored_arrays(PAIRS[name])["x_test"], dataset.standardisation)
    x.flags.writeable = False
    return dataset, x
