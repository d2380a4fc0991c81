"""Flax NNX modules as the networks of a model: built by a key, fast on a CPU, without noise."""

import inspect
from typing import Any

import jax
from flax import nnx
from jax import lax
from jax.interpreters import partial_eval

from bayesnn_ppl.nn.convolution import conv_general_dilated
from bayesnn_ppl.nn.narrow import narrow_dot_general


def builds_module(network: Any) -> bool:
    """Whether `network` is not a module and makes one, as `lambda rngs: Net(8, rngs=rngs)` does.

    So does the class of a module whose `__init__` needs nothing but `rngs`.
    """
    if isinstance(network, type):
        if not issubclass(network, nnx.Module):
            return False
        _, *arguments = inspect.signature(network.__init__).parameters.values()
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = {a.name for a in arguments if a.default is a.empty and a.kind not in variable}
        return needed <= {"rngs"} and any(a.name == "rngs" for a in arguments)
    if isinstance(network, nnx.Module) or not callable(network):
        return False
    try:
        return "rngs" in inspect.signature(network).parameters
    except (TypeError, ValueError):  # a callable that does not say what it takes
        return False


def with_fast_layers(network: nnx.Module) -> nnx.Module:
    """The module, sharing its arrays, with convolutions and narrow layers as a CPU has them fast.

    Layers that have a convolution or a product of their own keep it.
    """
    definition, state = nnx.split(network)
    copy = nnx.merge(definition, state)
    for _, layer in nnx.iter_graph(copy):
        if type(layer) is nnx.Conv and layer.conv_general_dilated is lax.conv_general_dilated:
            layer.conv_general_dilated = conv_general_dilated
        if type(layer) is nnx.Linear and layer.dot_general is lax.dot_general:
            layer.dot_general = narrow_dot_general
    return copy


def reads_random_keys(network: nnx.Module, x: Any) -> bool:
    """Whether `network(x)` depends on the module's random keys, by tracing alone.

    It does with live dropout. A recurrent layer takes a key for a state that starts at zero, and
    dropout that is off takes none.
    """
    definition, *states = nnx.split(network, nnx.RngState, nnx.Not(nnx.RngState))
    keys, others = states
    count = len(jax.tree.leaves(keys))
    if not count:
        return False

    def run(keys: Any, others: Any, x: Any) -> Any:
        return jax.tree.leaves(nnx.merge(definition, keys, others)(x))

    jaxpr = jax.make_jaxpr(run)(keys, others, x).jaxpr
    _, used = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return any(used[:count])
