"""What leave-one-out asks of a run, and the log likelihood that its weights are made of."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arrays import check_array, check_targets, has_hash

GROUP = "log_likelihood"
# A tail is a fifth of so few draws, and the Pareto fit needs five in it.
_FEWEST_DRAWS = 25


def training_log_likelihood(
    posterior: Any, x: Any = None, y: Any = None
) -> tuple[NDArray[Any], float]:
    """Untempered log p(y_i|θ_s) of the training rows, (chain, draw, N), and T of the draws.

    Without x and y: of the posterior's group "log_likelihood", its own training data, or the
    probe inputs of the run where these are the training data.
    """
    run = posterior.provenance
    refuse_unweightable(run)
    temperature = likelihood_temperature(run, posterior.statistics)
    if x is None and y is None:
        children = posterior.tree.children
        if GROUP in children and not posterior.tree[GROUP].attrs.get("tempered"):
            kept = posterior.tree[GROUP]["y"].values
            _require_draws(kept.shape[0] * kept.shape[1])
            return kept, temperature
        data = getattr(posterior, "data", None)
        if data is not None and posterior.model is not None and posterior.has_weights:
            x, y = data
    group = "predictions" if x is None and y is None else "posterior"
    if group in posterior.tree.children:
        _require_draws(int(np.prod([posterior.tree[group].sizes[d] for d in ("chain", "draw")])))
    require_training_data(posterior, x, y)
    return np.asarray(posterior.log_likelihood(x, y)), temperature


def refuse_unweightable(run: Mapping[str, Any]) -> None:
    """Raise ValueError where weights 1/p(y|θ) do not turn the draws into those without a row."""
    instead = " Use `k_fold`, which trains again without each fold."
    if run.get("approximation"):
        raise ValueError(
            f"The draws are of an approximation, {run.get('kernel')}, and not of the posterior: "
            "weights 1/p(y|θ) would not turn them into those without a row." + instead
        )
    if chosen := run.get("selection"):
        raise ValueError(
            f"These {run['draws']} draws were chosen from {chosen['of']}, and weights 1/p(y|θ) "
            "would not turn them into those without a row. Use the posterior that they were "
            "chosen from."
        )
    if run.get("local"):
        raise ValueError(
            f"The model has latent sites of single rows, {run['local']}: p(y|θ) of a "
            "row holds its own latent value, which the row itself has informed, so weights "
            "1/p(y|θ) leave out too little. Integrate these sites out in the model."
        )
    if run.get("weighted"):
        raise ValueError(
            "The rows of the site `y` are weighted (`numpyro.handlers.scale`): the draws follow "
            "other powers of p(y|θ) than 1, which the weights 1/p(y|θ) would not take back."
            + instead
        )
    if terms := run.get("row_terms"):
        raise ValueError(
            f"A row's density has more than the site `y`: {terms}. Without a row these would be "
            "gone too, and weights 1/p(y|θ) would leave them in." + instead
        )
    if " of " in (observed := str(run.get("observed", ""))):
        raise ValueError(
            f"The site `y` is a pseudo-likelihood, {observed}: the draws follow a density that the "
            "scores do not know, and weights 1/p(y|θ) would take back another one." + instead
        )


def likelihood_temperature(run: Mapping[str, Any], statistics: Mapping[str, Any]) -> float:
    """T of the likelihood in the draws' density, both temperatures together."""
    kernel = run.get("kernel_settings", {})
    whole = float(run.get("posterior_temperature", 1.0))
    recorded = statistics.get("temperature")
    if kernel.get("temperature", 1.0) != 1.0 and recorded is not None:  # of its own, or a schedule
        low, high = float(np.min(recorded)), float(np.max(recorded))
        if not math.isclose(low, high, rel_tol=1e-4):
            raise ValueError(
                f"The temperature went from {low:g} to {high:g} over the kept draws, which are of "
                "no one posterior. Let the schedule end in the warm-up, or use `k_fold`."
            )
        whole = high
    noise = kernel.get("noise", 1.0)  # words, of a schedule
    if whole == 0 or (isinstance(noise, int | float) and noise != 1):
        raise ValueError(
            f"{run.get('kernel')} ran at temperature 0 or with other noise than a sampler's, as an "
            "optimiser: its draws are of no posterior, and cannot be weighted. Use `k_fold`."
        )
    return whole * float(run.get("likelihood_temperature", 1.0))


def _require_draws(draws: int) -> None:
    if draws < _FEWEST_DRAWS:
        raise ValueError(
            f"The posterior has {draws} draws, and the tail of the importance weights needs "
            f"{_FEWEST_DRAWS} at least, thousands to be of use. Draw more, or use `k_fold`."
        )


def require_training_data(posterior: Any, x: Any, y: Any) -> None:
    """Raise ValueError unless x and y, or else the probe inputs, are what the run learned from."""
    run = posterior.provenance
    given = "`x` and `y` are"
    if x is None and y is None:
        if posterior.probe is None or posterior.probe[1] is None:
            raise ValueError(
                "Give the training data, `loo(posterior, x, y)`: the run kept no function values "
                "with targets."
            )
        (x, y), given = posterior.probe, "the probe inputs of the run are"
    elif x is None or y is None:
        raise ValueError("Give `x` and `y` both, or neither for the probe inputs of the run.")
    float64 = run.get("precision") == "float64"
    x, y = check_array(x, "x", float64=float64), check_targets(y, "y", float64=float64)
    known = run.get("data_sha256")
    if "streamed" in run:
        other = len(x) != run.get("rows")
    else:
        other = known is not None and not has_hash(x, y, known)
    if other:
        raise ValueError(
            f"{given[:1].upper()}{given[1:]} not the data of the run ({len(x)} rows against "
            f"{run.get('rows')}): only what was learned from can be left out. Pass what `sample` "
            "was given, prepared the same way; for rows that were held out use `evaluate`."
        )
