"""New rows: from the data's units to the model's, and whether they are where training was."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import PACKAGE
from bayesnn_ppl.core.arrays import check_array
from bayesnn_ppl.data.common.encoding import new_features
from bayesnn_ppl.data.common.frames import NEW_ROWS, as_pandas
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.data.common.target import StandardisedInputs

_MOST = 1000  # features whose ranges are written down
_SHOWN = 3
_FEWEST_ROWS, _FEWEST, _NEARLY_ALL = 5, 3, 0.95  # rows, columns, share of rows


def input_range(x: np.ndarray) -> dict[str, list[float]] | None:
    """Smallest and largest training value of each feature, or channel; None of token ids."""
    if x.dtype.kind != "f" or x.ndim < 2 or x.shape[-1] > _MOST or x.size == 0:
        return None
    axes = tuple(range(x.ndim - 1))
    return {"low": x.min(axis=axes).tolist(), "high": x.max(axis=axes).tolist()}


def target_range(y: np.ndarray) -> dict[str, list[float]] | None:
    """Smallest and largest training value of each output; None of labels, counts and pixels."""
    return input_range(y[:, None] if y.ndim == 1 else y) if y.ndim < 3 else None


def standardised(x: Any, run: Mapping[str, Any]) -> StandardisedInputs:
    """Inputs in the data's units as the model was given them, float64.

    Args:
        x: (N, ..., features), or a table whose columns are matched by name.
        run: the provenance of the run.
    """
    units = run["standardisation"]
    if x is None:
        raise ValueError("`raw=True` is about inputs, and no `x` is given.")
    if units is None:
        raise ValueError(
            "The run does not know how its inputs were standardised: its targets were not those of "
            "a `Dataset`. Standardise `x` as the training inputs were, and leave `raw` out."
        )
    if _is_standardised(x):
        raise ValueError(
            "`x` is already standardised, as `data.transform(rows)` and "
            "`data.standardisation.apply_x(rows)` return it, and `raw=True` would do so a second "
            "time. Leave `raw` out, or give the rows in the data's units."
        )
    if hasattr(x, "columns"):
        x = _matched(x, _fact(run, "feature_names"), _fact(run, "encoding"))
    x = check_array(x, "x", float64=True)
    return Standardisation.from_dict(units).apply_x(x)


def _is_standardised(values: Any) -> bool:
    known = getattr(values, "standardisation", None)
    return known is not None and not known.is_identity


def _fact(run: Mapping[str, Any], name: str) -> Any:
    """What the run knows of its `Dataset`; None where it knows nothing."""
    return (run.get("dataset") or {}).get(name)


def _matched(table: Any, names: list[str] | None, encoding: Any) -> np.ndarray:
    """The features of a table, in the order of training."""
    if not names:
        raise ValueError(
            "The run does not know the names of its features, and the columns of a table may be "
            "in another order. `data.transform(table)` of the data set that it was trained on "
            "matches them by name; predict at its result, without `raw`."
        )
    frame = as_pandas(table)
    assert frame is not None  # it has columns
    return new_features(frame, names, encoding, replace(NEW_ROWS, table="The table `x`"))


def warn_outside(x: np.ndarray, run: Mapping[str, Any], *, given: Any = None) -> None:
    """Warn where a feature of most rows is further from its training range than that is wide.

    Args:
        x: (N, ..., features), as the model is given them.
        run: the provenance of the run.
        given: the same, as the caller gave them: they may be known to be standardised.
    """
    units, known = _units(run), _is_standardised(given)
    names = _fact(run, "feature_names") or ()
    if len(names) == x.shape[-1]:
        labels = [f"`{name}`" for name in names]
    else:
        labels = [f"feature {j}" for j in range(x.shape[-1])]
    if known:
        advice = "These are the data's units, as in training: look at the units of these columns."
    elif not units.is_identity:
        advice = (
            "If they are in the data's own units, standardise them as the training rows were: "
            "`posterior.predict(rows, raw=True)`, or `data.transform(rows)`."
        )
    else:
        advice = "Prepare them as the training rows were."
    moments = (units.x_mean, units.x_scale) if known else (0.0, 1.0)
    if words := _far_outside(x, run.get("input_range"), labels, "features", *moments):
        _warn(f"{words[0]} rows of `x` lie far outside the training inputs: {words[1]}. {advice}")


def warn_targets_outside(y: Any, run: Mapping[str, Any]) -> None:
    """Warn where most targets are further from the training range than that is wide.

    Args:
        y: (N,) or (N, outputs), as the caller gave them.
        run: the provenance of the run.
    """
    values, units = np.asarray(y), _units(run)
    values = values[:, None] if values.ndim == 1 else values
    known = _is_standardised(y) and np.shape(units.y_mean) in ((), values.shape[1:])
    one, outputs = f"`{_fact(run, 'target_name') or 'y'}`", values.shape[-1]
    labels = [one] if outputs == 1 else [f"output {j} of {one}" for j in range(outputs)]
    if known:
        advice = "These are the data's units, as in training: look at the units of the target."
    elif np.any(units.y_mean) or np.any(units.y_scale != 1.0):
        advice = (
            "Scores need targets in the units of training. If these are in the data's own, give "
            "`data.standardisation.apply_y(y)`; those of `data.test` are standardised already."
        )
    else:
        advice = "Prepare them as the training targets were."
    moments = (units.y_mean, units.y_scale) if known else (0.0, 1.0)
    if words := _far_outside(values, run.get("target_range"), labels, "outputs", *moments):
        _warn(f"{words[0]} rows of `y` lie far outside the training targets: {words[1]}. {advice}")


def _units(run: Mapping[str, Any]) -> Standardisation:
    units = run.get("standardisation")
    return Standardisation.identity(1) if units is None else Standardisation.from_dict(units)


def _far_outside(
    values: np.ndarray,
    known: Mapping[str, Any] | None,
    labels: Sequence[str],
    columns: str,
    centre: Any,
    scale: Any,
) -> tuple[str, str] | None:
    """How many of the rows are far outside, and examples of columns; None if most are not.

    Examples are centre + scale · values.
    """
    if known is None or values.size == 0 or values.shape[-1] != len(known["low"]):
        return None
    low, high = (np.asarray(known[end], np.float64) for end in ("low", "high"))
    width = high - low
    rows = values.reshape(len(values), -1, values.shape[-1])
    far = ((rows < low - width) | (rows > high + width)).any(axis=1)
    # Single rows may well be out of the ordinary; rows in other units are so all together.
    if 2 * np.count_nonzero(far.any(axis=1)) <= len(values):
        # Or not as far, but in most columns: positive numbers that were standardised twice.
        far = ((rows < low) | (rows > high)).any(axis=1)
        everywhere = np.count_nonzero(far.mean(axis=0) > _NEARLY_ALL)
        if len(values) < _FEWEST_ROWS or len(low) < _FEWEST or 2 * everywhere <= len(low):
            return None
    count = np.count_nonzero(far.any(axis=1))
    centre, scale = np.broadcast_to(centre, low.shape), np.broadcast_to(scale, low.shape)
    found = np.flatnonzero(far.any(axis=0))
    examples = []
    for j in found[:_SHOWN].tolist():
        column = rows[..., j]
        worst = column.flat[np.abs(column - (low[j] + high[j]) / 2).argmax()]
        is_, least, most = (_number(centre[j] + scale[j] * v) for v in (worst, low[j], high[j]))
        examples.append(f"{labels[j]} is {is_}, and was {least} to {most} in training")
    more = f", and {len(found) - _SHOWN} {columns} more" if len(found) > _SHOWN else ""
    return f"{count} of {len(values)}", "; ".join(examples) + more


def _number(value: Any) -> str:
    """Four figures, as 14240 and not as 1.424e+04."""
    return f"{float(f'{value:.4g}'):.15g}"


def _warn(sentence: str) -> None:
    warnings.warn(sentence, UserWarning, skip_file_prefixes=(PACKAGE,))
