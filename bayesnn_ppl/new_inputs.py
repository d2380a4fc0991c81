"""New inputs: from the data's units to the model's, and whether they are where training was."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.arrays import check_array
from bayesnn_ppl.data.standardisation import Standardisation

__all__ = ["input_range", "standardised", "warn_outside"]

_MOST = 1000  # features whose ranges are written down
_SHOWN = 3


def input_range(x: np.ndarray) -> dict[str, list[float]] | None:
    """Smallest and largest training value of each feature, or channel; None of token ids."""
    if x.dtype.kind != "f" or x.ndim < 2 or x.shape[-1] > _MOST or x.size == 0:
        return None
    axes = tuple(range(x.ndim - 1))
    return {"low": x.min(axis=axes).tolist(), "high": x.max(axis=axes).tolist()}


def standardised(x: Any, units: Mapping[str, Any] | None) -> np.ndarray:
    """Inputs in the data's units as the model was given them, float64.

    Args:
        x: (N, ..., features).
        units: `Standardisation.to_dict()` of the training data, None where it is not known.

    Raises:
        ValueError: units are not known, x is None, a table, or no array of finite numbers.
    """
    if x is None:
        raise ValueError("`raw=True` is about inputs, and no `x` is given.")
    if units is None:
        raise ValueError(
            "The run does not know how its inputs were standardised: its targets were not those of "
            "a `Dataset`. Standardise `x` as the training inputs were, and leave `raw` out."
        )
    if hasattr(x, "columns"):
        raise ValueError(
            "The run does not know the names of its features, and the columns of a table may stand "
            "in another order. `data.transform(table)` of the data set that it was trained on "
            "matches them by name; predict at its result, without `raw`."
        )
    x = check_array(x, "x", float64=True)
    return np.asarray(Standardisation.from_dict(units).apply_x(x))


def warn_outside(x: np.ndarray, run: Mapping[str, Any]) -> None:
    """Warn where a feature of most rows is further from its training range than that is wide.

    Args:
        x: (N, ..., features), as the model is given them.
        run: the provenance of the run.
    """
    known, units = run.get("input_range"), run.get("standardisation")
    if known is None or x.size == 0:
        return
    low, high = (np.asarray(known[end], np.float64) for end in ("low", "high"))
    width = high - low
    rows = x.reshape(len(x), -1, x.shape[-1])
    far = ((rows < low - width) | (rows > high + width)).any(axis=1)
    # Single rows may well be out of the ordinary; rows in other units are so all together.
    if 2 * np.count_nonzero(far.any(axis=1)) <= len(x):
        return
    features = np.flatnonzero(far.any(axis=0))
    examples = []
    for j in features[:_SHOWN].tolist():
        column = rows[..., j]
        worst = column.flat[np.abs(column - (low[j] + high[j]) / 2).argmax()]
        examples.append(
            f"feature {j} is {worst:.4g}, and was {low[j]:.4g} to {high[j]:.4g} in training"
        )
    more = f", and {len(features) - _SHOWN} features more" if len(features) > _SHOWN else ""
    units = (
        " If they are in the data's own units, standardise them as the training rows were: "
        "`posterior.predict(rows, raw=True)`, or `data.transform(rows)`."
        if units is not None and not Standardisation.from_dict(units).is_identity
        else " Prepare them as the training rows were."
    )
    warnings.warn(
        f"{int(far.any(axis=1).sum())} of {len(x)} rows of `x` lie far outside the training "
        f"inputs: {'; '.join(examples)}{more}.{units}",
        UserWarning,
        skip_file_prefixes=(str(Path(__file__).parent),),
    )
