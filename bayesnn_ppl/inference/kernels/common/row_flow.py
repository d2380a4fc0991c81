"""How what is known of the rows goes through a traced model, from its data to its density."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from bayesnn_ppl.inference.kernels.common.row_operations import (
    MANY,
    OWN,
    Fact,
    applied,
    has_rows,
    joined,
    mixes,
)

__all__ = ["RowFlow", "constant", "equal"]


def constant(value: Any, at_few: Any) -> Fact:
    """The fact of an array that the model made with NumPy, given what it is for few rows."""
    if value is at_few or not _is_known(value):  # an array of the model's own
        return Fact()
    shape = np.shape(value)
    axes = [axis for axis, size in enumerate(shape) if has_rows(size)]
    if not axes:
        return Fact(count=None if equal(value, at_few) else "constant")
    array = np.moveaxis(np.asarray(value), axes[0], -1)
    if (array == array[..., :1]).all():
        number = array.flat[0].item() if (array == array.flat[0]).all() else None
        return Fact(number=number)
    own = len(axes) == 1 and array.shape[-1] == MANY and (array == np.arange(MANY)).all()
    return Fact(place="constant", number=OWN if own else None)


def equal(one: Any, other: Any) -> bool:
    """Whether two constants are the same, element by element; keys count as such."""
    if one is other or not (_is_known(one) and _is_known(other)):
        return True
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _is_known(value: Any) -> bool:
    """Whether NumPy can have the numbers: they are not traced, nor in other processes, nor keys."""
    if not isinstance(value, jax.Array):
        return True
    traced = isinstance(value, jax.core.Tracer)
    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended)
    return not traced and not is_key and value.is_fully_addressable


def _literal(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


class RowFlow:
    """Carries facts through a traced function.

    Attributes:
        changed: the ids of constants and operations that are others where rows are few.
    """

    def __init__(self, changed: set[int]) -> None:
        self.changed = changed

    def follow(self, jaxpr: Any, given: list[Fact]) -> list[Fact]:
        """The facts of the results, given those of constants and arguments.

        Raises:
            ValueError: rows of the data meet.
        """
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))

        def read(variable: Any, equation: Any = None) -> Fact:
            if not isinstance(variable, Literal):
                return known[variable]
            count = (equation or "constant") if id(variable) in self.changed else None
            return Fact(count=count, number=_literal(variable.val))

        for equation in jaxpr.eqns:
            results = self._results(equation, [read(v, equation) for v in equation.invars])
            known.update(zip(equation.outvars, results, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _results(self, equation: Any, facts: list[Fact]) -> list[Fact]:
        name, params = equation.primitive.name, equation.params
        if name == "scan":
            return self._scanned(equation, facts)
        if name == "while":
            return self._repeated(params, facts)
        if name == "cond":
            ways = [self._called(branch, facts[1:]) for branch in params["branches"]]
            return [joined([facts[0], *way]) for way in zip(*ways, strict=True)]
        for parameter in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
            inner = params.get(parameter)
            if len(getattr(getattr(inner, "jaxpr", inner), "invars", ())) == len(facts) > 0:
                return self._called(inner, facts)
        fact = applied(equation, facts)
        if id(equation) in self.changed and name == "integer_pow":
            fact = replace(fact, count=equation)
        elif id(equation) in self.changed and fact.place is None:  # an iota of n - 1, say
            fact = replace(fact, place=equation)
        return [fact] * len(equation.outvars)

    def _called(self, function: Any, facts: list[Fact]) -> list[Fact]:
        consts = [constant(value, value) for value in getattr(function, "consts", ())]
        return self.follow(getattr(function, "jaxpr", function), [*consts, *facts])

    def _repeated(self, params: Any, facts: list[Fact]) -> list[Fact]:
        """Through a loop whose end is found out on the way, which makes all depend on that.

        Rows may share the end: under `vmap` a loop ends when the last row is done, and each
        row keeps what it had when it was done itself.
        """
        of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
        first, carry = facts[: of_condition + of_body], facts[of_condition + of_body :]
        while True:
            after = self._called(params["body_jaxpr"], [*first[of_condition:], *carry])
            merged = [_either(a, b) for a, b in zip(carry, after, strict=True)]
            if list(map(_known, merged)) == list(map(_known, carry)):
                break
            carry = merged
        try:
            (end,) = self._called(params["cond_jaxpr"], [*first[:of_condition], *carry])
        except ValueError:
            end = Fact()
        return [joined([fact, replace(end, data=False)]) for fact in carry]

    def _scanned(self, equation: Any, facts: list[Fact]) -> list[Fact]:
        """Through a scan: over time each step has all rows, and over rows nothing may be carried.

        What is carried has one shape inside and outside; what is scanned has an axis more outside.
        """
        inner = getattr(equation.params["jaxpr"], "jaxpr", equation.params["jaxpr"])
        same = [_same_shape(a, b) for a, b in zip(equation.outvars, inner.outvars, strict=True)]
        carried = sum(same)
        scanned = sum(
            not _same_shape(a, b) for a, b in zip(equation.invars, inner.invars, strict=True)
        )
        last = len(facts) - scanned
        carries = slice(last - carried, last)
        over_rows = has_rows(equation.params["length"])
        while True:  # until what is carried stays the same
            results = self._called(equation.params["jaxpr"], facts)
            carry = [_either(a, b) for a, b in zip(facts[carries], results[:carried], strict=True)]
            if over_rows:
                # What changes from row to row tells where a row is.
                moves = zip(carry, inner.invars[carries], inner.outvars, strict=False)
                carry = [
                    c if new is old or c.place else replace(c, place=equation, number=None)
                    for c, old, new in moves
                ]
            if list(map(_known, carry)) == list(map(_known, facts[carries])):
                break
            facts = [*facts[: last - carried], *carry, *facts[last:]]
        if over_rows and any(fact.data for fact in carry):
            raise ValueError(mixes(equation))
        return results


def _same_shape(one: Any, other: Any) -> bool:
    return one.aval.shape == other.aval.shape


def _either(one: Fact, other: Fact) -> Fact:
    """What is known of an array that is one or the other."""
    fact = joined([one, other])
    return replace(fact, number=one.number) if one.number == other.number else fact


def _known(fact: Fact) -> tuple[Any, ...]:
    return fact.data, fact.place is None, fact.count is None, fact.number
