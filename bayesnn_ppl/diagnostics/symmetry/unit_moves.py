"""Moves of hidden units that leave a network's function as it is: order, scale, sign."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import readable, strict_switches

__all__ = ["HiddenLayer", "Weights", "by_source", "normalised", "over_draws", "rearranged"]

type Array = NDArray[np.float64]
type Weights = Mapping[str, Array]

# Values held at a time, in double precision: 64 MB.
_BLOCK = 2**23


@readable
@strict_switches
@dataclass(frozen=True)
class HiddenLayer:
    """A dense or convolutional layer whose units (channels) the next layer reads.

    Attributes:
        name: of the layer, such as `Dense_0`.
        units: how many.
        incoming: its parameters; their last axis are the units.
        outgoing: the kernel of the next layer. The axes before its last, flattened, are
            (..., units): (in, out), (height, width, in, out), and (space · units, out) after a
            flattened convolution.
        scales: whether a unit may be multiplied by any c > 0, and what leaves it divided (relu).
        signs: whether by -1 (tanh).
    """

    name: str
    units: int
    incoming: tuple[str, ...]
    outgoing: str
    scales: bool
    signs: bool


def rearranged(
    weights: Weights, layer: HiddenLayer, *, order: NDArray[np.intp], factor: Array
) -> dict[str, Array]:
    """Unit i becomes what unit order[i] was, times factor[i]; what leaves it is divided.

    Args:
        weights: parameter name -> (draw, ...).
        layer: whose units move.
        order: (draw, units), a permutation for each draw.
        factor: (draw, units).
    """
    moved = dict(weights)
    for name in layer.incoming:
        array = weights[name]
        shape = (len(array), *(1,) * (array.ndim - 2), layer.units)
        index = order.reshape(shape)
        moved[name] = np.take_along_axis(array, index, axis=-1) * factor.reshape(shape)
    array = weights[layer.outgoing]
    source = by_source(array, layer)
    index = order[:, None, :, None]
    source = np.take_along_axis(source, index, axis=2) / factor[:, None, :, None]
    moved[layer.outgoing] = source.reshape(array.shape)
    return moved


def by_source(kernel: Array, layer: HiddenLayer) -> Array:
    """The kernels (draw, ...) of the next layer as (draw, space, units, out)."""
    return kernel.reshape(len(kernel), -1, layer.units, kernel.shape[-1])


def normalised(weights: Weights, layers: tuple[HiddenLayer, ...]) -> Weights:
    """Give each unit that may be scaled incoming weights and bias of unit norm, layer by layer."""
    for layer in layers:
        if layer.scales:
            squares = sum(
                np.sum(weights[name] ** 2, axis=tuple(range(1, weights[name].ndim - 1)))
                for name in layer.incoming
            )
            norm = np.sqrt(squares)
            # A unit without incoming weights says nothing, at any scale.
            factor = 1 / np.where(norm > 0, norm, 1.0)
            still = np.broadcast_to(np.arange(layer.units), factor.shape)
            weights = rearranged(weights, layer, order=still, factor=factor)
    return weights


def over_draws(
    move: Callable[[Weights], Weights], draws: Mapping[str, NDArray], *, values: int = 0
) -> dict[str, NDArray]:
    """Apply `move` to draws (chain, draw, ...), in blocks and in double precision.

    Args:
        move: from and to parameter name -> (draw, ...).
        draws: parameter name -> (chain, draw, ...).
        values: that `move` holds for one draw besides the weights.
    """
    moved = {name: np.empty(array.shape, array.dtype) for name, array in draws.items()}
    flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in draws.items()}
    out = {name: array.reshape(-1, *array.shape[2:]) for name, array in moved.items()}
    count = len(next(iter(flat.values())))
    size = values + sum(array[0].size for array in flat.values())
    step = max(1, _BLOCK // size)
    for start in range(0, count, step):
        part = slice(start, start + step)
        found = move({name: array[part].astype(float) for name, array in flat.items()})
        for name, array in found.items():
            out[name][part] = array
    return moved
