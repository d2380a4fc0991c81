"""Whether the density of a model is a sum over rows, judged by shapes alone.

A minibatch is all that a model sees of its data. One whose density looks at other rows, such as
`x - x.mean(0)`, at how many there are, or at the position of a row among them, would sample
something else silently: it must be found out beforehand.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.interpreters import partial_eval

from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from bayesnn_ppl.inference.kernels.common.row_flow import RowFlow, constant, equal
from bayesnn_ppl.inference.kernels.common.row_operations import MANY, Fact, has_rows, where
from bayesnn_ppl.modeling.temperature import SiteWeights
from bayesnn_ppl.modeling.training_noise import KeyedModel

__all__ = ["check_rows_independent"]


def check_rows_independent(density: MinibatchDensity, x: Any, y: Any, few: int = 0) -> None:
    """Raise ValueError unless each row's log density depends on that row alone.

    The model is traced, not run, on `MANY` rows of the kind of x and y. An operation through
    which the rows' axis disappears, or is sorted or added up along, mixes rows. It is traced once
    more on few rows: a constant that is another one there depends on the number of rows.

    Args:
        density: the model.
        x, y: the data, of which shapes and types count.
        few: how many rows the model is to see at a time; 0: as many as x has.

    Raises:
        ValueError: the operation, and what to do; or a site outside the plate "data" depends on
            the data, a site inside it has not one log density for each row, or the density depends
            on the number of rows, or on the position of a row.
    """
    jaxpr, consts, kept, names, rowwise = _traced(density, x, y, MANY)
    others = None
    for rows in (few or x.shape[0], MANY + 2):
        other, values, _, sites, _ = _traced(density, x, y, rows)
        if set(sites) != set(names):
            raise ValueError(_counts(f"Which sites it has ({sorted({*sites} ^ {*names})})", ""))
        others = _changes(jaxpr, other)
        if others is not None and len(values) == len(consts):
            break
        # A product of several matrices, say, is taken in another order where rows are few. Python
        # may have branched as well: no constants can be compared but those of about as many rows.
    else:
        others, values = set(), consts
    flow = RowFlow(others or set())
    arguments = [Fact(data=number > 0) for number, used in enumerate(kept) if used]
    constants = [constant(a, b) for a, b in zip(consts, values, strict=True)]
    facts = flow.follow(jaxpr, [*constants, *arguments])
    for name, outvar, fact in zip(names, jaxpr.outvars, facts, strict=True):
        if fact.count is not None:
            raise ValueError(_counts(f"The density of its site `{name}`", where(fact.count)))
        if fact.place is not None:
            raise ValueError(_places(name, where(fact.place)))
        if not fact.data:
            continue
        if name not in rowwise:
            problem = 'is outside the plate "data"'
        elif not any(map(has_rows, outvar.aval.shape)):
            problem = "has not one log density for each row of them"
        else:
            continue
        raise ValueError(
            f"The site `{name}` depends on the data but {problem}, so minibatches cannot "
            "represent them. Put it inside the plate, row by row, or compute what it needs of the "
            "data outside the model."
        )


def _traced(density: MinibatchDensity, x: Any, y: Any, rows: int) -> tuple[Any, ...]:
    """The model's terms on so many rows: the steps, constants, arguments used, sites, of rows."""
    # With a key, so that a random transformation of the rows is looked through as well.
    weights = SiteWeights(KeyedModel(density.model, jax.random.key(0)), data=1.0)

    def terms(vector: Any, x: Any, y: Any) -> Any:
        whole = Density(weights, (x, y), {}, density.unravel, density.dimension)
        return whole.terms(vector)

    def of_rows(array: Any) -> Any:
        return jax.ShapeDtypeStruct((rows, *array.shape[1:]), array.dtype)

    vector = jax.ShapeDtypeStruct((density.dimension,), jnp.result_type(float))
    closed, shapes = jax.make_jaxpr(terms, return_shape=True)(vector, of_rows(x), of_rows(y))
    # Without what nothing depends on: Flax makes parameters from an input, which are not used.
    jaxpr, kept = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    # A dictionary's leaves come in the order of its sorted keys.
    return jaxpr, closed.consts, kept, sorted(shapes), weights.rowwise


def _counts(what: str, place: str) -> str:
    return (
        f"The model depends on the number of rows that it is called with. {what} does{place}: with "
        "a few rows at a time, as in minibatches or under `rows_at_once`, it would be another "
        'model. Let `x.shape[0]` be the size of the plate "data" and no more; where a number of '
        "rows is meant, such as that of all the data, make it a constant: `n = len(y)`, outside "
        "the model."
    )


def _places(name: str, place: str) -> str:
    return (
        f"The density of the model's site `{name}` depends on the position of a row among those "
        f"that it is called with{place}: with a few rows at a time, as in minibatches or under "
        "`rows_at_once`, a row has another position. Give what is meant, such as the time, as a "
        "column of `x`."
    )


def _changes(one: Any, other: Any) -> set[int] | None:
    """The ids of constants, and of operations, that differ; None where the steps do."""
    if one is other:
        return set()
    if len(one.eqns) != len(other.eqns):
        return None
    found: set[int] = set()
    for first, second in zip(one.eqns, other.eqns, strict=True):
        if first.primitive is not second.primitive or len(first.invars) != len(second.invars):
            return None
        for a, b in zip(first.invars, second.invars, strict=True):
            if isinstance(a, Literal) != isinstance(b, Literal):
                return None
            if isinstance(a, Literal) and not equal(a.val, b.val):
                found.add(id(a))
        if _value(first) != _value(second):
            found.add(id(first))
        for inside, there in zip(_inner(first), _inner(second), strict=False):
            changes = _changes(inside, there)
            if changes is None:
                return None
            found |= changes
    return found


def _value(equation: Any) -> Any:
    """What an operation knows besides arrays: an exponent, or up to where it counts."""
    name, params = equation.primitive.name, equation.params
    if name == "iota":
        return params["shape"][params["dimension"]]
    return params["y"] if name == "integer_pow" else None


def _inner(equation: Any) -> Iterator[Any]:
    """The functions inside one operation."""
    for parameter in equation.params.values():
        for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield inner
