"""Random transformations of inputs, for training under `likelihoods.dirty`.

Each is a function `(key, x) -> x` of a minibatch x (B, ...), which transforms each row by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import integer, near_misses, positive

__all__ = ["NAMED", "additive_noise", "horizontal_flip", "in_turn", "named", "random_crop"]

_MODES = ("zero", "reflect")


@dataclass(frozen=True)
class RandomCrop:
    """See `random_crop`."""

    padding: int
    mode: str

    def __call__(self, key: Any, x: Any) -> Any:
        _check_images(x, "A random crop")
        p = self.padding
        if self.mode == "reflect" and p >= min(x.shape[1:3]):
            raise ValueError(
                f"A random crop that reflects {p} pixels needs images of more than {p} pixels a "
                f'side, not of shape {tuple(x.shape[1:])}. Lower `padding`, or use mode="zero".'
            )
        mode = "constant" if self.mode == "zero" else "reflect"
        padded = jnp.pad(x, ((0, 0), (p, p), (p, p), (0, 0)), mode=mode)
        corners = jax.random.randint(key, (x.shape[0], 2), 0, 2 * p + 1)

        def crop(image: Any, corner: Any) -> Any:
            return jax.lax.dynamic_slice(image, (corner[0], corner[1], 0), x.shape[1:])

        return jax.vmap(crop)(padded, corners)


@dataclass(frozen=True)
class HorizontalFlip:
    """See `horizontal_flip`."""

    def __call__(self, key: Any, x: Any) -> Any:
        _check_images(x, "A flip")
        flips = jax.random.bernoulli(key, 0.5, (x.shape[0], 1, 1, 1))
        return jnp.where(flips, x[:, :, ::-1], x)


@dataclass(frozen=True)
class AdditiveNoise:
    """See `additive_noise`."""

    scale: float

    def __call__(self, key: Any, x: Any) -> Any:
        return x + self.scale * jax.random.normal(key, x.shape, x.dtype)


@dataclass(frozen=True)
class InTurn:
    """See `in_turn`."""

    augmentations: tuple[Callable[[Any, Any], Any], ...]

    def __call__(self, key: Any, x: Any) -> Any:
        for number, augmentation in enumerate(self.augmentations):
            x = augmentation(jax.random.fold_in(key, number), x)
        return x


def random_crop(padding: int = 4, *, mode: str = "zero") -> RandomCrop:
    """Images padded by `padding` pixels on each side, and a place of the old size cut out.

    All (2·padding + 1)² places are equally probable, for each image by itself.

    Args:
        padding: pixels, at least 1.
        mode: "zero" pads with 0 in the units of the inputs that the model is given (after
            standardisation the mean), "reflect" with the image's mirror image.

    Raises:
        TypeError, ValueError: an argument is not what it must be; or, when the model runs, the
            inputs are not images (B, height, width, channels).
    """
    padding = integer(padding, "`padding` of random_crop", at_least=1)
    if mode not in _MODES:
        raise ValueError(
            f"`mode` of random_crop must be one of {_MODES}, not {mode!r}. "
            + near_misses(str(mode), _MODES)
        )
    return RandomCrop(padding, mode)


def horizontal_flip() -> HorizontalFlip:
    """Each image (B, height, width, channels) mirrored left to right with probability ½."""
    return HorizontalFlip()


def additive_noise(scale: float) -> AdditiveNoise:
    """x + s ε with ε standard normal in each element.

    In a linear regression y ~ N(wᵀx, σ²) it adds N s²|w|²/(2σ²) to the potential: ridge.

    Args:
        scale: s > 0, in the units of the inputs that the model is given.

    References:
        Bishop (1995), "Training with noise is equivalent to Tikhonov regularization".
    """
    return AdditiveNoise(positive(scale, "`scale` of additive_noise"))


def in_turn(*augmentations: Callable[[Any, Any], Any]) -> InTurn:
    """One after another, each with a key of its own."""
    if not augmentations or not all(callable(a) for a in augmentations):
        raise TypeError(
            "`in_turn` takes one augmentation or more, functions `(key, x) -> x`, not "
            f"{augmentations!r}."
        )
    return InTurn(tuple(augmentations))


NAMED: dict[str, Callable[[Any, Any], Any]] = {
    "noise": AdditiveNoise(0.1),
    "flip": horizontal_flip(),
    "crop": random_crop(4),
    "crop-reflect": random_crop(4, mode="reflect"),
    # That of CIFAR-10 in the code of Wenzel et al., `cold_posterior_bnn/datasets.py`.
    "flip-crop": in_turn(horizontal_flip(), random_crop(4)),
}


def named(name: str) -> Callable[[Any, Any], Any]:
    """The augmentation of that name; ValueError if there is none."""
    if name not in NAMED:
        raise ValueError(
            f"The augmentation `{name}` is unknown. {near_misses(name, tuple(NAMED))} A function "
            "`(key, x) -> x` will do, too."
        )
    return NAMED[name]


def _check_images(x: Any, what: str) -> None:
    if jnp.ndim(x) != 4:
        raise ValueError(
            f"{what} is for images of shape (rows, height, width, channels), but the inputs have "
            f"shape {tuple(jnp.shape(x))}. Use `additive_noise`, or a function of your own."
        )


def __dir__() -> list[str]:
    return sorted(__all__)  # what a prompt offers, without what is imported here
