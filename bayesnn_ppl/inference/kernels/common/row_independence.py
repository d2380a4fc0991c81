"""Whether the density of a model is a sum over rows, judged by shapes alone.

A minibatch is all that a model sees of its data. One whose density looks at other rows, such as
`x - x.mean(0)`, would sample something else silently: it must be found out beforehand.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.interpreters import partial_eval

from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from bayesnn_ppl.modeling.temperature import SiteWeights
from bayesnn_ppl.modeling.training_noise import KeyedModel

__all__ = ["check_rows_independent"]

# As many rows as no other axis of a model is likely to have: a prime, so that an axis which
# holds the rows and others together has a size that it divides.
_ROWS = 10_007
# Operations that keep the rows' axis and mix along it, and the parameter that names their axis.
_ALONG = {
    "sort": "dimension",
    "cumsum": "axis",
    "cumprod": "axis",
    "cummax": "axis",
    "cummin": "axis",
    "cumlogsumexp": "axis",
    "rev": "dimensions",
}


def check_rows_independent(density: MinibatchDensity, x: Any, y: Any) -> None:
    """Raise ValueError unless each row's log density depends on no other row.

    The model is traced, not run, on `_ROWS` rows of the kind of x and y. An operation through
    which the rows' axis disappears, or is sorted or added up along, mixes rows.

    Raises:
        ValueError: the operation, and what to do; or a site outside the plate "data" depends on
            the data, or a site inside it has not one log density for each row.
    """
    # With a key, so that a random transformation of the rows is looked through as well.
    weights = SiteWeights(KeyedModel(density.model, jax.random.key(0)), data=1.0)

    def terms(vector: Any, x: Any, y: Any) -> Any:
        whole = Density(weights, (x, y), {}, density.unravel, density.dimension)
        return whole.terms(vector)

    def many(array: Any) -> Any:
        return jax.ShapeDtypeStruct((_ROWS, *array.shape[1:]), array.dtype)

    vector = jax.ShapeDtypeStruct((density.dimension,), jnp.result_type(float))
    closed, shapes = jax.make_jaxpr(terms, return_shape=True)(vector, many(x), many(y))
    # Without what nothing depends on: Flax makes parameters from an input, which are not used.
    jaxpr, kept = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    numbers = [number for number, used in enumerate(kept) if used]
    depends = _follow(jaxpr, [number > 0 for number in numbers])
    # A dictionary's leaves come in the order of its sorted keys.
    for name, outvar, dependent in zip(sorted(shapes), jaxpr.outvars, depends, strict=True):
        if not dependent:
            continue
        if name not in weights.rowwise:
            problem = 'is outside the plate "data"'
        elif _row_axes(outvar.aval) == 0:
            problem = "has not one log density for each row of them"
        else:
            continue
        raise ValueError(
            f"The site `{name}` depends on the data but {problem}, so minibatches cannot "
            "represent them. Put it inside the plate, row by row, or compute what it needs of the "
            "data outside the model."
        )


def _row_axes(aval: Any) -> int:
    return sum(size % _ROWS == 0 and size > 0 for size in getattr(aval, "shape", ()))


def _follow(jaxpr: Any, arguments: list[bool]) -> list[bool]:
    """Which results depend on the data, given which arguments do; ValueError where rows meet."""
    dependent = {v for v, depends in zip(jaxpr.invars, arguments, strict=True) if depends}

    def depends(variable: Any) -> bool:
        return not isinstance(variable, Literal) and variable in dependent

    for equation in jaxpr.eqns:
        inputs = [depends(variable) for variable in equation.invars]
        if not any(inputs):
            continue
        inner = _called(equation)
        if equation.primitive.name == "scan":
            results = _scanned(equation, inputs)
        elif inner is not None:
            results = _follow(inner, inputs)
        else:
            _look(
                equation,
                [v for v, is_input in zip(equation.invars, inputs, strict=True) if is_input],
            )
            results = [True] * len(equation.outvars)
        dependent |= {v for v, result in zip(equation.outvars, results, strict=True) if result}
    return [depends(variable) for variable in jaxpr.outvars]


def _called(equation: Any) -> Any:
    """The jaxpr of a call that takes the equation's arguments and gives its results, or None."""
    for parameter in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(parameter)
        inner = getattr(inner, "jaxpr", inner)
        if inner is not None and len(inner.invars) == len(equation.invars):
            return inner
    return None


def _scanned(equation: Any, inputs: list[bool]) -> list[bool]:
    """Through a scan: over time each step has all rows, and over rows nothing may be carried.

    What is carried has one shape inside and outside; what is scanned has an axis more outside.
    """
    inner = getattr(equation.params["jaxpr"], "jaxpr", equation.params["jaxpr"])
    carried = sum(_same_shape(a, b) for a, b in zip(equation.outvars, inner.outvars, strict=True))
    scanned = sum(not _same_shape(a, b) for a, b in zip(equation.invars, inner.invars, strict=True))
    last = len(inputs) - scanned
    carries = slice(last - carried, last)
    while True:  # until what is carried stays the same
        results = _follow(inner, inputs)
        carry = [a or b for a, b in zip(inputs[carries], results[:carried], strict=True)]
        if carry == inputs[carries]:
            break
        inputs = [*inputs[: last - carried], *carry, *inputs[last:]]
    over_rows = any(
        is_input and variable.aval.shape[0] % _ROWS == 0
        for variable, is_input in zip(equation.invars[last:], inputs[last:], strict=True)
    )
    if over_rows and any(carry):
        raise ValueError(_mixes("scan"))
    return results


def _same_shape(one: Any, other: Any) -> bool:
    return one.aval.shape == other.aval.shape


def _look(equation: Any, inputs: list[Any]) -> None:
    name = equation.primitive.name
    before = max(_row_axes(v.aval) for v in inputs)
    after = [_row_axes(v.aval) for v in equation.outvars]
    axes = equation.params.get(_ALONG.get(name, ""), ())
    along = any(
        axis < v.aval.ndim and v.aval.shape[axis] % _ROWS == 0
        for v in inputs
        for axis in ((axes,) if isinstance(axes, int) else axes)
    )
    if along or (before and (max(after) != before)):
        raise ValueError(_mixes(name))


def _mixes(operation: str) -> str:
    return (
        f"The model's density mixes the rows of its data, in an operation `{operation}`: with "
        "minibatches it would be another density. Compute means, scales and the like outside the "
        "model, and let it treat every row by itself."
    )
