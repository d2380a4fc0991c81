"""Images as bytes, and the float32 inputs that a network sees."""

import hashlib
from collections.abc import Iterable

import numpy as np

from bayesnn_ppl.data.common.standardisation import Standardisation

CHANNELS = {1: ("grey",), 3: ("red", "green", "blue")}


def scaled(images: np.ndarray, standardisation: Standardisation) -> np.ndarray:
    """Bytes u, (n, height, width, channels), to `(u / 255 - mean) / scale` per channel, float32."""
    # A byte has 256 values: looking them up needs no float64 copy of the images.
    levels = standardisation.apply_x(_levels(images.shape[-1])).astype(np.float32)
    inputs = np.empty(images.shape, np.float32)
    for channel in range(images.shape[-1]):
        inputs[..., channel] = levels[:, channel][images[..., channel]]
    return inputs


def channel_moments(images: np.ndarray) -> Standardisation:
    """Mean and standard deviation of each channel in [0, 1], over all pixels of uint8 images."""
    channels = images.shape[-1]
    counts = np.stack([_histogram(images[..., channel]) for channel in range(channels)], axis=1)
    weights, levels = counts / counts.sum(axis=0), _levels(channels)
    mean = (weights * levels).sum(axis=0)
    scale = np.sqrt((weights * (levels - mean) ** 2).sum(axis=0))
    return Standardisation(mean, np.where((counts > 0).sum(axis=0) > 1, scale, 1.0), 0.0, 1.0)


def tfds_order(part: str, n: int) -> np.ndarray:
    """`tfds_sorted` of MNIST, Fashion-MNIST and CIFAR, whose keys are positions in digits."""
    return tfds_sorted(part, map(str, range(n)))


def tfds_sorted(part: str, keys: Iterable[str]) -> np.ndarray:
    """The positions of the rows with these keys, in TensorFlow Datasets' order, shape (n,).

    TFDS sorts the rows of a part by the MD5 of the part's name followed by the row's key.
    """
    salt = hashlib.md5(part.encode(), usedforsecurity=False)
    hashes = []
    for key in keys:
        digest = salt.copy()
        digest.update(key.encode())
        hashes.append(digest.digest())
    return np.array(sorted(range(len(hashes)), key=hashes.__getitem__), dtype=np.int64)


def _levels(channels: int) -> np.ndarray:
    return np.repeat(np.arange(256)[:, None] / 255, channels, axis=1)


def _histogram(values: np.ndarray) -> np.ndarray:
    # In blocks, because bincount widens its input to eight bytes an entry.
    blocks = np.array_split(values, max(1, values.size // 10_000_000), axis=0)
    return np.sum([np.bincount(block.ravel(), minlength=256) for block in blocks], axis=0)
