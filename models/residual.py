"""Residual networks with filter response normalisation."""

from typing import Any

import jax.numpy as jnp
from flax import linen

import bayesnn_ppl as bnn


def resnet20_frn(
    *,
    classes: int = 10,
    depth: int = 20,
    width: int = 16,
    activation: str = "swish",
    normalisation: str = "frn",
    prior: Any = None,
    temperature: float = 1.0,
) -> Any:
    """Residual network, bnn_hmc's `resnet20_frn_swish`: 274 042 parameters on CIFAR-10.

    279 892 parameters on CIFAR-100. A 3×3 convolution, three stages of (depth − 2)/6 blocks of
    two 3×3 convolutions with 1, 2 and 4 times `width` channels, the mean over space, and a dense
    layer. The second and third stage begin with step 2 and a 1×1 convolution on the shortcut.
    All convolutions have a bias and a filter response norm with its threshold. bnn_hmc's average
    pool of 8 is the mean over space for images of 32×32 pixels.

    Args:
        classes: number of labels.
        depth: number of layers, 6n + 2: 20, 32, 44, ...
        width: channels of the first stage.
        activation: "swish", as published, or another of `nn.activation_function`.
        normalisation: "frn", or "none". "batch" is refused, with the reason.
        prior: default `priors.normal(variance=1 / 5)` on every parameter, as published.
        temperature: likelihood temperature.

    Raises:
        ValueError: a depth that is not 6n + 2, no width, or another normalisation.

    References:
        He et al. (2016), section 4.2; Izmailov et al. (2021), arXiv:2104.14421, appendix A.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 8 or (depth - 2) % 6:
        raise ValueError(
            f"The depth must be 6n + 2 layers (8, 14, 20, 32, 44, ...), for n blocks in each of "
            f"three stages, not {depth!r}."
        )
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise ValueError(f"The width must be an integer of at least 1, not {width!r}.")
    if normalisation == "batch":
        raise ValueError(
            "Batch normalisation is refused: it normalises each image with the mean and variance "
            "of all images of the batch. The output for one image then depends on the others, so "
            "the likelihood is no longer a product p(y_1 | x_1, w) ... p(y_N | x_N, w) over the "
            "observations: minibatch gradients are biased, and prediction, which has no such "
            "batch, uses another network than the one that was sampled. Use "
            'normalisation="frn", which normalises each image by itself.'
        )
    if normalisation not in ("frn", "none"):
        raise ValueError(f'The normalisation must be "frn" or "none", not {normalisation!r}.')
    bnn.nn.activation_function(activation)
    return bnn.bayesian_network(
        ResNet(classes, (depth - 2) // 6, width, activation, normalisation),
        bnn.priors.normal(variance=1 / 5) if prior is None else prior,
        bnn.likelihoods.categorical(classes),
        temperature=temperature,
    )


class ResNet(linen.Module):
    """The network of `resnet20_frn`: (N, H, W, C) to (N, outputs)."""

    outputs: int
    blocks: int
    width: int
    activation: str
    normalisation: str

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Logits (N, outputs) of images (N, H, W, C)."""
        if x.ndim != 4:
            raise ValueError(
                "The network ResNet takes images with axes (rows, height, width, channels), but "
                f"its inputs have shape {tuple(x.shape)}. For a table of features take a model "
                "such as `mlp`; grey images need a last axis of length 1."
            )
        activate = bnn.nn.activation_function(self.activation)

        def layer(x: Any, channels: int, size: int = 3, step: int = 1) -> Any:
            x = bnn.nn.Conv(channels, (size, size), strides=(step, step))(x)
            return bnn.nn.FilterResponseNorm()(x) if self.normalisation == "frn" else x

        x = activate(layer(x, self.width))
        for stage in range(3):
            channels = self.width * 2**stage
            for block in range(self.blocks):
                step = 2 if stage > 0 and block == 0 else 1
                y = activate(layer(x, channels, step=step))
                y = layer(y, channels)
                if step == 2:
                    x = layer(x, channels, size=1, step=step)
                x = activate(x + y)
        return linen.Dense(self.outputs)(jnp.mean(x, axis=(1, 2)))
