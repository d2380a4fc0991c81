"""Convolutional networks for images: LeNet and the two of the 2021 NeurIPS competition."""

import math
from typing import Any

import jax
from flax import linen

import bayesnn_ppl as bnn


def lenet(*, classes: int = 10, prior: Any = None, temperature: float = 1.0) -> Any:
    """Three convolutions and two dense layers, bnn_hmc's `lenet`: 91 946 parameters on MNIST.

    142 646 parameters on CIFAR-10. 5×5 convolutions of 6, 16 and 120 channels, each followed by
    relu and a max pool of 3 with step 2; a dense layer of 84, relu.

    Args:
        classes: number of labels.
        prior: default `priors.normal(1.0)` on every parameter.
        temperature: likelihood temperature.
    """
    prior = bnn.priors.normal(1.0) if prior is None else prior
    return _classifier(LeNet(classes), prior, classes, temperature)


def cifar_alexnet(*, classes: int = 10, prior: Any = None, temperature: float = 1.0) -> Any:
    """AlexNet of the 2021 NeurIPS competition: 1 488 202 parameters on CIFAR-10.

    Convolutions of 64 and 128 channels (3×3), each with a max pool of 2, then of 256, 128 and 64
    channels (2×2); dense layers of 256 and 256; swish throughout.

    Args:
        classes: number of labels.
        prior: default `priors.normal(variance=0.05)` on every parameter, as there.
        temperature: likelihood temperature.
    """
    prior = bnn.priors.normal(variance=0.05) if prior is None else prior
    return _classifier(CifarAlexNet(classes), prior, classes, temperature)


def medmnist_lenet(*, classes: int = 7, prior: Any = None, temperature: float = 1.0) -> Any:
    """LeNet of the 2021 NeurIPS competition: 61 751 parameters on DermaMNIST.

    5×5 convolutions of 6 channels (with padding) and 16 (without), each with relu and an average
    pool of 2; dense layers of 120 and 84, relu.

    Args:
        classes: number of labels.
        prior: default `priors.normal(variance=0.01)` on every parameter, as there.
        temperature: likelihood temperature.
    """
    prior = bnn.priors.normal(variance=0.01) if prior is None else prior
    return _classifier(MedMnistLeNet(classes), prior, classes, temperature)


class LeNet(linen.Module):
    """The network of `lenet`: (N, H, W, C) to (N, outputs)."""

    outputs: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Logits (N, outputs) of images (N, H, W, C)."""
        require_images(self, x)
        for channels in (6, 16, 120):
            x = jax.nn.relu(bnn.nn.Conv(channels, (5, 5))(x))
            x = bnn.nn.max_pool(x, (3, 3), strides=(2, 2))
        x = jax.nn.relu(linen.Dense(84)(_flat(x)))
        return linen.Dense(self.outputs)(x)


class CifarAlexNet(linen.Module):
    """The network of `cifar_alexnet`: (N, H, W, C) to (N, outputs)."""

    outputs: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Logits (N, outputs) of images (N, H, W, C)."""
        require_images(self, x)
        for channels in (64, 128):
            x = jax.nn.swish(bnn.nn.Conv(channels, (3, 3))(x))
            x = bnn.nn.max_pool(x, (2, 2), strides=(2, 2))
        for channels in (256, 128, 64):
            x = jax.nn.swish(bnn.nn.Conv(channels, (2, 2))(x))
        x = _flat(x)
        for width in (256, 256):
            x = jax.nn.swish(linen.Dense(width)(x))
        return linen.Dense(self.outputs)(x)


class MedMnistLeNet(linen.Module):
    """The network of `medmnist_lenet`: (N, H, W, C) to (N, outputs)."""

    outputs: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Logits (N, outputs) of images (N, H, W, C)."""
        require_images(self, x)
        for channels, padding in ((6, "SAME"), (16, "VALID")):
            x = jax.nn.relu(bnn.nn.Conv(channels, (5, 5), padding=padding)(x))
            x = bnn.nn.average_pool(x, (2, 2), strides=(2, 2))
        x = _flat(x)
        for width in (120, 84):
            x = jax.nn.relu(linen.Dense(width)(x))
        return linen.Dense(self.outputs)(x)


def require_images(network: Any, x: Any) -> None:
    """Raise ValueError unless x has the axes (N, H, W, C)."""
    if x.ndim != 4:
        raise ValueError(
            f"The network {type(network).__name__} takes images with axes (rows, height, width, "
            f"channels), but its inputs have shape {tuple(x.shape)}. For a table of features take "
            "a model such as `mlp`; grey images need a last axis of length 1."
        )


def _flat(x: Any) -> Any:
    # Not reshape(N, -1): an empty batch must keep its number of features.
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _classifier(network: Any, prior: Any, classes: int, temperature: float) -> Any:
    return bnn.bayesian_network(
        network, prior, bnn.likelihoods.categorical(classes), temperature=temperature
    )
