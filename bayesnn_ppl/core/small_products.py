"""Batched products of small matrices as sums, where a CPU is faster at these."""

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

__all__ = ["products_as_sums"]

_MOST = 2**17  # multiplications of one product, all members


def products_as_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, in which products Aᵀ B of small matrices in a batch are sums over rows.

    These are the gradients of weights: A (M, B, in) and B (M, B, out) are contracted over the rows
    of a minibatch. XLA calls a kernel for each of the M products, whose start costs more than 10⁴
    multiplications; a sum over rows is one loop for all. What is computed is the same but for the
    order of additions.
    """

    def rewritten(*args: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        leaves = jaxpr_as_fun(_rewritten(closed))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shape), leaves)

    return rewritten


def _rewritten(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with other products, in loops and inner functions too."""
    equations = []
    for equation in closed.jaxpr.eqns:
        if _is_small_gradient(equation):
            operands: list[Any] = [atom.aval for atom in equation.invars]
            shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in operands]
            (call,) = jax.make_jaxpr(jax.jit(_summed))(*shapes).jaxpr.eqns
            equation = equation.replace(primitive=call.primitive, params=call.params)
        inner = {n: _rewritten(v) for n, v in equation.params.items() if type(v) is type(closed)}
        equations.append(equation.replace(params=equation.params | inner) if inner else equation)
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=equations))


def _is_small_gradient(equation: Any) -> bool:
    if equation.primitive.name != "dot_general":
        return False
    left, right = (atom.aval for atom in equation.invars)
    return bool(
        equation.params["dimension_numbers"] == (((1,), (1,)), ((0,), (0,)))
        and left.ndim == right.ndim == 3
        and left.dtype == right.dtype == equation.outvars[0].aval.dtype
        and prod(left.shape) * right.shape[2] <= _MOST
    )


def _summed(left: Any, right: Any) -> Any:
    return jnp.sum(left[..., None] * right[:, :, None, :], 1)
