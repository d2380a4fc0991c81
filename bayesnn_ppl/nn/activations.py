"""Activation functions by name, so that a network's settings are plain values."""

from collections.abc import Callable
from typing import Any

import jax

from bayesnn_ppl.core.arguments import near_misses

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "tanh": jax.numpy.tanh,
    "swish": jax.nn.swish,
    "gelu": jax.nn.gelu,
    "sigmoid": jax.nn.sigmoid,
}


def activation_function(name: str) -> Callable[[Any], Any]:
    """The elementwise function "relu", "tanh", "swish", "gelu" or "sigmoid".

    Raises:
        ValueError: a name that is not one of these.
    """
    if name not in _ACTIVATIONS:
        raise ValueError(f"The activation `{name}` is unknown. {near_misses(name, _ACTIVATIONS)}")
    return _ACTIVATIONS[name]
