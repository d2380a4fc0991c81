"""A transformer encoder."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen

from bayesnn_ppl.nn.activations import activation_function


class SelfAttention(linen.Module):
    r"""Multi-head self-attention: softmax(QKᵀ/√(features/heads)) V in each head.

    The projections are the dense layers `query`, `key`, `value` and `output`. Their kernels are
    (features, features): Flax's own layer has kernels (features, heads, features / heads), whose
    leading axes would make a fan-in of features · heads under a scaled prior.

    Attributes:
        heads: number of heads; it must divide the number of features.

    Raises:
        ValueError: (when called) it does not.

    References:
        Vaswani et al. (2017), section 3.2.
    """

    heads: int

    @linen.compact
    def __call__(self, x: Any, mask: Any = None) -> Any:
        """Map (N, T, features) to the same shape; `mask` (N, T) is True where there is a token."""
        rows, steps, features = x.shape
        if self.heads < 1 or features % self.heads:
            raise ValueError(
                f"The number of heads must divide the number of features: {features} features do "
                f"not make {self.heads} heads of equal width."
            )
        query, key, value = (
            linen.Dense(features, name=name)(x).reshape(rows, steps, self.heads, -1)
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("nqhd,nkhd->nhqk", query, key) / math.sqrt(features // self.heads)
        if mask is not None:
            # A finite value: a row without any token gets equal weights and not NaN.
            scores = jnp.where(mask[:, None, None, :], scores, jnp.finfo(scores.dtype).min)
        attended = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), value)
        return linen.Dense(features, name="output")(attended.reshape(rows, steps, features))


class TransformerBlock(linen.Module):
    """Attention and two dense layers, each added to its input after layer normalisation.

    x ← x + attention(norm(x)),  x ← x + dense(activation(dense(norm(x)))). Layer normalisation
    works on each token by itself and leaves the observations independent.

    Attributes:
        heads: see `SelfAttention`.
        hidden: width of the inner dense layer.
        activation: "relu", "tanh", "swish", "gelu" or "sigmoid".

    References:
        Xiong et al. (2020), On Layer Normalization in the Transformer Architecture.
    """

    heads: int
    hidden: int
    activation: str = "gelu"

    @linen.compact
    def __call__(self, x: Any, mask: Any = None) -> Any:
        """Map (N, T, features) to the same shape; `mask` (N, T) is True where there is a token."""
        x = x + SelfAttention(self.heads)(linen.LayerNorm()(x), mask)
        inner = linen.Dense(self.hidden)(linen.LayerNorm()(x))
        return x + linen.Dense(x.shape[-1])(activation_function(self.activation)(inner))
