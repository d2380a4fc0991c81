"""Leave-one-out cross-validation by Pareto-smoothed importance sampling, at any temperature.

References:
    Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27(5), arXiv:1507.04544.
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, Journal of
    Machine Learning Research 25(72), arXiv:1507.02646.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.metrics.leave_one_out.checks import training_log_likelihood
from bayesnn_ppl.metrics.leave_one_out.importance_weights import (
    log_weights,
    relative_efficiency,
    weighted_score,
)
from bayesnn_ppl.metrics.leave_one_out.left_out_rows import CrossValidation

if TYPE_CHECKING:
    import xarray as xr

_MOST_NAMED = 8
# Above it the variance of the weights is infinite, and errors have heavy tails.
_LARGE_ERRORS = 0.5


@readable
@dataclass(frozen=True, eq=False)
class LeaveOneOut(CrossValidation):
    """What `loo` returns: log scores of each row given all others, and how far to trust them.

    Attributes:
        pareto_k: k̂ of each row, (N,): the shape of the tail of its importance weights; NaN for
            rows that were refitted.
        threshold: k̂ above which a row's estimate cannot be used, min(1 - 1/log10(S), 0.7).
        in_sample: log (1/S) Σ_s p(y_i | θ_s), the scores with row i learned from, (N,).
        monte_carlo_error: standard error of each log score as draws vary, (N,), with what the
            largest weights of other draws would add. Of no use where k̂ is above the threshold, and
            NaN for rows that were refitted.
        tail_bias: how much too high each score is by the fitted tail of its weights, of which the
            draws at hand hold only a part, (N,); not subtracted. NaN for rows that were refitted.
        relative_efficiency: bulk effective sample size of log p(y_i | θ) over S, (N,).
        temperature: T of the likelihood in the draws' density, p(y|θ)^{1/T}.
        draws: S.
        refitted: the rows whose score is that of an exact refit without them.
    """

    pareto_k: NDArray[np.float64]
    threshold: float
    in_sample: NDArray[np.float64]
    monte_carlo_error: NDArray[np.float64]
    tail_bias: NDArray[np.float64]
    relative_efficiency: NDArray[np.float64]
    temperature: float
    draws: int
    refitted: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))

    @property
    def bad_rows(self) -> NDArray[np.intp]:
        """The rows whose k̂ is above the threshold."""
        return np.flatnonzero(self.pareto_k > self.threshold)

    @property
    def p_loo(self) -> float:
        """Σ in-sample score - score: what learning from a row adds to its own score.

        At T = 1 and in a model that fits, the effective number of parameters.
        """
        return float((self.in_sample - self.log_scores).sum())

    @property
    def uncertain_rows(self) -> NDArray[np.intp]:
        """The rows whose k̂ is above 1/2 and not above the threshold: their errors are large."""
        return np.flatnonzero((self.pareto_k > _LARGE_ERRORS) & (self.pareto_k <= self.threshold))

    @property
    def bias(self) -> float:
        """Nats by which `elpd` is too high by the fitted tails, over rows below the threshold.

        Negative where it is too low. Errors of rows that share their draws add up to this;
        `standard_error` holds none of it.
        """
        return float(np.nansum(np.where(self.pareto_k > self.threshold, 0.0, self.tail_bias)))

    def _figures(self) -> dict[str, Any]:
        bad = f"{len(self.bad_rows)} of {self.rows}"
        return super()._figures() | {"p_loo": self.p_loo, "rows_of_bad_k": bad}

    def _more(self) -> list[str]:
        bad = f"{len(self.bad_rows)} of {self.rows}"
        side = "high" if self.bias >= 0 else "low"
        return [
            f"p_loo {self.p_loo:>12.4f}",
            f"bias  {self.bias:>12.4f}  nats, about: elpd is too {side}",
            f"bad   {bad:>12}  rows with k̂ > {self.threshold:.2f}",
        ]


def loo(posterior: Any, x: Any = None, y: Any = None) -> LeaveOneOut:
    r"""Log scores of each training row given all others, from the draws given all.

    Draws of p(θ) Π_j p(y_j|θ)^{1/T} become draws without row i by the weights p(y_i|θ)^{-1/T}:
    the procedure that is judged, temperature and all, is run without that row. What is scored is
    the prediction, which is never tempered:

        elpd_i = log Σ_s w_s p(y_i|θ_s),    w_s ∝ p(y_i|θ_s)^{-1/T}, Pareto-smoothed.

    T is the product of the likelihood's temperature and that of the whole posterior (`tempered`,
    `cold`, or a kernel's own): each divides the exponent of p(y_i|θ). With 1/p(y_i|θ) in place of
    its power, as models that know no temperature have it, a cold posterior looks better than
    it is. The colder, the heavier the tails of the weights: k̂ rises.

    The fit of the tail allows for autocorrelation by the relative efficiency of each row. Where
    ties forbid it (a probability that is 1 in every draw), the weights stay as they are, and k̂ is
    0 if they are nearly equal (an effective size 1/Σw² above S/2) and infinite otherwise.

    Args:
        posterior: of `sample`, with its model and weights.
        x, y: the training data, as `sample` was given them. Without them the probe
            inputs of the run, if these are the training data; they need no model.

    Returns:
        A `LeaveOneOut`, in the data's units.

    Raises:
        ValueError: the draws are not of a posterior that is known up to its normalisation (an
            approximation, an optimiser, a temperature that changed), the model has a latent
            value for each row or a pseudo-likelihood, too few draws, other data than the run's,
            or log likelihoods that are NaN. `k_fold` serves all of these.
    """
    run = posterior.provenance
    log_p, temperature = training_log_likelihood(posterior, x, y)
    return _from_log_likelihood(log_p, temperature, streamed="streamed" in run)


def loo_weights(posterior: Any, x: Any = None, y: Any = None) -> "dict[str, xr.DataArray]":
    """Weights that leave each row out, at the temperature of the draws, as ArviZ takes them.

    `az.loo(tree)` weights by 1/p(y_i|θ), which is wrong where draws have a temperature. With these
    weights, p(y_i|θ)^{-1/T}, it is right: `az.loo(tree, **loo_weights(posterior))`.

    Args:
        posterior, x, y: as for `loo`.

    Returns:
        `log_weights`, a DataArray (chain, draw, row), and `pareto_k`, (row,), both named "y".

    Raises:
        ValueError: see `loo`.
    """
    import xarray as xr

    log_p, temperature = training_log_likelihood(posterior, x, y)
    _refuse_nan(log_p)
    efficiency = relative_efficiency(log_p)
    weights, k = np.empty(log_p.shape, np.float64), np.empty(log_p.shape[2])
    for i in range(log_p.shape[2]):
        row = log_p[..., i].ravel().astype(np.float64) / temperature
        found, k[i] = log_weights(row, efficiency[i])
        weights[..., i] = found.reshape(log_p.shape[:2])
    group = next(g for g in ("log_likelihood", "posterior", "predictions") if g in posterior.tree)
    known = {name: posterior.tree[group][name].values for name in ("chain", "draw")}
    rows = {"row": np.arange(len(k))}
    return {
        "log_weights": xr.DataArray(weights, known | rows, ("chain", "draw", "row"), name="y"),
        "pareto_k": xr.DataArray(k, rows, ("row",), name="y"),
    }


def _from_log_likelihood(log_p: NDArray[Any], temperature: float, *, streamed: bool) -> LeaveOneOut:
    """From log p(y_i|θ_s), shape (chain, draw, N)."""
    _refuse_nan(log_p)
    draws, rows = log_p.shape[0] * log_p.shape[1], log_p.shape[2]
    efficiency = relative_efficiency(log_p)
    scores, inside, k, error, bias = np.empty((5, rows))
    for i in range(rows):
        row = log_p[..., i].ravel().astype(np.float64)
        log_w, k[i] = log_weights(row / temperature, efficiency[i])
        scores[i], error[i], bias[i] = weighted_score(
            row, log_w, float(k[i]), temperature, float(efficiency[i])
        )
        inside[i] = logsumexp(row) - math.log(draws)
    threshold = min(1 - 1 / math.log10(draws), 0.7)
    return LeaveOneOut(
        log_scores=scores,
        method=f"Leave-one-out by importance sampling, {draws} draws",
        sentence=_sentence(k, threshold, temperature, streamed),
        pareto_k=k,
        threshold=threshold,
        in_sample=inside,
        monte_carlo_error=error,
        tail_bias=bias,
        relative_efficiency=efficiency,
        temperature=temperature,
        draws=draws,
    )


def _refuse_nan(log_p: NDArray[Any]) -> None:
    broken = np.flatnonzero(np.isnan(log_p).any(axis=(0, 1)))
    if broken.size:
        raise ValueError(
            f"log p(y|θ) is NaN in some draws, first at row {broken[0]}: {broken.size} rows in "
            "all. `posterior.diagnose(x)` says which chains left the region where the model can be "
            "computed."
        )


def _named(rows: NDArray[np.intp]) -> str:
    return ", ".join(map(str, rows[:_MOST_NAMED])) + (", ..." if rows.size > _MOST_NAMED else "")


def _sentence(k: NDArray[np.float64], threshold: float, temperature: float, streamed: bool) -> str:
    words = []
    large = min(_LARGE_ERRORS, threshold)
    bad, uncertain = np.flatnonzero(k > threshold), np.flatnonzero(k > large)
    uncertain = np.setdiff1d(uncertain, bad)
    if bad.size:
        words.append(
            f"k̂ is above {threshold:.2f} in {bad.size} of {k.size} rows ({_named(bad)}), and up to "
            f"{k.max():.2f}: their weights rest on a few draws, and their scores, most often too "
            "high, cannot be used. `k_fold(fit, x, y, loo=...)` refits without each of them."
        )
    if uncertain.size:
        words.append(
            f"k̂ is between {_LARGE_ERRORS:g} and {threshold:.2f} in {uncertain.size} of {k.size} "
            f"rows ({_named(uncertain)}): their errors are large, with heavy tails, and most often "
            "the score is too high. `monte_carlo_error` and `bias` say by how much; where it "
            "matters draw more, or refit without these rows too, "
            f"`k_fold(fit, x, y, loo=..., above={_LARGE_ERRORS:g})`."
        )
    if not words:
        words.append(
            f"Every k̂ is at most {large:.2g} (largest {k.max():.2f}): the scores are good to "
            "their `monte_carlo_error`."
        )
    if temperature != 1.0:
        words.append(
            f"The draws have the likelihood to the power 1/{temperature:g}, which the weights take "
            "back; the scores are of the untempered likelihood."
        )
    if streamed:
        words.append("The run read its data from a stream: that these are its rows is not checked.")
    return " ".join(words)
