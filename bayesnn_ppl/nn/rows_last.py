"""Gradients over many rows of data, with the rows in the last axis of arrays, for speed on a CPU.

XLA's CPU code runs along the last axis of an array. A layer of ten units leaves it ten numbers at
a time, and with the rows there it has all of them at once: the gradient of such a network takes
half the time (`python -m benchmarks rows_last`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax.extend.core import Literal
from jax.interpreters import partial_eval

__all__ = ["with_rows_last"]

_LEAST_ROWS = 64  # with fewer the loops are no longer, and the turned product is the slower one
_ELEMENTWISE = frozenset(
    "abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp "
    "convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt "
    "integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg not or pow round "
    "rsqrt select_n sign sin sinh sqrt square stop_gradient sub tan tanh xor".split()
)
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")


def with_rows_last[**P, R](function: Callable[P, R], rows: int) -> Callable[P, R]:
    """The same function, which keeps arrays of shape (N, h), N > h, as (h, N) on a CPU.

    The function is traced, whatever layers it has, and its operations are done one after another:
    a product X W becomes Wᵀ Xᵀ, operations by element are done on the turned arrays, sums over the
    rows become sums along the last axis, and any other operation gets its arrays turned back.
    Results differ by rounding alone. On other devices, and for few rows, nothing is changed.

    Args:
        function: a gradient. In a function that is differentiated afterwards, activations with a
            derivative of their own, such as `jax.nn.relu`, would turn every array back.
        rows: N.
    """

    def changed(*args: P.args, **kwargs: P.kwargs) -> R:
        if jax.default_backend() != "cpu" or rows < _LEAST_ROWS:
            return function(*args, **kwargs)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args, **kwargs)
        # Without what nothing depends on: Flax makes parameters from an input, which are not used.
        jaxpr, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
        leaves = [
            leaf for leaf, kept in zip(jax.tree.leaves((args, kwargs)), used, strict=True) if kept
        ]
        found = _evaluate(jaxpr, map(_Array, [*closed.consts, *leaves]), rows)
        return jax.tree.unflatten(jax.tree.structure(shapes), [array.value for array in found])

    return changed


class _Array:
    """An array (N, h) as it is, or turned; either is made of the other when it is asked for."""

    def __init__(self, value: Any = None, transpose: Any = None) -> None:
        self._value, self._transpose = value, transpose
        self.is_turned = value is None

    @property
    def value(self) -> Any:
        if self._value is None:
            self._value = self._transpose.T
        return self._value

    @property
    def transpose(self) -> Any:
        """For operations by element, with which XLA fuses the turning."""
        return self._transpose if self.is_turned else self._value.T

    @property
    def transpose_apart(self) -> Any:
        """For products, of which XLA would make those of the unturned array without a barrier."""
        if self._transpose is None:
            self._transpose = jax.lax.optimization_barrier(self._value.T)
        return self._transpose


def _evaluate(jaxpr: Any, given: Iterable[_Array], rows: int) -> list[_Array]:
    """The results of the jaxpr for its constants and arguments."""
    arrays = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))

    def read(variable: Any) -> _Array:
        return _Array(variable.val) if isinstance(variable, Literal) else arrays[variable]

    for equation in jaxpr.eqns:
        results = _applied(equation, [read(v) for v in equation.invars], rows)
        arrays.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _applied(equation: Any, given: list[_Array], rows: int) -> list[_Array]:
    """The results of one operation, turned where it can be done on turned arrays."""
    name, params = equation.primitive.name, equation.params
    shapes = [variable.aval.shape for variable in equation.invars]
    turned = any(array.is_turned for array in given)
    if name == "jit" and (turned or _has_product(params["jaxpr"].jaxpr, rows)):
        inner = params["jaxpr"]
        return _evaluate(inner.jaxpr, [*map(_Array, inner.consts), *given], rows)
    if name == "while" and _has_product(params["body_jaxpr"].jaxpr, rows):
        return _loop(params, [array.value for array in given], rows)
    if name == "dot_general" and _is_product(equation, rows):
        return [_product(equation, given, rows)]
    if name == "transpose" and params["permutation"] == (1, 0):
        if turned:
            return [_Array(given[0].transpose)]
        if _has_rows(equation.outvars[0].aval.shape, rows):
            return [_Array(transpose=given[0].value)]
    # A gradient inside `shard_map` asks of its results that they are not spread over devices.
    turned &= not any(_is_sharded(params.get(key)) for key in ("sharding", "out_sharding"))
    if turned and name in _REDUCTIONS:
        axes = tuple(1 - axis for axis in params["axes"])
        return [_Array(equation.primitive.bind(given[0].transpose, **params | {"axes": axes}))]
    if turned and name in _ELEMENTWISE and all(len(shape) in (0, 2) for shape in shapes):
        inputs = [
            array.transpose if shape else array.value
            for array, shape in zip(given, shapes, strict=True)
        ]
        return [_Array(transpose=equation.primitive.bind(*inputs, **params))]
    results = equation.primitive.bind(
        *(array.value for array in given), **equation.primitive.get_bind_params(params)
    )
    return [
        _Array(each) for each in (results if equation.primitive.multiple_results else [results])
    ]


def _loop(params: Any, given: list[Any], rows: int) -> list[_Array]:
    """The results of a loop whose body is evaluated in this way."""
    ends = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    of_condition, of_body, start = given[: ends[0]], given[ends[0] : ends[1]], given[ends[1] :]

    def run(closed: Any, consts: list[Any], carry: list[Any]) -> list[Any]:
        inputs = map(_Array, [*closed.consts, *consts, *carry])
        return [array.value for array in _evaluate(closed.jaxpr, inputs, rows)]

    results = jax.lax.while_loop(
        lambda carry: run(params["cond_jaxpr"], of_condition, carry)[0],
        lambda carry: run(params["body_jaxpr"], of_body, carry),
        start,
    )
    return list(map(_Array, results))


def _product(equation: Any, given: list[_Array], rows: int) -> _Array:
    """A product of arrays of at most two axes, with each (N, h) turned, the result too."""
    (contracted, _), params = equation.params["dimension_numbers"], dict(equation.params)
    operands, axes = [], []
    for array, variable, axis in zip(given, equation.invars, contracted, strict=True):
        turned = _has_rows(variable.aval.shape, rows)
        operands.append(array.transpose_apart if turned else array.value)
        axes.append(tuple(1 - a for a in axis) if turned else axis)
    turned = _has_rows(equation.outvars[0].aval.shape, rows)
    if turned:  # (A B)ᵀ = Bᵀ Aᵀ
        operands, axes = operands[::-1], axes[::-1]
        if operands[0].ndim == 2 and axes[0] == (0,):  # XLA has faster code for rows by columns
            operands[0], axes[0] = jax.lax.optimization_barrier(operands[0].T), (1,)
        if isinstance(params["precision"], tuple):
            params["precision"] = params["precision"][::-1]
    params |= {"dimension_numbers": (tuple(axes), ((), ())), "out_sharding": None}
    found = equation.primitive.bind(*operands, **params)
    return _Array(transpose=found) if turned else _Array(found)


def _has_rows(shape: Sequence[int], rows: int) -> bool:
    """Whether an array of that shape is (N, h), with fewer columns than rows."""
    return len(shape) == 2 and shape[0] == rows > shape[1]


def _is_product(equation: Any, rows: int) -> bool:
    """Whether it is a matrix product, or one with a vector, of arrays that have the rows."""
    contracted, batch = equation.params["dimension_numbers"]
    return (
        batch == ((), ())
        and all(len(axes) <= 1 for axes in contracted)
        and all(variable.aval.ndim <= 2 for variable in equation.invars)
        and not _is_sharded(equation.params["out_sharding"])
        and any(_has_rows(v.aval.shape, rows) for v in (*equation.invars, *equation.outvars))
    )


def _is_sharded(sharding: Any) -> bool:
    """Whether a result is to be spread over devices."""
    return sharding is not None and any(axis is not None for axis in sharding.spec)


def _has_product(jaxpr: Any, rows: int) -> bool:
    """Whether such a product is in it, or in what it calls."""
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == "dot_general" and _is_product(equation, rows):
            return True
        inner = {"jit": params.get("jaxpr"), "while": params.get("body_jaxpr")}.get(name)
        if inner is not None and _has_product(inner.jaxpr, rows):
            return True
    return False
