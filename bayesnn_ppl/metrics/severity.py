"""Scores under corruption: how they fall as the inputs get worse.

References:
    Hendrycks and Dietterich (2019), Benchmarking neural network robustness to common corruptions
    and perturbations, arXiv:1903.12261. Ovadia et al. (2019), Can you trust your model's
    uncertainty?, arXiv:1906.02530.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesnn_ppl.core.predictions import exact_targets, far_inputs_expected, mean_log_score
from bayesnn_ppl.metrics.calibration import Variant, expected_calibration_error, require_variant
from bayesnn_ppl.metrics.scores import accuracy, nll_probabilities, rmse

if TYPE_CHECKING:
    from pandas import DataFrame

type Batches = Mapping[tuple[str, int], Any] | Iterable[tuple[tuple[str, int], Any]]


def by_severity(
    posterior: Any, batches: Batches, y: Any, *, variant: Variant = "bnn_hmc"
) -> "DataFrame":
    """Score a posterior on versions of one test set, corrupted in several ways and degrees.

    Args:
        posterior: an object whose `predict(x)` gives a prediction in the data's units.
        batches: (kind, severity) -> inputs, each with the rows of `y` in their order; or pairs
            ((kind, severity), inputs), which may be made one at a time. Severity 0 is by custom
            the clean set.
        y: targets in the training units, leading axis N.
        variant: of the calibration error, as in `expected_calibration_error`. Labels only.

    Returns:
        A table with a row for each batch, in their order. Columns `kind`, `severity`, and for
        labels `accuracy`, `nll` and `ece_<variant>`, for numbers `rmse`, of the targets that are
        neither missing nor censored, and `nll_mixture`, as `evaluate` defines them.

    Raises:
        ValueError: no batches, one that occurs twice, x and y of different lengths, y of another
            shape than the predictions, an unknown variant.
        TypeError: a key is not a name and an integer.
    """
    import pandas as pd

    require_variant(variant)
    if isinstance(batches, Mapping):
        # All at once, so that a bad key does not cost the predictions before it.
        for key in batches:
            _check_key(key)
        batches = batches.items()
    table: dict[tuple[str, int], dict[str, float]] = {}
    for key, x in batches:
        kind, severity = _check_key(key)
        if (kind, severity) in table:
            raise ValueError(f"`batches` holds ({kind!r}, {severity}) twice.")
        if len(x) != len(y):
            raise ValueError(
                f"The batch ({kind!r}, {severity}) has {len(x)} rows and `y` has {len(y)}: every "
                "batch must hold all inputs of the test set in the order of `y`."
            )
        with far_inputs_expected():
            table[kind, severity] = _scores(posterior.predict(x), y, variant)
    if not table:
        raise ValueError("`batches` is empty: there is nothing to score.")
    return pd.DataFrame(
        [{"kind": kind, "severity": severity} | row for (kind, severity), row in table.items()]
    )


def _check_key(key: Any) -> tuple[str, int]:
    match key:
        case (str() as kind, int() | np.integer() as severity):
            return kind, int(severity)
    raise TypeError(
        f"`batches` has the key {key!r}, but a key is the kind of corruption and its severity, "
        "for example ('blur', 3)."
    )


def _scores(prediction: Any, y: Any, variant: Variant) -> dict[str, float]:
    if prediction.task == "classification":
        p = np.asarray(prediction.probabilities)
        return {
            "accuracy": accuracy(p, y),
            "nll": nll_probabilities(p, y),
            f"ece_{variant}": expected_calibration_error(p, y, variant=variant),
        }
    mean = np.asarray(prediction.mean)
    target, exact = exact_targets(prediction, y, mean.shape)
    error = {"rmse": rmse(mean[exact], target)} if exact.any() else {}
    return error | {"nll_mixture": -mean_log_score(prediction, y)}
