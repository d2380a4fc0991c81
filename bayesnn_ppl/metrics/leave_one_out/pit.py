"""Where each training row lies in its prediction by all the others: LOO-PIT.

References:
    Gelfand, Dey and Chang (1992), Model determination using predictive distributions, in Bayesian
    Statistics 4; Gelman et al. (2013), Bayesian Data Analysis, third edition, section 6.3.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.metrics.leave_one_out.pareto_smoothed import loo_weights


def loo_pit(posterior: Any, x: Any = None, y: Any = None, *, seed: int = 0) -> NDArray[np.float64]:
    r"""p(ỹ_i ≤ y_i | all other rows): uniform on (0, 1) if predictions are calibrated.

        PIT_i = Σ_s w_s ([ỹ_is < y_i] + u_i [ỹ_is = y_i]),    w_s ∝ p(y_i|θ_s)^{-1/T}, smoothed,

    with one predictive sample ỹ_is of each draw, and u_i uniform, which makes the values of counts
    uniform too. T is the temperature of the draws, as in `loo`. Too many values near 0 and 1: the
    predictions are too narrow; too many in the middle: too wide.

    Args:
        posterior, x, y: as for `loo`.
        seed: of the predictive samples, and of the u_i.

    Returns:
        (N, ...), the shape of y. Where k̂ of a row is bad its value is, too. NaN where y is masked
        or censored; the others are not uniform then, if it is the large values that are censored.

    Raises:
        ValueError: y are labels, which have no order; or what `loo` raises.
    """
    weights = loo_weights(posterior, x, y)
    tree = posterior.with_groups("posterior_predictive", "observed_data", x=x, y=y, seed=seed).tree
    group = tree["posterior_predictive"]
    if group.attrs.get("labels"):
        raise ValueError(
            "Labels have no order, and a probability integral transform needs one. Look at "
            "`reliability` and `loo` of a classification."
        )
    sampled, observed = group["y"].values, tree["observed_data"]["y"].values
    exact = _exact(posterior, x, y, len(observed))
    if observed.ndim > sampled.ndim - 2:
        observed = observed[..., 0]  # of an interval, whose ends are one where it is exact
    w = np.exp(weights["log_weights"].values)
    w = w.reshape(*w.shape, *[1] * (observed.ndim - 1))
    below = (w * (sampled < observed)).sum((0, 1))
    tied = (w * (sampled == observed)).sum((0, 1))
    uniform = np.random.default_rng(seed).uniform(size=observed.shape)
    return np.where(exact, np.clip(below + uniform * tied, 0.0, 1.0), np.nan)


def _exact(posterior: Any, x: Any, y: Any, rows: int) -> Any:
    """Which elements of the training targets are neither masked nor censored, as far as known."""
    data = getattr(posterior, "data", None) if x is None else (x, y)
    if data is not None and posterior.model is not None and posterior.has_weights:
        return posterior.predict(data[0]).exact(data[1])
    probe = posterior.probe  # groups that were made before may be all that there is
    if probe is None or probe[1] is None or len(probe[0]) != rows:
        return True
    return posterior.predict().exact(probe[1])
