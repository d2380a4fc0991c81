"""When are two models or kernels the same? A cache key for machines, a description for people."""

import copy
import dataclasses
import dis
import hashlib
import inspect
import sys
import types
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.transforms import Transform
from numpyro.infer.mcmc import MCMCKernel
from numpyro.infer.reparam import Reparam
from numpyro.primitives import Messenger

__all__ = ["StaticValue", "describe", "fresh_kernel", "identity_key"]

# Functions of these are what they are for as long as the process lives.
_LIBRARIES = frozenset(
    {"bayesnn_ppl", "equinox", "flax", "jax", "jaxlib", "numpy", "numpyro", "optax", "scipy"}
    | sys.stdlib_module_names - {"__main__"}
)


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
    """Holds an object that counts by identity, so that its id stays its own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def identity_key(value: Any, _inside: tuple[int, ...] = ()) -> Hashable:
    """A hashable key, equal for values that make the same program when traced.

    Dataclasses (models, priors, likelihoods, Flax Linen modules), distributions, arrays,
    containers and kernels count by their parts. So do functions: code, defaults, and the values
    of the closure and of the globals that the code names, so that a model which reads a global
    is another one after that global has changed. Libraries' functions, classes and modules count
    by identity.
    """
    if id(value) in _inside:
        return ("cycle", len(_inside) - _inside.index(id(value)))

    def key(part: Any) -> Hashable:
        return identity_key(part, (*_inside, id(value)))

    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, bool | int | float | complex | np.generic):
        return (type(value), repr(value))  # 1 == True == 1.0 must not meet, and NaN meets itself
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
        return (array.shape, str(array.dtype), content)
    if isinstance(value, Mapping):
        return (dict, tuple((key(k), key(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return (type(value), tuple(key(item) for item in value))
    if isinstance(value, set | frozenset):
        return (set, frozenset(key(item) for item in value))
    if isinstance(value, MCMCKernel):
        return (type(value), key(vars(fresh_kernel(value))))
    if isinstance(value, dist.Distribution):
        leaves, structure = jax.tree.flatten(value)
        try:
            hash(structure)
        except TypeError:  # that of a transformed distribution holds a dictionary
            return (type(value), key(vars(value)))
        return (structure, tuple(key(leaf) for leaf in leaves))
    if isinstance(value, Transform):
        return (type(value), key({k: v for k, v in vars(value).items() if k != "_inv"}))
    if isinstance(value, partial):
        return (partial, key(value.func), key(value.args), key(value.keywords))
    if isinstance(value, types.MethodType):
        return (types.MethodType, key(value.__func__), key(value.__self__))
    if isinstance(value, types.FunctionType):
        return _ByIdentity(value) if _of_library(value) else _function_key(value, key)
    if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        return _ByIdentity(value)
    if dataclasses.is_dataclass(value):
        # A Linen module's parent is None or the unbound sentinel at the top of a model.
        fields = [f.name for f in dataclasses.fields(value) if f.name != "parent"]
        return (type(value), tuple((f, key(getattr(value, f, None))) for f in fields))
    if (
        type(value).__eq__ is object.__eq__
        and hasattr(value, "__dict__")
        and not _of_library(value)
    ):
        return (type(value), key(vars(value)))
    try:
        hash(value)
    except TypeError:
        return _ByIdentity(value)
    return value


class StaticValue:
    """A model, or any other value, as a static argument of jitted functions, compared by parts."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = identity_key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticValue) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _of_library(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module.split(".")[0] in _LIBRARIES and not _is_closure(value)


def _is_closure(value: Any) -> bool:
    """A library's function that holds values of this call, as `AIES.DEMove()` returns one."""
    return bool(getattr(value, "__closure__", None))


def _function_key(function: types.FunctionType, key: Any) -> Hashable:
    code = function.__code__
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # a name that is not bound yet
            cells.append(None)
    named = {name: function.__globals__[name] for name in _names(code, function.__globals__)}
    return (
        types.FunctionType,
        code,
        key(function.__defaults__),
        key(function.__kwdefaults__),
        key(cells),
        key(named),
    )


def _names(code: types.CodeType, known: Mapping[str, Any]) -> Iterator[str]:
    """The globals that the code, or a function inside it, names."""
    yield from (name for name in code.co_names if name in known)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant, known)


def describe(value: Any, _inside: tuple[int, ...] = ()) -> str:
    """A model, prior, likelihood or network in one line, the same in every process.

    A function is known by its name, a hash of its source, and one of the values that it takes
    from around it: of its closure, and globals that it reads.
    """
    if id(value) in _inside:
        return "itself"

    def described(part: Any) -> str:
        return describe(part, (*_inside, id(value)))

    if isinstance(value, dist.Distribution | Transform):
        parts = {name: getattr(value, name) for name in getattr(value, "arg_constraints", ())}
        parts = parts or _parts_of_wrapper(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Flax adds `parent` and, unless it was given, an empty `name`.
        parts = {
            f.name: getattr(value, f.name)
            for f in dataclasses.fields(value)
            if f.name != "parent" and getattr(value, f.name, None) is not None
        }
    elif isinstance(value, tuple | list):
        return f"({', '.join(map(described, value))})"
    elif isinstance(value, Mapping):
        return f"{{{', '.join(f'{k}: {described(v)}' for k, v in value.items())}}}"
    elif isinstance(value, np.ndarray | jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        if array.size <= 4:
            return str(array.tolist())
        return f"array{array.shape}#{_short_hash(np.ascontiguousarray(array).tobytes())}"
    elif isinstance(value, bool | int | float | str):
        return repr(value)
    elif isinstance(value, types.FunctionType) and not _of_library(value):
        around = {n: described(part) for n, part in _around(value).items()}
        more = f"-{_short_hash(repr(around).encode())}" if around else ""
        return f"{value.__qualname__}#{_short_hash(_source(value))}{more}"
    elif isinstance(value, types.MethodType) and not _of_library(value):
        return f"{described(value.__func__)} of {described(value.__self__)}"
    elif isinstance(value, partial):
        parts = {"func": value.func, "args": value.args, **value.keywords}
    elif isinstance(value, Messenger | Reparam) or _calls_own_code(value):
        # What `functools.update_wrapper` copies is in `fn`.
        parts = {n: p for n, p in getattr(value, "__dict__", {}).items() if n[:2] != "__"}
        if _calls_own_code(value):
            parts["__call__"] = type(value).__call__
    else:
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', type(value).__module__)}.{name}"
    inside = ", ".join(f"{name}={described(part)}" for name, part in parts.items())
    return f"{type(value).__name__.lstrip('_')}({inside})"


def _calls_own_code(value: Any) -> bool:
    """Whether it is an object of a user's class that is called as a function is."""
    kind = type(value)
    return (
        callable(value) and isinstance(kind.__call__, types.FunctionType) and not _of_library(kind)
    )


def _around(function: types.FunctionType) -> dict[str, Any]:
    """Name -> value of what a function takes from its closure and reads of globals.

    The code of modules, classes and libraries is known by the names in the function's source.
    """
    code, known = function.__code__, function.__globals__
    values = {name: known[name] for name in sorted(_read_globals(code)) if name in known}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not bound yet
            values[name] = cell.cell_contents

    def is_named(value: Any) -> bool:
        if isinstance(value, types.ModuleType | type):
            return True
        plain = not isinstance(value, Messenger | dist.Distribution)
        return callable(value) and plain and _of_library(value)

    return {name: value for name, value in values.items() if not is_named(value)}


def _read_globals(code: types.CodeType) -> set[str]:
    """The globals that the code, or a function inside it, reads; attributes are none."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return found.union(*map(_read_globals, inner))


def _parts_of_wrapper(value: Any) -> dict[str, Any]:
    """What an expanded, transformed or mixed distribution, or a transform, is made of."""
    kinds = (dist.Distribution, Transform, np.ndarray, jax.Array, int, float, list, tuple)
    return {
        name.lstrip("_"): part
        for name, part in vars(value).items()
        if isinstance(part, kinds) and name not in ("_validate_args", "_inv")
    }


def _source(function: types.FunctionType) -> bytes:
    try:
        return inspect.getsource(function).encode()
    except OSError:  # typed at a prompt
        return function.__code__.co_code


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
