"""When are two models or kernels the same? A cache key for machines, a description for people."""

import copy
import dataclasses
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.infer.mcmc import MCMCKernel

__all__ = ["describe", "fresh_kernel", "identity_key"]


def fresh_kernel(kernel: MCMCKernel) -> MCMCKernel:
    """A copy of the kernel that has never run.

    NumPyro's kernels keep the warm-up length and helpers bound to one trace in closures made by
    `init`. Each traced function works on a copy, so that nothing leaks from one into another,
    nor into the caller's kernel.
    """
    try:
        return kernel.wrap_model(lambda model: model)
    except (AttributeError, NotImplementedError, ValueError):
        clone = copy.copy(kernel)
        for name, value in vars(clone).items():
            if isinstance(value, MCMCKernel):
                setattr(clone, name, fresh_kernel(value))
        return clone


class _ByIdentity:
    """Holds an object that has no hash, so that its id stays its own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def identity_key(value: Any) -> Hashable:
    """A hashable key, equal for values that make the same program when traced.

    Dataclasses (programs, priors, likelihoods, Flax Linen modules), distributions, arrays,
    containers and kernels count by their parts; functions and everything else by identity.
    """
    if isinstance(value, MCMCKernel):
        return (type(value), identity_key(vars(fresh_kernel(value))))
    if isinstance(value, dist.Distribution):
        leaves, structure = jax.tree.flatten(value)
        return (structure, tuple(identity_key(leaf) for leaf in leaves))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # A Linen module's parent is None or the unbound sentinel at the top of a program.
        fields = [f.name for f in dataclasses.fields(value) if f.name != "parent"]
        return (type(value), tuple((f, identity_key(getattr(value, f, None))) for f in fields))
    if isinstance(value, Mapping):
        return (dict, tuple((identity_key(k), identity_key(v)) for k, v in value.items()))
    if isinstance(value, list | tuple | set):
        return (type(value), tuple(identity_key(item) for item in value))
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        return (array.shape, str(array.dtype), array.tobytes())
    if isinstance(value, partial):
        return (partial, value.func, identity_key(value.args), identity_key(value.keywords))
    if isinstance(value, float | int | complex):
        return (type(value), value)  # 1 == True == 1.0 must not meet
    try:
        hash(value)
    except TypeError:
        return _ByIdentity(value)
    return value


def describe(value: Any) -> str:
    """A model, prior, likelihood or network in one line, the same in every process."""
    if isinstance(value, dist.Distribution):
        parts = {name: getattr(value, name) for name in value.arg_constraints}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Flax adds `parent` and, unless it was given, an empty `name`.
        parts = {
            f.name: getattr(value, f.name)
            for f in dataclasses.fields(value)
            if f.name != "parent" and getattr(value, f.name, None) is not None
        }
    elif isinstance(value, tuple | list):
        return f"({', '.join(describe(item) for item in value)})"
    elif isinstance(value, np.ndarray | jax.Array):
        return str(np.asarray(value).tolist()) if value.size <= 4 else f"array{value.shape}"
    elif isinstance(value, bool | int | float | str):
        return repr(value)
    else:
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', type(value).__module__)}.{name}"
    inside = ", ".join(f"{name}={describe(part)}" for name, part in parts.items())
    return f"{type(value).__name__.lstrip('_')}({inside})"
