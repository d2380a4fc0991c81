"""The steps of traced functions, with those of functions inside them."""

from collections.abc import Iterator
from typing import Any

__all__ = ["equations", "result_bytes"]


def equations(jaxpr: Any) -> Iterator[Any]:
    """All steps of a traced function, those of functions inside it included."""
    for equation in jaxpr.eqns:
        yield equation
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                inner = getattr(inner, "jaxpr", inner)  # closed or open
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


def result_bytes(jaxpr: Any) -> int:
    """What all intermediate values of a function take together: a bound on its memory."""
    return sum(
        variable.aval.size * variable.aval.dtype.itemsize
        for equation in equations(jaxpr)
        for variable in equation.outvars
        if hasattr(variable.aval, "size")
    )
