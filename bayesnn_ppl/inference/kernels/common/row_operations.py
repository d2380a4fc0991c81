"""What each operation of a traced model makes of its rows: do they meet, and are they told apart?

An array here has the rows where the size of an axis is a multiple of `MANY`, a number of rows that
no other axis of a model is likely to have.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["MANY", "OWN", "Fact", "applied", "has_rows", "joined", "mixes"]

# A prime, so that an axis which holds the rows and others together has a size that it divides.
MANY = 10_007
# The number of a row itself, 0, 1, ..., as `numpyro.plate` and `jnp.arange(x.shape[0])` give it.
OWN = "own"
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
_SAME = frozenset("broadcast_in_dim convert_element_type copy reshape squeeze transpose".split())
_COMPARED = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge")}


@dataclass(frozen=True)
class Fact:
    """What is known of one array of a traced model.

    Attributes:
        data: whether it depends on the data.
        place: the operation by which rows are told apart by their position, or None.
        count: the operation by which it depends on the number of rows, or None.
        number: `OWN`; or the one value that all elements have; or None.
        columns: of indices that were put together, the facts of each.
    """

    data: bool = False
    place: Any = None
    count: Any = None
    number: Any = None
    columns: tuple["Fact", ...] = ()


def joined(facts: Sequence[Fact]) -> Fact:
    """Of what is made of all of these."""
    return Fact(
        any(fact.data for fact in facts),
        next((fact.place for fact in facts if fact.place is not None), None),
        next((fact.count for fact in facts if fact.count is not None), None),
    )


def has_rows(size: int) -> bool:
    """Whether an axis of this size has the rows, alone or with others."""
    return size % MANY == 0 and size > 0


def applied(equation: Any, facts: list[Fact]) -> Fact:
    """The fact of the results of an operation that calls no other function.

    Raises:
        ValueError: rows of the data meet.
    """
    name = equation.primitive.name
    if name.startswith(("random_", "threefry")):  # one noise is as good as another
        return Fact(data=any(fact.data for fact in facts))
    if name in _RULES:
        fact = _RULES[name](equation, facts)
    elif name.startswith("scatter"):
        fact = _scatter(equation, facts)
    else:
        fact = joined(facts)
    shapes = [v.aval.shape for v, given in zip(equation.invars, facts, strict=True) if given.data]
    after = [_axes(variable.aval.shape) for variable in equation.outvars]
    if shapes:
        before = max(map(_axes, shapes))
        if before and max(after) != before:
            raise ValueError(mixes(equation))
        return _along(equation, fact)
    summed = name.startswith(("reduce_", "arg")) or name == "dot_general"
    if summed and max(_axes(v.aval.shape) for v in equation.invars) > max(after):
        return replace(fact, count=equation)  # such as the sum of as many ones as there are rows
    return _along(equation, fact)


def mixes(equation: Any) -> str:
    """The message on an operation in which rows of the data meet."""
    return (
        f"The model's density mixes the rows of its data, in an operation "
        f"`{equation.primitive.name}`{where(equation)}: with a few rows at a time, as in "
        "minibatches or under `rows_at_once`, it would be another density. Compute means, scales, "
        "lagged inputs and the like outside the model, and let it treat every row by itself."
    )


def where(equation: Any) -> str:
    """` (line 12 of "model.py")`, where the operation is in code of the user's; else nothing."""
    source = getattr(equation, "source_info", None)
    for frame in getattr(getattr(source, "traceback", None), "frames", ()):
        path, line = frame.file_name, frame.line_num
        if "site-packages" in path or "/bayesnn_ppl/" in path or path.startswith("<frozen"):
            continue
        return f' (line {line} of "{path.rpartition("/")[2]}")'
    return ""


def _axes(shape: Sequence[int]) -> int:
    return sum(map(has_rows, shape))


def _met(equation: Any, data: bool, fact: Fact) -> Fact:
    """Where an operation takes other rows than a row's own: of the data, or of anything else."""
    if data:
        raise ValueError(mixes(equation))
    return replace(fact, place=equation, number=None)


def _along(equation: Any, fact: Fact) -> Fact:
    """The same, unless the operation goes along the rows."""
    name, params = equation.primitive.name, equation.params
    shape = equation.invars[0].aval.shape if equation.invars else ()
    axes: Any = ()
    if name in _ALONG:
        axes = params[_ALONG[name]]
    elif name.startswith("reduce_window"):
        axes = [axis for axis, size in enumerate(params["window_dimensions"]) if size > 1]
    elif name == "conv_general_dilated":
        axes = params["dimension_numbers"].lhs_spec[2:]
    elif name == "pad":
        axes = [axis for axis, padded in enumerate(params["padding_config"]) if any(padded)]
        shape = equation.outvars[0].aval.shape
    elif name == "slice":
        strides = params["strides"] or (1,) * len(shape)
        starts = params["start_indices"]
        axes = [i for i, (s, by) in enumerate(zip(starts, strides, strict=True)) if by == 1 and s]
        axes = [axis for axis in axes if starts[axis] % MANY]
        shape = equation.outvars[0].aval.shape
    axes = (axes,) if isinstance(axes, int) else axes
    if any(axis < len(shape) and has_rows(shape[axis]) for axis in axes):
        return _met(equation, fact.data, fact)
    return fact


def _contracted(equation: Any, facts: list[Fact]) -> Fact:
    """A product summed over the rows; that of all rows with a matrix is a mixture of them."""
    axes, _ = equation.params["dimension_numbers"]
    for fact, variable, own in zip(facts, equation.invars, axes, strict=True):
        if fact.data and any(has_rows(variable.aval.shape[axis]) for axis in own):
            raise ValueError(mixes(equation))
    return joined(facts)


def _iota(equation: Any, facts: list[Fact]) -> Fact:
    shape, axis = equation.params["shape"], equation.params["dimension"]
    if not has_rows(shape[axis]):
        return joined(facts)
    return Fact(place=equation, number=OWN if _axes(shape) == 1 and shape[axis] == MANY else None)


def _same(equation: Any, facts: list[Fact]) -> Fact:
    fact, shape = joined(facts), equation.outvars[0].aval.shape
    fact = replace(fact, number=facts[0].number)
    if shape == equation.invars[0].aval.shape:
        fact = replace(fact, columns=facts[0].columns)
    if fact.number is OWN and (_axes(shape) != 1 or MANY not in shape):
        return replace(fact, number=None)
    return fact


def _compared(equation: Any, facts: list[Fact]) -> Fact:
    """`arange(n) < 0` is False in all rows: so indices from the end are told from others."""
    compare, (one, other) = _COMPARED[equation.primitive.name], facts
    if one.number is OWN and other.number is not None and other.number is not OWN:
        first = bool(compare(0, other.number))
        if first == bool(compare(MANY - 1, other.number)):
            return Fact(number=first)
    return joined(facts)


def _selected(equation: Any, facts: list[Fact]) -> Fact:
    chosen = facts[0].number
    if isinstance(chosen, bool):
        return facts[1 + chosen]
    return joined(facts)


def _limited(equation: Any, facts: list[Fact]) -> Fact:
    """Operations that leave the number of a row what it is."""
    name = equation.primitive.name
    numbers = [fact.number for fact in facts]
    own = next((fact for fact in facts if fact.number is OWN), None)
    if own is None or any(n is None for n in numbers) or numbers.count(OWN) > 1:
        return joined(facts)
    if name == "clamp":
        kept = numbers[1] is OWN and numbers[0] <= 0 and numbers[2] >= MANY - 1
    else:
        other = numbers[1] if numbers[0] is OWN else numbers[0]
        kept = {
            "add": other == 0,
            "sub": other == 0 and numbers[0] is OWN,
            "mul": other == 1,
            "max": other <= 0,
            "min": other >= MANY - 1,
        }[name]
    return own if kept else joined(facts)


def _concatenated(equation: Any, facts: list[Fact]) -> Fact:
    axis, shape = equation.params["dimension"], equation.outvars[0].aval.shape
    sizes = [variable.aval.shape[axis] for variable in equation.invars]
    fact = joined(facts)
    if has_rows(shape[axis]) and not all(map(has_rows, sizes)):
        return _met(equation, fact.data, fact)
    if axis == len(shape) - 1:
        pieces = zip(facts, sizes, strict=True)
        columns = [c for f, size in pieces for c in (f.columns or (f,) * size)]
        fact = replace(fact, columns=tuple(columns) if len(columns) == shape[axis] else ())
    return fact


def _gather(equation: Any, facts: list[Fact]) -> Fact:
    """Of a table by the values of rows: fine. Of rows by anything but their own number: not."""
    operand, indices = facts
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    mapped = list(map(int, numbers.start_index_map))
    columns = dict(zip(mapped, indices.columns or (indices,) * len(mapped), strict=True))
    strays = False
    for axis, size in enumerate(equation.invars[0].aval.shape):
        if not has_rows(size) or axis in numbers.operand_batching_dims:
            continue
        own = size == MANY and axis in columns and columns[axis].number is OWN
        if own or sizes[axis] == size:  # else as a whole, from 0 on whatever the index
            columns.pop(axis, None)
        else:
            strays = True
    fact = joined([operand, *columns.values()])
    return _met(equation, True, fact) if strays and operand.data else fact


def _scatter(equation: Any, facts: list[Fact]) -> Fact:
    operand, indices, updates = facts
    shape, numbers = equation.invars[0].aval.shape, equation.params["dimension_numbers"]
    mapped = list(map(int, numbers.scatter_dims_to_operand_dims))
    columns = dict(zip(mapped, indices.columns or (indices,) * len(mapped), strict=True))
    outside = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    windows = [axis for axis in range(len(shape)) if axis not in outside]
    given = equation.invars[2].aval.shape
    sizes = {
        axis: given[int(place)]
        for axis, place in zip(windows, numbers.update_window_dims, strict=True)
    }
    strays = False
    for axis, size in enumerate(shape):
        if not has_rows(size) or axis in numbers.operand_batching_dims:
            continue
        own = size == MANY and axis in columns and columns[axis].number is OWN
        if own or sizes.get(axis) == size:
            columns.pop(axis, None)
        else:
            strays = True
    fact = joined([operand, updates, *columns.values()])
    return _met(equation, updates.data, fact) if strays else fact


def _dynamic(equation: Any, facts: list[Fact]) -> Fact:
    """Slices that begin where another array says, read or written."""
    reads = equation.primitive.name == "dynamic_slice"
    taken, starts = (facts[:1], facts[1:]) if reads else (facts[:2], facts[2:])
    shape = equation.invars[0].aval.shape
    sizes = equation.params["slice_sizes"] if reads else equation.invars[1].aval.shape
    whole = [has_rows(size) and sizes[axis] == size for axis, size in enumerate(shape)]
    fact = joined([*taken, *(f for f, is_all in zip(starts, whole, strict=False) if not is_all)])
    others = any(has_rows(size) and not is_all for size, is_all in zip(shape, whole, strict=True))
    if others and (facts[0].data or not reads):
        return _met(equation, taken[-1].data, fact)
    return fact


_RULES: dict[str, Callable[[Any, list[Fact]], Fact]] = {
    "iota": _iota,
    "dot_general": _contracted,
    "select_n": _selected,
    "concatenate": _concatenated,
    "gather": _gather,
    "dynamic_slice": _dynamic,
    "dynamic_update_slice": _dynamic,
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_COMPARED, _compared),
    **dict.fromkeys(("add", "sub", "mul", "max", "min", "clamp"), _limited),
}
