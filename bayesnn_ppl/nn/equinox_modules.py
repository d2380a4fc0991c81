"""Equinox modules as the networks of a model: seen as Flax modules, with Flax's kernels."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from flax.traverse_util import flatten_dict, unflatten_dict


def builds_equinox(network: Any) -> bool:
    """Whether `network` is no module and needs `key` alone, as `lambda key: Net(8, key=key)`."""
    if "equinox" not in sys.modules or _is_equinox(network) or not callable(network):
        return False
    try:
        arguments = inspect.signature(network).parameters.values()
    except (TypeError, ValueError):  # a callable that does not say what it takes
        return False
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = {a.name for a in arguments if a.default is a.empty and a.kind not in variable}
    return needed <= {"key"} and any(a.name == "key" for a in arguments)


def as_flax(network: Any) -> Any:
    """An Equinox module, or a function of `key` that builds one, as a Flax module.

    Anything else is returned as it is.

    Raises:
        TypeError: a function of `key` builds something else.
        ValueError: the module keeps state besides its parameters, or is built inside a model
            that is being compiled.
    """
    if _is_equinox(network):
        _refuse_state(network)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(network)):
            raise ValueError(
                f"The Equinox module {type(network).__name__} is built inside the model, where its "
                "weights are no numbers while the model is compiled. Build it outside of the "
                "model, or give the function that builds it, `lambda key: Net(8, key=key)`."
            )
        return EquinoxNetwork(_Module(network))
    if not builds_equinox(network):
        return network
    with jax.ensure_compile_time_eval():  # also where a model is traced
        module = network(key=jax.random.key(0))
    if not _is_equinox(module):
        raise TypeError(
            "A function of `key` must build an Equinox module, and this one built "
            f"{type(module).__name__}. One that builds a Flax NNX module takes `rngs`."
        )
    _refuse_state(module)
    return EquinoxNetwork(_Module(module, network))


class EquinoxNetwork(linen.Module):
    """A Flax module that computes what an Equinox module computes at each row.

    Its parameters are the arrays of decimal numbers in the Equinox module, called by their
    paths: `layers.0.bias`. A `weight` of shape (out, in, *window) becomes a `kernel` of shape
    (*window, in, out), as Flax has it, so that priors find its fan-in and its units.

    Attributes:
        equinox: the module, and what builds it with other initial weights.
    """

    equinox: "_Module"

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """The outputs (rows, ...) at inputs (rows, ...)."""
        first = self.equinox.first_values
        parameters = {
            name: self.param(name, lambda key, name=name: first(key)[name])
            for name in self.equinox.own_values
        }
        return jax.vmap(self.equinox.with_parameters(parameters))(x)


class _Parameter(NamedTuple):
    """An array of an Equinox module, as Flax would have it."""

    name: tuple[str, ...]
    shape: tuple[int, ...]  # in Equinox
    axes: tuple[int, ...]  # of Equinox, in Flax's order

    def to_flax(self, value: Any) -> Any:
        """(out, in, *window) -> (*window, in, out), and a bias (out, 1, ...) -> (out,)."""
        alike = self.name[-1] == "bias" and all(size == 1 for size in self.shape[1:])
        return value.ravel() if alike else value.transpose(self.axes)

    def to_equinox(self, value: Any) -> Any:
        turned = tuple(self.shape[axis] for axis in self.axes)
        return value.reshape(turned).transpose(np.argsort(self.axes))


@dataclass(frozen=True, eq=False)
class _Module:
    """An Equinox module, taken apart into parameters by name and all the rest."""

    module: Any
    build: Callable[..., Any] | None = None  # the same module with other initial weights

    @cached_property
    def own_values(self) -> Any:
        """The module's own parameters, nested by name.

        Constants also where a model is traced: by that one sees that no key draws them again.
        """
        with jax.ensure_compile_time_eval():
            return self._named([jnp.asarray(value) for value in _weights(self.module)])

    def first_values(self, key: Any) -> Any:
        """Initial weights, nested by name: new ones, if it is known how to build the module."""
        return self.own_values if self.build is None else self._named(_weights(self.build(key=key)))

    def with_parameters(self, values: Any) -> Any:
        """The module with other parameters, nested by name."""
        flat, leaves = flatten_dict(values), jax.tree.leaves(self.module)
        for place, parameter in self._parameters:
            leaves[place] = parameter.to_equinox(flat[parameter.name])
        return jax.tree.unflatten(jax.tree.structure(self.module), leaves)

    def _named(self, values: list[Any]) -> Any:
        pairs = zip(self._parameters, values, strict=True)
        return unflatten_dict({p.name: p.to_flax(value) for (_, p), value in pairs})

    @cached_property
    def _parameters(self) -> list[tuple[int, _Parameter]]:
        """The parameters, each with its place among the leaves."""
        leaves = jax.tree_util.tree_leaves_with_path(self.module)
        return [
            (place, _parameter(self.module, path, leaf.shape))
            for place, (path, leaf) in enumerate(leaves)
            if _is_weight(leaf)
        ]


def _is_weight(leaf: Any) -> bool:
    from equinox import is_inexact_array

    return is_inexact_array(leaf)


def _weights(module: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(module) if _is_weight(leaf)]


def _is_equinox(network: Any) -> bool:
    equinox = sys.modules.get("equinox")  # without it there is no such module
    return equinox is not None and isinstance(network, equinox.Module)


def _parameter(module: Any, path: tuple[Any, ...], shape: tuple[int, ...]) -> _Parameter:
    from equinox import nn

    owner = module
    for step in path[:-1]:
        owner = getattr(owner, step.name) if hasattr(step, "name") else owner[_key(step)]
    *above, last = (str(_key(step)) for step in path)
    axes = tuple(range(len(shape)))
    if last.startswith("weight"):
        if isinstance(owner, nn.Embedding):
            last = "embedding"
        elif len(shape) < 2 or isinstance(owner, nn.LayerNorm | nn.RMSNorm | nn.GroupNorm):
            last = last.replace("weight", "scale", 1)
        else:
            last, axes = last.replace("weight", "kernel", 1), (*axes[2:], 1, 0)
    return _Parameter((*above, last), shape, axes)


def _key(step: Any) -> Any:
    """What a step of a path is called: of an attribute, a place in a list or a key of a dict."""
    return next(getattr(step, kind) for kind in ("name", "idx", "key") if hasattr(step, kind))


def _refuse_state(module: Any) -> None:
    from equinox.nn import StateIndex

    def is_state(leaf: Any) -> bool:
        return isinstance(leaf, StateIndex)

    if any(map(is_state, jax.tree.leaves(module, is_leaf=is_state))):
        raise ValueError(
            f"The network {type(module).__name__} keeps state besides its parameters "
            "(`equinox.nn.State`). MCMC would leave it frozen at its first value. Batch statistics "
            "also break the independence of the observations: use layer or group normalisation "
            "instead."
        )
