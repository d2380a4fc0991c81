"""Targets and new inputs that remember the standardisation of the data set they belong to."""

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np


class Target(np.ndarray):
    """A target array that knows the standardisation of its data set.

    A selection of rows, a copy, a pickle and a cast to a type of the same kind keep
    `standardisation` and `dataset`. Every other operation drops them, because its result is no
    longer in those units: ufuncs, reductions and NumPy functions return a plain array, and a view
    made in any other way has None of both. To JAX it is an array like any other.

    Attributes:
        standardisation: the map between the data's units and the network's, or None.
        dataset: JSON-ready facts of the `Dataset` that it is a part of, by which a run knows what
            it was trained on, or None.
    """

    standardisation: Any  # a `Standardisation`, which makes arrays of these classes
    dataset: Mapping[str, Any] | None

    def __new__(cls, values: Any, standardisation: Any) -> Self:
        """Label `values`, already as the network is given them, with the map that made them."""
        target = np.asarray(values).view(cls)
        target.standardisation = standardisation
        return target

    def __array_finalize__(self, source: Any) -> None:
        # Runs for every view and template: forget by default, so that a new way of making an
        # array can lose the units but never carry wrong ones.
        self.standardisation = None
        self.dataset = None

    def _keep(self, result: np.ndarray) -> Self:
        kept = result.view(type(self))
        kept.standardisation, kept.dataset = self.standardisation, self.dataset
        return kept

    def __getitem__(self, key: Any) -> Any:
        result = _plain(self)[key]
        if not isinstance(result, np.ndarray) or not _selects_rows(key):
            return result
        # A row of a two-output target, or an index with several axes, has another shape.
        return self._keep(result) if result.ndim == self.ndim else result

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        written = options.get("out", ())
        for array in written:
            if isinstance(array, Target):
                array.standardisation = array.dataset = None
        if written:
            options["out"] = tuple(_plain(array) for array in written)
        return getattr(ufunc, method)(*(_plain(array) for array in inputs), **options)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        return _plain(super().__array_function__(function, types, inputs, options))

    def copy(self, order: Any = "C") -> Self:
        """A copy that keeps the units."""
        return self._keep(_plain(self).copy(order))

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Self:
        return self.copy()

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """A cast; floats that become floats, and labels that become integers, keep the units."""
        result = _plain(self).astype(dtype, *args, **options)
        return self._keep(result) if result.dtype.kind == self.dtype.kind else result

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, arguments, state = cast(tuple[Any, ...], super().__reduce__())
        return rebuild, arguments, (self.standardisation, self.dataset, state)

    def __setstate__(self, state: Any) -> None:
        standardisation, dataset, array_state = state
        super().__setstate__(array_state)
        self.standardisation, self.dataset = standardisation, dataset


class StandardisedTarget(Target):
    """Standardised targets of a regression: floats, shape (n,) or (n, k)."""


class Labels(Target):
    """Labels 0..K-1 of a classification: int32, shape (n,), whose inputs may be standardised."""


class StandardisedInputs(Target):
    """Standardised inputs, shape (n, ..., d): what `Standardisation.apply_x` makes of an array."""


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Target) else value


def _selects_rows(key: Any) -> bool:
    """Whether an index touches the first axis alone and adds none."""
    if isinstance(key, tuple):
        return len(key) == 1 and _selects_rows(key[0])
    return key is not None
