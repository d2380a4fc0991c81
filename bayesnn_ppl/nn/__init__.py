"""Flax networks and layers that Flax itself lacks."""

from bayesnn_ppl.nn.activations import activation_function
from bayesnn_ppl.nn.attention import SelfAttention, TransformerBlock
from bayesnn_ppl.nn.convolution import Conv, conv_general_dilated
from bayesnn_ppl.nn.mlp import MLP
from bayesnn_ppl.nn.normalisation import FilterResponseNorm
from bayesnn_ppl.nn.pooling import average_pool, max_pool
from bayesnn_ppl.nn.recurrent import LSTM

__all__ = [
    "LSTM",
    "MLP",
    "Conv",
    "FilterResponseNorm",
    "SelfAttention",
    "TransformerBlock",
    "activation_function",
    "average_pool",
    "conv_general_dilated",
    "max_pool",
]
