"""The multilayer perceptron."""

import math
from typing import Any

from flax import linen

from bayesnn_ppl.nn.activations import activation_function


class MLP(linen.Module):
    """Dense layers `Dense_0`, `Dense_1`, ... with an activation after all but the last.

    Attributes:
        hidden: widths of the hidden layers; () is a linear model.
        outputs: outputs per row. None returns one scalar per row, shape (N,), which is what a
            hand-written `dist.Normal(net(x), scale)` under the data plate needs.
        activation: "relu", "tanh", "swish", "gelu" or "sigmoid".

    Inputs of shape (N, ...) are flattened to (N, d).

    Raises:
        ValueError: (when called) an activation that is not one of these.
    """

    hidden: tuple[int, ...] = ()
    outputs: int | None = None
    activation: str = "tanh"

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Map (N, ...) to (N, outputs), or to (N,) where `outputs` is None."""
        activation = activation_function(self.activation)
        # Not reshape(N, -1): an empty batch must keep its number of features.
        x = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        for width in self.hidden:
            x = activation(linen.Dense(width)(x))
        x = linen.Dense(self.outputs or 1)(x)
        return x[:, 0] if self.outputs is None else x
