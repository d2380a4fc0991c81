"""The multilayer perceptron."""

import math
from collections.abc import Callable
from typing import Any

import jax
from flax import linen

from bayesnn_ppl.arguments import near_misses

__all__ = ["MLP"]

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "tanh": jax.numpy.tanh,
    "swish": jax.nn.swish,
    "gelu": jax.nn.gelu,
    "sigmoid": jax.nn.sigmoid,
}


class MLP(linen.Module):
    """Dense layers `Dense_0`, `Dense_1`, ... with an activation after all but the last.

    Attributes:
        hidden: widths of the hidden layers; () is a linear model.
        outputs: outputs per row. None returns one scalar per row, shape (N,), which is what a
            hand-written `dist.Normal(net(x), scale)` under the data plate needs.
        activation: "relu", "tanh", "swish", "gelu" or "sigmoid".

    Inputs of shape (N, ...) are flattened to (N, d).

    Raises:
        ValueError: (when called) an activation that is none of these.
    """

    hidden: tuple[int, ...] = ()
    outputs: int | None = None
    activation: str = "tanh"

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Map (N, ...) to (N, outputs), or to (N,) where `outputs` is None."""
        if self.activation not in _ACTIVATIONS:
            raise ValueError(
                f"The activation `{self.activation}` is unknown. "
                + near_misses(self.activation, _ACTIVATIONS)
            )
        # Not reshape(N, -1): an empty batch must keep its number of features.
        x = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        for width in self.hidden:
            x = _ACTIVATIONS[self.activation](linen.Dense(width)(x))
        x = linen.Dense(self.outputs or 1)(x)
        return x[:, 0] if self.outputs is None else x
