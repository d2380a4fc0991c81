"""The evidence of a model, from the runs that weighed it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.core.wording import percent

__all__ = ["LogEvidence", "log_evidence"]


_SMALL = 0.1
_LARGE = 0.5


@readable
class LogEvidence(NamedTuple):
    """log p(y | x), in nats, the weights integrated out.

    Attributes:
        value: the estimate.
        error: its standard error, from the runs that know nothing of each other; NaN with one run,
            and for an approximation. Above a half it says little: where one run decides it is 1,
            however far the others are.
        runs: the estimate of each run, shape (run,).
        effective_share: the smallest share of its particles that a stage has left, in any run; NaN
            for an approximation. The estimate is doubtful where it is a few percent or less.
    """

    value: float
    error: float
    runs: NDArray[np.float64]
    effective_share: float

    def __str__(self) -> str:
        error = "" if np.isnan(self.error) else f" ± {self.error:.2f}"
        text = f"Log evidence: {self.value:.2f}{error} nats"
        text += f", from {len(self.runs)} runs" if len(self.runs) > 1 else ""
        if self.error > _LARGE:
            text += f". The runs lie between {self.runs.min():.2f} and {self.runs.max():.2f}, too "
            text += "far apart for an estimate: warm up for longer, with more particles"
        if self.effective_share < _SMALL:
            text += f". A stage left {percent(self.effective_share)} of the particles: warm up for "
            text += "longer"
        return text + "."


def log_evidence(posterior: Any) -> LogEvidence:
    """The log evidence of a posterior of `kernels.TemperedSMC`, or of a Laplace approximation.

    With estimates Z_r of R runs it is log Z̄, Z̄ = mean Z_r, whose standard error is that of Z̄
    relative to Z̄. The evidence is in the units of the targets that the model saw: standardised
    ones, for data of `data.load`.

    Args:
        posterior: what `sample` or `fit` returned.

    Returns:
        A `LogEvidence`.

    Raises:
        ValueError: the posterior is of a method that does not estimate it.
    """
    run = posterior.provenance
    approximation = run.get("approximation") or {}
    if (value := approximation.get("log_evidence")) is not None:
        return LogEvidence(float(value), np.nan, np.array([value]), np.nan)
    statistics = posterior.tree["sample_stats"]  # of which only two are read
    if "log_evidence" not in statistics:
        raise ValueError(
            f"{run.get('kernel', 'The method')} does not estimate the evidence. "
            "`kernels.TemperedSMC` does, and `approximations.Laplace`."
        )
    count = run.get("superchains") or 1
    # All particles of a run have its numbers, and after the warm-up they do not change.
    values, share = (
        np.asarray(statistics[name][:, -1].values, float).reshape(count, -1)[:, 0]
        for name in ("log_evidence", "effective_share")
    )
    value = float(logsumexp(values) - np.log(count))
    spread = np.std(np.exp(values - value), ddof=1) if count > 1 else np.nan
    return LogEvidence(value, float(spread / np.sqrt(count)), values, float(share.min()))
