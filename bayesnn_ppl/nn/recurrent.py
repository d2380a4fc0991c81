"""Long short-term memory."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen
from flax.linen.dtypes import promote_dtype
from jax import lax


class LSTM(linen.Module):
    r"""A layer of long short-term memory, from a sequence to the sequence of its states.

        [i, g, f, o] = Wᵀ [x_t, h_{t-1}] + b
        c_t = σ(f + b_f) c_{t-1} + σ(i) tanh(g)
        h_t = σ(o) tanh(c_t)

    from c = h = 0. The parameters are `kernel`, shape (in + features, 4 · features), and `bias`,
    shape (4 · features,): one bias for each gate and unit, and a fan-in of in + features. This is
    Haiku's parametrisation, which the networks of bnn_hmc are built with.

    Attributes:
        features: number of units.
        forget_bias: b_f, a constant that is added to the forget gate's own bias: 1 in Haiku, 0 in
            Flax. A prior centred at zero then means a gate of σ(1) = 0.73 and not of 0.5.

    Raises:
        ValueError: (when called) inputs that do not have the axes (N, T, in).

    References:
        Hochreiter and Schmidhuber (1997); Jozefowicz et al. (2015) for the forget gate's bias.
    """

    features: int
    forget_bias: float = 1.0

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Map (N, T, in) to the states h of all steps, (N, T, features)."""
        if x.ndim != 3:
            raise ValueError(
                "An LSTM needs sequences with axes (rows, steps, features), but their shape is "
                f"{tuple(x.shape)}."
            )
        rows, _, inputs = x.shape
        kernel = self.param(
            "kernel", linen.initializers.lecun_normal(), (inputs + self.features, 4 * self.features)
        )
        bias = self.param("bias", linen.initializers.zeros_init(), (4 * self.features,))
        x, kernel, bias = promote_dtype(x, kernel, bias)
        # The inputs' part of all steps is one matrix product, outside the loop.
        driven = jnp.moveaxis(x @ kernel[:inputs] + bias, 1, 0)
        recurrent = kernel[inputs:]

        def step(state: tuple[Any, Any], driven: Any) -> tuple[tuple[Any, Any], Any]:
            c, h = state
            i, g, f, o = jnp.split(driven + h @ recurrent, 4, axis=-1)
            c = jax.nn.sigmoid(f + self.forget_bias) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (c, h), h

        start = jnp.zeros((rows, self.features), driven.dtype)
        _, states = lax.scan(step, (start, start), driven)
        return jnp.moveaxis(states, 0, 1)
