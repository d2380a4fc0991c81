"""Leave-one-out cross-validation by Pareto-smoothed importance sampling, at any temperature.

References:
    Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27(5), arXiv:1507.04544.
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, Journal of
    Machine Learning Research 25(72), arXiv:1507.02646.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesnn_ppl.arrays import check_array, data_hash
from bayesnn_ppl.metrics.cross_validation import CrossValidation

__all__ = ["LeaveOneOut", "loo"]

# A tail is a fifth of so few draws, and the Pareto fit needs five in it.
_FEWEST_DRAWS = 25
_MOST_NAMED = 8
_FINITE_VARIANCE = 0.5  # k̂ up to which importance weights have one


@dataclass(frozen=True, eq=False)
class LeaveOneOut(CrossValidation):
    """What `loo` returns: log scores of each row given all others, and how far to trust them.

    Attributes:
        pareto_k: k̂ of each row, (N,): the shape of the tail of its importance weights; NaN for
            rows that were refitted.
        threshold: k̂ above which a row's estimate cannot be trusted, min(1 - 1/log10(S), 0.7).
        in_sample: log (1/S) Σ_s p(y_i | θ_s), the scores with row i learned from, (N,).
        monte_carlo_error: standard error of each log score as draws vary, (N,), widened where k̂
            is above 1/2; up to the threshold it holds, beyond it is a lower bound. NaN for rows
            that were refitted.
        relative_efficiency: bulk effective sample size of log p(y_i | θ) over S, (N,).
        temperature: T of the likelihood in the draws' density, p(y|θ)^{1/T}.
        draws: S.
        refitted: the rows whose score is that of an exact refit without them.
    """

    pareto_k: NDArray[np.float64] = field(repr=False)
    threshold: float
    in_sample: NDArray[np.float64] = field(repr=False)
    monte_carlo_error: NDArray[np.float64] = field(repr=False)
    relative_efficiency: NDArray[np.float64] = field(repr=False)
    temperature: float
    draws: int
    refitted: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp), repr=False)

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

    def _more(self) -> list[str]:
        bad = f"{len(self.bad_rows)} of {self.rows}"
        return [
            f"p_loo {self.p_loo:>12.4f}",
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
    its power, as programs that know no temperature have it, a cold posterior looks better than
    it is. The colder, the heavier the tails of the weights: k̂ rises.

    The fit of the tail allows for autocorrelation by the relative efficiency of each row. Where
    ties forbid it (a probability that is 1 in every draw), the weights stay as they are, and k̂ is
    0 if they are nearly equal (an effective size 1/Σw² above S/2) and infinite otherwise.

    Args:
        posterior: of `sample`, with its program and weights.
        x, y: the training data, as `sample` was given them. Without them the probe of the run, if
            that is the training data; it needs no program.

    Returns:
        A `LeaveOneOut`, in the data's units.

    Raises:
        ValueError: the draws are not of a posterior that is known up to its normalisation (an
            approximation, an optimiser, a temperature that changed), the program has a latent
            value for each row or a pseudo-likelihood, too few draws, other data than the run's,
            or log likelihoods that are NaN. `k_fold` serves all of these.
    """
    run = posterior.provenance
    _refuse_what_is_no_likelihood(run)
    temperature = _temperature(run, posterior.statistics)
    group = "predictions" if x is None and y is None else "posterior"
    if group in posterior.tree.children:
        _require_draws(int(np.prod([posterior.tree[group].sizes[d] for d in ("chain", "draw")])))
    _require_training_data(posterior, run, x, y)
    log_p = np.asarray(posterior.log_likelihood(x, y))
    return _from_log_likelihood(log_p, temperature, streamed="streamed" in run)


def _from_log_likelihood(log_p: NDArray[Any], temperature: float, *, streamed: bool) -> LeaveOneOut:
    """From log p(y_i|θ_s), shape (chain, draw, N)."""
    broken = np.flatnonzero(np.isnan(log_p).any(axis=(0, 1)))
    if broken.size:
        raise ValueError(
            f"log p(y|θ) is NaN in some draws, first at row {broken[0]}: {broken.size} rows in "
            "all. `posterior.diagnose(x)` says which chains left the region where the model can be "
            "computed."
        )
    draws, rows = log_p.shape[0] * log_p.shape[1], log_p.shape[2]
    efficiency = _relative_efficiency(log_p)
    scores, inside, k, error = np.empty((4, rows))
    for i in range(rows):
        row = log_p[..., i].ravel().astype(np.float64)
        log_w, k[i] = _log_weights(row / temperature, efficiency[i])
        scores[i], error[i] = _score(row, log_w, efficiency[i])
        error[i] *= _widening(k[i], draws * efficiency[i])
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
        relative_efficiency=efficiency,
        temperature=temperature,
        draws=draws,
    )


def _relative_efficiency(log_p: NDArray[Any]) -> NDArray[np.float64]:
    """Bulk ESS over S; of ranks, so that it is that of the weights as well, at any temperature."""
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"):
        found = np.asarray(array_stats.ess(log_p, chain_axis=0, draw_axis=1, method="bulk"))
    found = found / (log_p.shape[0] * log_p.shape[1])
    return np.where(np.isfinite(found) & (found > 0), found, 1.0)


def _log_weights(power: NDArray[np.float64], efficiency: float) -> tuple[Any, float]:
    """Normalised log weights and k̂, of `power` = (1/T) log p(y_i|θ_s), shape (S,)."""
    from arviz_stats.base import array_stats

    if np.isneginf(power).any():  # a draw that the row forbids would have all the weight
        return np.where(np.isneginf(power), 0.0, -np.inf), math.inf
    try:
        with np.errstate(all="ignore"):
            log_w, k = array_stats.psislw(power, r_eff=efficiency)
        if np.isfinite(k) and np.isfinite(log_w).all():
            return log_w, float(k)
    except ValueError:  # all values of the tail are the same
        pass
    raw = -power - logsumexp(-power)
    return raw, 0.0 if np.exp(-logsumexp(2 * raw)) > len(raw) / 2 else math.inf


def _score(
    log_p: NDArray[np.float64], log_w: NDArray[np.float64], efficiency: float
) -> tuple[float, float]:
    """log Σ w p, and its standard error by the delta method, sqrt(Σ w² (p/Σwp - 1)² / r_eff)."""
    if not np.isfinite(log_p).all():
        return -math.inf, math.nan
    score = logsumexp(log_w + log_p)
    shares = np.exp(log_w + log_p - score) - np.exp(log_w)  # p/Σwp alone may overflow
    return float(score), float(np.sqrt(np.sum(shares**2) / efficiency))


def _widening(k: float, draws: float) -> float:
    """By what the error of a score is larger than that of weights with a finite variance.

    Above k̂ = 1/2 the weights have none, and errors fall more slowly than S^(-1/2), towards
    S^-(1 - k̂). Half of that difference in the exponent is what was measured against exact scores,
    see `benchmarks.loo_cold`.
    """
    return (
        float(draws ** (min(max(k - _FINITE_VARIANCE, 0.0), 0.5) / 2))
        if math.isfinite(k)
        else math.inf
    )


def _sentence(k: NDArray[np.float64], threshold: float, temperature: float, streamed: bool) -> str:
    bad = np.flatnonzero(k > threshold)
    if bad.size:
        named = ", ".join(map(str, bad[:_MOST_NAMED])) + (", ..." if bad.size > _MOST_NAMED else "")
        words = [
            f"k̂ is above {threshold:.2f} in {bad.size} of {k.size} rows ({named}), and up to "
            f"{k.max():.2f}: their weights rest on a few draws, and their scores, most often too "
            "high, cannot be trusted. `k_fold(fit, x, y, loo=...)` refits without each of them."
        ]
    else:
        slow = np.flatnonzero(k > _FINITE_VARIANCE)
        words = [f"Every k̂ is at most {threshold:.2f} (largest {k.max():.2f})."]
        words.append(
            f"In {slow.size} of {k.size} rows it is above {_FINITE_VARIANCE:g}: their scores "
            "converge slowly and tend to be too high, which their errors allow for. More draws "
            "help, and so do exact scores of refits, `k_fold(fit, x, y)`."
            if slow.size
            else "The weights can be trusted."
        )
    if temperature != 1.0:
        words.append(
            f"The draws have the likelihood to the power 1/{temperature:g}, which the weights take "
            "back; the scores are of the untempered likelihood."
        )
    if streamed:
        words.append("The run read its data from a stream: that these are its rows is not checked.")
    return " ".join(words)


def _refuse_what_is_no_likelihood(run: Mapping[str, Any]) -> None:
    instead = " Use `k_fold`, which trains anew without each fold."
    if run.get("approximation"):
        raise ValueError(
            f"The draws are of an approximation, {run.get('kernel')}, and not of the posterior: "
            "weights 1/p(y|θ) would not turn them into those without a row." + instead
        )
    if run.get("local"):
        raise ValueError(
            f'The program has latent sites inside the plate "data", {run["local"]}: p(y|θ) of a '
            "row holds its own latent value, which the row itself has informed, so that weights "
            "1/p(y|θ) leave out too little. Integrate these sites out in the program."
        )
    if " of " in (observed := str(run.get("observed", ""))):
        raise ValueError(
            f"The site `y` is a pseudo-likelihood, {observed}: the draws follow a density that the "
            "scores do not know, and weights 1/p(y|θ) would take back another one." + instead
        )


def _temperature(run: Mapping[str, Any], statistics: Mapping[str, Any]) -> float:
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


def _require_training_data(posterior: Any, run: Mapping[str, Any], x: Any, y: Any) -> None:
    """Rows that were not learned from cannot be left out."""
    given = "`x` and `y` are"
    if x is None and y is None:
        if posterior.probe is None or posterior.probe[1] is None:
            raise ValueError(
                "Give the training data, `loo(posterior, x, y)`: the run kept no function values "
                "with targets."
            )
        (x, y), given = posterior.probe, "the probe of the run is"
    elif x is None or y is None:
        raise ValueError("Give `x` and `y` both, or neither for the probe of the run.")
    float64 = run.get("precision") == "float64"
    x, y = check_array(x, "x", float64=float64), check_array(y, "y", float64=float64)
    whole = y.astype(np.int32) if np.array_equal(y, np.round(y)) else y  # counts given as floats
    known = run.get("data_sha256")
    if "streamed" in run:
        other = len(x) != run.get("rows")
    else:
        other = known is not None and known not in (data_hash(x, y), data_hash(x, whole))
    if other:
        raise ValueError(
            f"{given[:1].upper()}{given[1:]} not the data of the run ({len(x)} rows against "
            f"{run.get('rows')}): only what was learned from can be left out. Pass what `sample` "
            "was given, prepared the same way; for rows that were held out use `evaluate`."
        )
