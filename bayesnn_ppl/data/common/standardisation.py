"""Standardisation: the affine map between the data's units and the network's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.data.common.target import StandardisedInputs

Task = Literal["regression", "classification"]
TASKS: tuple[str, ...] = get_args(Task)
# Of a `standardise=`: "inputs" leaves the targets, such as counts, as they are, and "positive"
# divides them by their geometric mean.
Units = bool | Literal["inputs", "positive"]

_FIELDS = ("x_mean", "x_scale", "y_mean", "y_scale")


@readable
@dataclass(frozen=True, eq=False)
class Standardisation:
    r"""An affine map of inputs and targets to mean 0 and standard deviation 1.

        x' = (x - m_x) / s_x,    y' = (y - m_y) / s_y

    The moments are those of the training rows alone, the usual protocol of the UCI regression
    benchmarks (Hernandez-Lobato and Adams 2015, arXiv:1502.05336). A log density goes back to the
    data's units with the Jacobian: log p(y) = log p(y') - log s_y.

    Attributes:
        x_mean, x_scale: float64, shape (d,): one entry for each entry of the last axis of `x`.
        y_mean, y_scale: float, or float64 of shape (k,) for k regression outputs, in the data's
            units; 0 and 1 for classification.

    Raises:
        ValueError: if shapes disagree, a number is not finite or a scale is not positive.
    """

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: float | np.ndarray
    y_scale: float | np.ndarray

    def __post_init__(self) -> None:
        for name in _FIELDS:
            # A copy that cannot be written: it is hashed, and many arrays share it.
            value = np.array(getattr(self, name), dtype=np.float64)
            value.flags.writeable = False
            if not np.all(np.isfinite(value)):
                raise ValueError(f"`{name}` of a Standardisation must be finite, but is {value}.")
            if name.endswith("scale") and not np.all(value > 0):
                raise ValueError(f"`{name}` of a Standardisation must be positive, but is {value}.")
            if name.startswith("x") and value.ndim != 1:
                raise ValueError(
                    f"`{name}` of a Standardisation has shape {value.shape}, but must have shape "
                    "(d,): one number for each entry of the last axis of x."
                )
            scalar = value.ndim == 0
            object.__setattr__(self, name, float(value) if scalar else value)
        for mean, scale in (_FIELDS[:2], _FIELDS[2:]):
            shapes = np.shape(getattr(self, mean)), np.shape(getattr(self, scale))
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"`{mean}` has shape {shapes[0]}, but `{scale}` has shape {shapes[1]}. "
                    "A Standardisation needs one mean and one scale for each column."
                )

    @classmethod
    def fit(cls, x: Any, y: Any, task: Task, *, standardise: Units = True) -> Self:
        """Moments of the rows given (standard deviations with divisor n).

        A column that is constant gets scale 1, so that it becomes 0 everywhere.

        Args:
            x: shape (n, d), or (n, ..., channels), which gets one mean and scale per channel.
            y: shape (n,), or (n, k) for regression with k outputs.
            task: "regression" or "classification"; labels are left as they are.
            standardise: True, or what else becomes of y in a regression: "inputs" leaves it as it
                is, "positive" divides it by its geometric mean exp(mean log y).

        Raises:
            ValueError: if `task` is unknown, `x` has fewer than two axes or no rows, or y is to be
                positive and is not.
        """
        if task not in TASKS:
            raise ValueError(f"`task` must be one of {', '.join(TASKS)}, but is {task!r}.")
        x = np.asarray(x, dtype=np.float64)
        if x.ndim < 2 or len(x) == 0:
            raise ValueError(f"`x` must have shape (n, d) with n > 0, but has shape {x.shape}.")
        x_mean, x_scale = _moments(x.reshape(-1, x.shape[-1]))
        outputs = np.shape(y)[1:]
        if task == "classification" or standardise == "inputs":
            return cls(x_mean, x_scale, np.zeros(outputs), np.ones(outputs))
        y = np.asarray(y, dtype=np.float64)
        if standardise == "positive":
            return cls(x_mean, x_scale, np.zeros(outputs), _geometric_mean(y))
        return cls(x_mean, x_scale, *_moments(y))

    @classmethod
    def identity(cls, features: int, outputs: int | None = None) -> Self:
        """The map that changes nothing: d = `features`, k = `outputs` (None: y of shape (n,))."""
        y_mean, y_scale = (0.0, 1.0) if outputs is None else (np.zeros(outputs), np.ones(outputs))
        return cls(np.zeros(features), np.ones(features), y_mean, y_scale)

    @property
    def is_identity(self) -> bool:
        """Whether applying it changes nothing."""
        moved = np.any(self.x_mean) or np.any(self.y_mean)
        return not moved and bool(np.all(self.x_scale == 1.0) and np.all(self.y_scale == 1.0))

    def apply_x(self, x: Any) -> Any:
        """Standardised inputs, the shape of `x`.

        JAX arrays stay JAX arrays of their precision; everything else gives float64
        `StandardisedInputs`, which `predict` knows to be standardised.

        Raises:
            ValueError: if the last axis of `x` does not have length d, or `x` has been
                standardised already.
        """
        known = getattr(x, "standardisation", None)
        if known is not None and not known.is_identity:
            raise ValueError(
                "`x` is already standardised. Pass inputs in the data's units, or "
                "`numpy.asarray(x)` to apply the map a second time."
            )
        result = (self._inputs(x) - self.x_mean) / self.x_scale
        return StandardisedInputs(result, self) if isinstance(result, np.ndarray) else result

    def undo_x(self, x: Any) -> Any:
        """Standardised inputs back to the data's units, the shape of `x`; see `apply_x`.

        Raises:
            ValueError: if the last axis of `x` does not have length d.
        """
        return self._inputs(x) * self.x_scale + self.x_mean

    def _inputs(self, x: Any) -> Any:
        x = _numbers(x)
        features = self.x_mean.shape[0]
        if x.ndim == 0 or x.shape[-1] != features:
            raise ValueError(
                f"`x` has shape {x.shape}, but this standardisation was fitted on {features} "
                "features, which must be the last axis. "
                "Pass the same columns in the same order as in training."
            )
        return x

    def apply_y(self, y: Any) -> Any:
        """Targets in the data's units to standardised ones, the shape of `y`.

        Raises:
            ValueError: if `y` is a `StandardisedTarget` that has been standardised already.
        """
        known = getattr(y, "standardisation", None)
        if known is not None and (np.any(known.y_mean) or np.any(known.y_scale != 1.0)):
            raise ValueError(
                "`y` is already standardised, as the target of a `Dataset` is. Pass targets in "
                "the data's units, or `numpy.asarray(y)` to apply the map a second time."
            )
        return (_numbers(y) - self.y_mean) / self.y_scale

    def undo_y(self, y: Any) -> Any:
        """Standardised targets or predictions back to the data's units, the shape of `y`.

        JAX arrays stay JAX arrays of their precision; everything else gives float64, because a
        float32 with a mean far above its scale would lose digits.

        Raises:
            ValueError: if `y` is a `StandardisedTarget` of another standardisation.
        """
        known = getattr(y, "standardisation", None)
        if known is not None and known != self:
            raise ValueError(
                "`y` carries another standardisation than this one. Undo it with its own: "
                "`y.standardisation.undo_y(y)`."
            )
        return _numbers(y) * self.y_scale + self.y_mean

    def to_dict(self) -> dict[str, Any]:
        """Lists and floats that survive JSON exactly."""
        return {name: np.asarray(getattr(self, name)).tolist() for name in _FIELDS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            ValueError: if a key is missing or unknown.
        """
        if set(values) != set(_FIELDS):
            raise ValueError(
                f"A Standardisation is stored under the keys {', '.join(_FIELDS)}, but the "
                f"mapping has the keys {', '.join(map(str, values)) or '(none)'}."
            )
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Standardisation):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(n for name in _FIELDS for n in np.ravel(getattr(self, name)).tolist()))


def _moments(columns: np.ndarray) -> tuple[Any, Any]:
    """Mean and scale over the first axis."""
    # Equality, not a small standard deviation: rounding leaves one of 1e-14 for equal numbers.
    constant = np.min(columns, axis=0) == np.max(columns, axis=0)
    mean = np.where(constant, columns[0], np.mean(columns, axis=0))
    scale = np.std(columns, axis=0)
    return mean, np.where(constant | (scale == 0), 1.0, scale)


def _geometric_mean(y: np.ndarray) -> Any:
    """Over the first axis."""
    if not (y > 0).all():
        row = int(np.argmax(~(y > 0).reshape(len(y), -1).all(axis=1)))
        raise ValueError(
            f'`standardise="positive"` needs targets above 0, but training row {row} has '
            f"{y[row]}. Leave these rows out, or take another `standardise` and likelihood."
        )
    return np.exp(np.mean(np.log(y), axis=0))


def _numbers(values: Any) -> Any:
    import jax

    return values if isinstance(values, jax.Array) else np.asarray(values, dtype=np.float64)
