"""Corrupted images: six kinds at five severities, for tests under a shift of the inputs."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayesnn_ppl.data.common.checks import nearest
from bayesnn_ppl.data.common.dataset import Dataset, Split
from bayesnn_ppl.data.common.standardisation import Standardisation

SEVERITIES = (1, 2, 3, 4, 5)
_BLOCK = 1_000
_TOLERANCE = 1e-3


def corrupt(images: np.ndarray, kind: str, severity: int, *, seed: int = 0) -> np.ndarray:
    r"""Images changed in one way; the distance to the originals grows with the severity s = 1..5.

    - `gaussian_noise`: adds normal noise of standard deviation .04, .08, .12, .18, .26.
    - `gaussian_blur`: a Gaussian of standard deviation .4, .6, .9, 1.3, 1.8 times h / 32 pixels.
    - `contrast`: pulls each image to its mean colour, m + c (x - m), with c = .75, .55, .4,
      .25, .12.
    - `brightness`: adds .08, .16, .24, .32, .4.
    - `pixelate`: means over blocks, with .8, .65, .5, .35, .25 as many blocks as pixels on a side.
    - `rotation`: by 6, 12, 20, 30, 45 degrees, clockwise or not at random; the border is continued.

    Results are clipped to [0, 1]. The kinds follow Hendrycks and Dietterich (2019,
    arXiv:1903.12261); the strengths are our own, so numbers are not comparable with CIFAR-10-C.

    Args:
        images: floats in [0, 1], shape (n, height, width, channels).
        kind: one of `KINDS`.
        severity: 1 to 5.
        seed: of the noise and the senses of rotation. All severities of one seed share them.

    Returns:
        a new array of the shape and type of `images`.

    Raises:
        TypeError: if `images` are not floats.
        ValueError: if an argument is out of range.
    """
    if kind not in _CORRUPTIONS:
        raise ValueError(
            f"There is no corruption `{kind}`.{nearest(str(kind), KINDS)} "
            f"Known are {', '.join(KINDS)}."
        )
    if severity not in SEVERITIES or isinstance(severity, bool):
        raise ValueError(f"`severity` must be an integer from 1 to 5, but is {severity!r}.")
    images = np.asarray(images)
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise ValueError(
            f"`images` has shape {images.shape}, but must have shape (n, height, width, channels). "
            "Grey images have one channel: use `images[..., None]`."
        )
    if images.dtype.kind != "f":
        raise TypeError(
            f"`images` has dtype {images.dtype}, but must hold floats in [0, 1]. Bytes are brought "
            "there by `images / 255`."
        )
    if images.size and not (images.min() >= -_TOLERANCE and images.max() <= 1 + _TOLERANCE):
        raise ValueError(
            f"`images` must lie in [0, 1], but lie in [{images.min():g}, {images.max():g}]. The "
            "inputs of a standardised data set are corrupted by `corrupt_dataset`."
        )
    function, strengths = _CORRUPTIONS[kind]
    generator = np.random.default_rng(seed)
    result = np.empty_like(images, subok=False)
    # In blocks, so that float64 copies of all images are never held together.
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK].astype(np.float64)
        changed = function(block, strengths[severity - 1], generator)
        result[start : start + _BLOCK] = np.clip(changed, 0.0, 1.0)
    return result


def corrupt_dataset(dataset: Dataset, kind: str, severity: int, *, seed: int = 0) -> Dataset:
    """The data set with its test images corrupted; training and validation images stay.

    Standardised inputs are brought back to [0, 1], corrupted by `corrupt`, and standardised again.

    Raises:
        TypeError, ValueError: as `corrupt`, and if the inputs are not images in [0, 1].
    """
    x = dataset.test.x
    if x.ndim != 4 or x.dtype.kind != "f":
        raise ValueError(
            f"The test inputs of the data set `{dataset.name}` have shape {x.shape} and dtype "
            f"{x.dtype}, but only images, shape (n, height, width, channels), can be corrupted."
        )
    units: Standardisation = dataset.standardisation
    raw = (x * units.x_scale.astype(np.float32) + units.x_mean.astype(np.float32)).astype(x.dtype)
    standardised = units.apply_x(corrupt(raw, kind, severity, seed=seed))
    changed = np.asarray(standardised, np.float32)
    changed.flags.writeable = False
    content = f"{dataset.sha256} {kind} {severity} {seed}"
    return replace(
        dataset,
        name=f"{dataset.name} {kind} {severity}",
        test=Split(changed, dataset.test.y),
        description=f"{dataset.description} Test images corrupted: {kind}, severity {severity}.",
        sha256=hashlib.sha256(content.encode()).hexdigest(),
    )


def _gaussian_blur(x: np.ndarray, width: float, _: np.random.Generator) -> np.ndarray:
    from scipy import ndimage

    pixels = width * x.shape[1] / 32
    return ndimage.gaussian_filter(x, sigma=(0, pixels, pixels, 0), mode="nearest")


def _contrast(x: np.ndarray, kept: float, _: np.random.Generator) -> np.ndarray:
    mean = x.mean(axis=(1, 2), keepdims=True)
    return mean + kept * (x - mean)


def _pixelate(x: np.ndarray, share: float, _: np.random.Generator) -> np.ndarray:
    for axis in (1, 2):
        size = x.shape[axis]
        blocks = max(1, round(share * size))
        block = np.arange(size) * blocks // size
        starts = np.searchsorted(block, np.arange(blocks))
        shape = [1] * x.ndim
        shape[axis] = blocks
        lengths = np.bincount(block, minlength=blocks).reshape(shape)
        x = np.take(np.add.reduceat(x, starts, axis=axis) / lengths, block, axis=axis)
    return x


def _rotation(x: np.ndarray, degrees: float, generator: np.random.Generator) -> np.ndarray:
    from scipy import ndimage

    clockwise = generator.random(len(x)) < 0.5
    turned = np.empty_like(x)
    for rows, angle in ((clockwise, -degrees), (~clockwise, degrees)):
        if rows.any():
            turned[rows] = ndimage.rotate(
                x[rows], angle, axes=(1, 2), reshape=False, order=1, mode="nearest"
            )
    return turned


_Corruption = Callable[[np.ndarray, float, np.random.Generator], np.ndarray]
# Each with its strength at the five severities.
_CORRUPTIONS: dict[str, tuple[_Corruption, tuple[float, ...]]] = {
    "gaussian_noise": (
        lambda x, sd, g: x + sd * g.standard_normal(x.shape),
        (0.04, 0.08, 0.12, 0.18, 0.26),
    ),
    "gaussian_blur": (_gaussian_blur, (0.4, 0.6, 0.9, 1.3, 1.8)),
    "contrast": (_contrast, (0.75, 0.55, 0.4, 0.25, 0.12)),
    "brightness": (lambda x, added, _: x + added, (0.08, 0.16, 0.24, 0.32, 0.4)),
    "pixelate": (_pixelate, (0.8, 0.65, 0.5, 0.35, 0.25)),
    "rotation": (_rotation, (6.0, 12.0, 20.0, 30.0, 45.0)),
}
KINDS = tuple(_CORRUPTIONS)
