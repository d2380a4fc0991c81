"""Can the model reach the targets at all? Units that were forgotten look like convergence."""

import warnings
from typing import Any

import jax
import numpy as np
from numpyro import handlers

from bayesnn_ppl.core.arguments import PACKAGE
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.modeling.training_noise import clean

__all__ = ["warn_beyond_prior"]

_USUAL = 5.0  # of standardised targets the mean and the spread are below it
_DRAWS, _ROWS = 100, 20
_SHARE, _FEWEST = 0.98, 0.25


def warn_beyond_prior(
    model: Any, x: np.ndarray, y: np.ndarray, summary: ModelSummary, *, float64: bool
) -> None:
    """Warn where three targets in four lie outside the central 98 % of the prior predictive.

    Chains of such a run agree, on a posterior that predicts nothing. Only targets that are plainly
    not standardised are looked at, so that other runs do not pay for the draws.

    Args:
        model: the NumPyro model.
        x, y: training rows, as the model is given them.
        summary: of the model.
        float64: whether it runs in double precision.

    Warns:
        UserWarning: with the figures, and what to do.
    """
    centre, spread = float(np.mean(y)), float(np.std(y))
    if summary.discrete or (abs(centre) < _USUAL and spread < _USUAL):
        return
    rows = x[np.unique(np.linspace(0, len(x) - 1, _ROWS).astype(int))]

    def one(key: Any) -> Any:
        return handlers.trace(handlers.seed(clean(model), key)).get_trace(rows)["y"]["value"]

    try:
        with arithmetic(float64=float64):
            drawn = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), _DRAWS)))
    except NotImplementedError:  # of a likelihood that has a density alone
        return
    low, high = np.nanquantile(drawn, [(1 - _SHARE) / 2, (1 + _SHARE) / 2])
    inside = float(np.mean((low <= y) & (y <= high)))
    if inside >= _FEWEST:
        return
    warnings.warn(
        f"The model hardly reaches the targets: {100 * inside:.0f} % of `y` (mean {centre:.4g}, "
        f"standard deviation {spread:.4g}) lie in the central {100 * _SHARE:.0f} % of what its "
        f"prior predicts, {low:.4g} to {high:.4g}. Chains may agree on a posterior that predicts "
        "nothing. If the targets are in the data's own units, `bnn.data.from_arrays(x, y)` "
        "standardises them, and predictions come back in these units; if not, widen the prior.",
        UserWarning,
        skip_file_prefixes=(PACKAGE,),
    )
