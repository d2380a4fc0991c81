"""Were the chains' starts spread wider than the posterior? What R-hat says depends on it."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import readable

__all__ = ["Dispersion", "dispersion_of_starts"]

type DispersionStatus = Literal["overdispersed", "comparable", "underdispersed", "not judged"]

# Of starts that are draws from the posterior themselves, this share falls below and above. It is
# smaller below, where it withholds a verdict.
_BELOW, _ABOVE = 0.025, 0.05
_RESAMPLES, _OUTPUTS = 200, 64


@readable
@dataclass(frozen=True)
class Dispersion:
    """How widely chains started, compared with the posterior, in function space.

    Attributes:
        ratios: for each output, the variance between the starts over the variance of the
            posterior; the shape of one start. NaN where that cannot be said.
        median: of the ratios; NaN where none is known.
        share_wider: share of the known ratios above 1.
        bounds: between which starts drawn from the posterior itself would put one ratio in 92.5 %
            of runs, or less below for posteriors that are not normal.
        status: "overdispersed" when the median lies above the bounds, "comparable" between them,
            "underdispersed" below, "not judged" without two chains or any known ratio.
        sentence: the same in words, and what follows for R-hat.
    """

    ratios: NDArray[np.float64] = field(repr=False)
    median: float
    share_wider: float
    bounds: tuple[float, float]
    status: DispersionStatus
    sentence: str


def dispersion_of_starts(starts: ArrayLike, draws: ArrayLike) -> Dispersion:
    r"""Compare the spread of the chains' starts with that of their draws, output by output.

    With m starts s_c of an output and its draws f_{ci}, pooled over chains,

        ratio = [ Σ_c (s_c - s̄)² / (m - 1) ] / Var(f).

    Starts drawn from a Gaussian posterior would have a ratio of χ²_{m-1}/(m - 1). Outputs of one
    network vary together, so the median over outputs varies like one such ratio at the worst, and
    the bounds are its 2.5 % and 95 % quantiles. Starts drawn from a skewed posterior, or from one
    of several modes, often lie closer together, so the lower bound is the 2.5 % quantile of the
    median ratio of m draws resampled from those of the run, where that is smaller.

    R-hat compares chains from starts assumed to be
    overdispersed (Gelman and Rubin, 1992): from starts that lie close together it may be near 1
    before the chains have seen the whole posterior.

    Args:
        starts: (chain, ...), function values of each chain's starting point at probe inputs.
        draws: (chain, draw, ...), function values of the draws at the same inputs. Pooled over
            chains their variance is, if anything, too large where chains disagree.

    Raises:
        ValueError: the two do not belong together, or there are no draws or outputs.

    References:
        Gelman and Rubin (1992), Statistical Science 7(4), section 2.1.
    """
    start_values = np.asarray(starts, dtype=float)
    values = np.asarray(draws)
    if start_values.ndim < 1 or values.ndim < 2 or values.shape[1] < 1:
        raise ValueError(
            f"`starts` must have shape (chain, ...) and `draws` (chain, draw, ...) with at least "
            f"one draw, not {start_values.shape} and {values.shape}."
        )
    if start_values.shape != (values.shape[0], *values.shape[2:]):
        raise ValueError(
            f"`starts` have shape {start_values.shape}, but draws of shape {values.shape} belong "
            f"to starts of shape {(values.shape[0], *values.shape[2:])}: give both the same "
            "chains and the same probe inputs."
        )
    if not start_values.size:
        raise ValueError(f"There are no function values: `starts` has shape {start_values.shape}.")
    chains = values.shape[0]
    if chains < 2:
        ratios = np.full(start_values.shape[1:], np.nan)
        sentence = "There is only one chain, so the spread of the starts is not known."
        return Dispersion(ratios, np.nan, np.nan, (np.nan, np.nan), "not judged", sentence)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        posterior = values.var(axis=(0, 1), dtype=np.float64)
        ratios = np.asarray(start_values.var(axis=0, ddof=1) / posterior)
    # An output that no draw moves has no scale to measure starts by.
    ratios = np.where(np.isfinite(ratios) & (posterior > 0), ratios, np.nan)
    known = ratios[~np.isnan(ratios)]
    bounds = _bounds(chains)
    if known.size:
        usable = np.flatnonzero(~np.isnan(ratios.ravel()))
        bounds = min(bounds[0], _resampled(values, posterior, usable)), bounds[1]
    if not known.size:
        sentence = (
            "The spread of the starts is not known: no output has finite values that differ "
            "between draws."
        )
        return Dispersion(ratios, np.nan, np.nan, bounds, "not judged", sentence)
    median = float(np.median(known))
    status, sentence = _judge(median, bounds, chains)
    return Dispersion(ratios, median, float(np.mean(known > 1)), bounds, status, sentence)


def _bounds(chains: int) -> tuple[float, float]:
    from scipy.stats import chi2

    low, high = chi2.ppf([_BELOW, 1 - _ABOVE], chains - 1) / (chains - 1)
    return float(low), float(high)


def _resampled(values: NDArray, posterior: NDArray, usable: NDArray[np.intp]) -> float:
    """The 2.5 % quantile of the median ratio of starts that are draws of the run."""
    chains = values.shape[0]
    chosen = usable[np.linspace(0, len(usable) - 1, min(len(usable), _OUTPUTS)).astype(int)]
    flat = values.reshape(chains * values.shape[1], -1)[:, chosen].astype(np.float64)
    index = np.random.default_rng(0).integers(len(flat), size=(_RESAMPLES, chains))
    ratios = flat[index].var(axis=1, ddof=1) / posterior.ravel()[chosen]
    return float(np.quantile(np.median(ratios, axis=1), _BELOW))


def _judge(median: float, bounds: tuple[float, float], chains: int) -> tuple[DispersionStatus, str]:
    measured = (
        f"the variance between the {chains} starts is {median:.2g} times the posterior's "
        "(median over outputs)"
    )
    if median > bounds[1]:
        return "overdispersed", (
            f"Chains started overdispersed: {measured}, so R-hat would see what only some of them "
            "found."
        )
    if median >= bounds[0]:
        return "comparable", (
            f"Chains started about as far apart as draws of the posterior are: {measured}. R-hat "
            "shows whether they mix there, but less about regions where none of them started."
        )
    return "underdispersed", (
        f"Chains started closer together than draws of the posterior are: {measured}. R-hat near "
        "1 may mean only that they have not yet drifted apart: run for longer, or start from draws "
        "of the prior, and see whether the result stays."
    )
