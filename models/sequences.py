"""Networks for sequences of tokens, such as the words of a review."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from flax import linen

import bayesnn_ppl as bnn


def cnn_lstm(
    *,
    classes: int = 2,
    units: int = 128,
    forget_bias: float = 1.0,
    vocabulary: int = 20_000,
    prior: Any = None,
    temperature: float = 1.0,
) -> Any:
    """Convolution and LSTM for tokens, bnn_hmc's `cnn_lstm`: 2 700 098 parameters on IMDB.

    2 638 966 parameters with `units=70`, as in Wenzel et al. (2020). An embedding of 128, a
    convolution of 64 channels over 5 tokens without padding, relu, a max pool of 4, an LSTM, and
    a dense layer on its last state.

    Args:
        classes: number of labels.
        units: units of the LSTM.
        forget_bias: constant added to the forget gate: 1 as in Haiku, 0 as in Flax.
        vocabulary: number of tokens V; inputs are integers 0 ... V − 1, shape (N, T) with
            T ≥ 8. A token outside makes the row's outputs NaN.
        prior: default `priors.normal(variance=1 / 40)` on every parameter, as in bnn_hmc.
        temperature: likelihood temperature.

    References:
        Izmailov et al. (2021), arXiv:2104.14421; Wenzel et al. (2020), arXiv:2002.02405.
    """
    return bnn.bayesian_network(
        CnnLstm(classes, units, float(forget_bias), vocabulary),
        bnn.priors.normal(variance=1 / 40) if prior is None else prior,
        bnn.likelihoods.categorical(classes),
        temperature=temperature,
    )


def transformer(
    *,
    classes: int = 2,
    features: int = 64,
    heads: int = 4,
    blocks: int = 2,
    hidden: int = 128,
    activation: str = "gelu",
    vocabulary: int = 20_000,
    prior: Any = None,
    temperature: float = 1.0,
) -> Any:
    """A small transformer encoder for tokens, of two blocks with four heads.

    Token and position embeddings, blocks of self-attention and two dense layers, layer
    normalisation, the mean over the tokens, and a dense layer. Token 0 is padding: it is neither
    attended to nor averaged.

    Args:
        classes: number of labels.
        features: width of the embedding.
        heads: attention heads; they must divide `features`.
        blocks: number of `nn.TransformerBlock`.
        hidden: width of the dense layer within a block.
        activation: of that layer, see `nn.activation_function`.
        vocabulary: number of tokens V; inputs are integers 0 ... V − 1, shape (N, T). A
            token outside makes the row's outputs NaN.
        prior: by default the gains of layer normalisation are N(1, 0.1²), its offsets N(0, 0.1²)
            and everything else is `priors.fan_in_normal()`.
        temperature: likelihood temperature.

    Raises:
        ValueError: heads that do not divide the features, or an unknown activation.
    """
    if heads < 1 or features % heads:
        raise ValueError(
            f"The number of heads must divide the number of features: {features} features do not "
            f"make {heads} heads of equal width."
        )
    bnn.nn.activation_function(activation)
    if prior is None:
        prior = {
            "*LayerNorm*.scale": dist.Normal(1.0, 0.1),
            "*LayerNorm*.bias": dist.Normal(0.0, 0.1),
            "*": bnn.priors.fan_in_normal(),
        }
    return bnn.bayesian_network(
        Transformer(classes, features, heads, blocks, hidden, activation, vocabulary),
        prior,
        bnn.likelihoods.categorical(classes),
        temperature=temperature,
    )


class CnnLstm(linen.Module):
    """The network of `cnn_lstm`: tokens (N, T) to (N, outputs)."""

    outputs: int
    units: int
    forget_bias: float
    vocabulary: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Logits (N, outputs) of tokens (N, T)."""
        _require_tokens(self, x)
        x = linen.Embed(self.vocabulary, 128)(x)
        x = jax.nn.relu(bnn.nn.Conv(64, (5,), padding="VALID")(x))
        x = bnn.nn.max_pool(x, (4,), strides=(4,))
        x = bnn.nn.LSTM(self.units, forget_bias=self.forget_bias)(x)
        return linen.Dense(self.outputs)(x[:, -1])


class Transformer(linen.Module):
    """The network of `transformer`: tokens (N, T) to (N, outputs)."""

    outputs: int
    features: int
    heads: int
    blocks: int
    hidden: int
    activation: str
    vocabulary: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Logits (N, outputs) of tokens (N, T)."""
        _require_tokens(self, x)
        mask = x != 0
        positions = linen.Embed(x.shape[1], self.features, name="Positions")
        x = linen.Embed(self.vocabulary, self.features, name="Tokens")(x)
        x = x + positions(jnp.arange(x.shape[1]))
        for _ in range(self.blocks):
            x = bnn.nn.TransformerBlock(self.heads, self.hidden, self.activation)(x, mask)
        x = linen.LayerNorm()(x)
        tokens = jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
        mean = jnp.sum(jnp.where(mask[..., None], x, 0.0), axis=1) / tokens
        return linen.Dense(self.outputs)(mean)


def _require_tokens(network: Any, x: Any) -> None:
    if x.ndim != 2 or not jnp.issubdtype(x.dtype, jnp.integer):
        raise ValueError(
            f"The network {type(network).__name__} takes tokens, integers with axes (rows, "
            f"steps), but its inputs have shape {tuple(x.shape)} and type {x.dtype}. For a table "
            "of features take a model such as `mlp`; tokens that were read as decimal numbers "
            "become whole ones with `x.astype('int32')`."
        )
