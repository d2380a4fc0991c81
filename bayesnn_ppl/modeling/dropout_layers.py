"""Dropout in the layers of a Linen network, from outside: live with a key, off without."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import natural, near_misses
from bayesnn_ppl.nn import Conv

__all__ = ["NETWORK", "layer_called", "live_dropout"]

NETWORK = "network"  # the rates of the network's own dropout layers


def layer_called(args: Any, context: Any) -> str | None:
    """The path of the dense or convolutional layer that is called, or None."""
    from flax import linen

    module = context.module
    if context.method_name != "__call__" or module.is_initializing() or not args:
        return None
    return ".".join(module.path) if type(module) in (linen.Dense, linen.Conv, Conv) else None


@contextmanager
def live_dropout(dropout: Any, key: Any) -> Iterator[None]:
    """Networks called inside have elements dropped, each with its own chance, and scaled up.

    An element a becomes a z/(1 - p) with z = 0 of probability p and else 1.

    Args:
        dropout: None for no dropout at all; p of the inputs of all dense and convolutional layers;
            pairs (layer, p) for those named; or "network", for the network's own `linen.Dropout`
            layers, whatever they say of `deterministic`.
        key: a PRNG key; None switches all of this off, the network's own layers too.

    Raises:
        ValueError: on leaving, with a key: there was no such layer.
    """
    if dropout is None:
        yield
        return
    from flax import linen

    met: list[str] = []

    def rate_of(module: Any, args: Any, context: Any) -> Any:
        """The name of a layer that is called, its rate, and whether it is a dropout layer."""
        if dropout == NETWORK:
            own = isinstance(module, linen.Dropout) and context.method_name == "__call__"
            return (".".join(module.path), module.rate) if own else (None, 0.0)
        name = layer_called(args, context)
        rates = dict(dropout) if isinstance(dropout, tuple) else None
        return name, dropout if rates is None else rates.get(name, 0.0)

    def drop(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        module = context.module
        name, rate = rate_of(module, args, context)
        if name is None:
            return call(*args, **kwargs)
        if dropout == NETWORK:
            inputs = args[0] if args else kwargs["inputs"]
            if key is None or module.is_initializing():
                return inputs
            met.append(name)
            return _dropped(jax.random.fold_in(key, len(met)), inputs, rate, module.broadcast_dims)
        if key is None:
            return call(*args, **kwargs)
        met.append(name)
        dropped = _dropped(jax.random.fold_in(key, len(met)), args[0], rate, ())
        return call(dropped, *args[1:], **kwargs)

    with linen.intercept_methods(drop):
        yield
    if key is not None:
        _check_met(dropout, met)


def _dropped(key: Any, inputs: Any, rate: float, shared: Any) -> Any:
    """a z/(1 - p); along the axes `shared` there is one z."""
    if rate == 0:
        return inputs
    shape = [1 if axis in shared else size for axis, size in enumerate(inputs.shape)]
    kept = jax.random.bernoulli(key, 1 - rate, shape)
    return jnp.where(kept, inputs / (1 - rate), jnp.zeros_like(inputs))


def _check_met(dropout: Any, met: list[str]) -> None:
    if dropout == NETWORK and not met:
        raise ValueError(
            'The likelihood has `dropout="network"`, but the network calls no `linen.Dropout` '
            "layer: give a rate, which drops inputs of its dense and convolutional layers."
        )
    if not met:
        raise ValueError(
            f"The likelihood has `dropout={dropout}`, but the network calls no `linen.Dense`, "
            "`linen.Conv` or `nn.Conv` whose inputs could be dropped: modules of NNX or Equinox "
            "and plain functions are not looked into."
        )
    for name, _ in dropout if isinstance(dropout, tuple) else ():
        if name not in met:
            raise ValueError(
                f"`dropout` names `{name}`, which is not a dense or convolutional layer of the "
                f"network. {near_misses(name, natural(set(met)))}"
            )
