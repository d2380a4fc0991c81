"""R-hat and effective sample sizes of blocks of variables whose chains are halved."""

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

__all__ = ["ess_of_halves", "half_chains", "larger", "rhat_of_halves", "without_rounding"]

type Array = NDArray[np.float64]

# A z-score's variance within chains is either zero or above 1e-18 for any run that fits a disk;
# what lies below is rounding.
_ROUNDING = 1e-25


def larger(bulk: Array, folded: Array) -> Array:
    """Of two R-hats; values on two points fold to a constant, and the bulk decides alone."""
    return np.where(np.isnan(folded), bulk, np.maximum(bulk, folded))


def without_rounding(variance: Array) -> Array:
    """The variance of z-scores, exactly 0 where it is only rounding."""
    return np.where(variance < _ROUNDING, 0.0, variance)


def half_chains(block: Array) -> Array:
    """(variable, chain, draw) -> (variable, half chain, draw), as R-hat and ESS take them."""
    variables, chains, count = block.shape
    half = count // 2
    # An odd count leaves its middle draw out, as in ArviZ.
    return np.stack((block[:, :, :half], block[:, :, -half:]), axis=1).reshape(
        variables, 2 * chains, half
    )


def rhat_of_halves(split: Array) -> Array:
    """R-hat of (variable, half chain, draw); NaN for a constant."""
    count = split.shape[2]
    means = split.mean(axis=2)
    within = split.var(axis=2, ddof=1).mean(axis=1)
    within, between = without_rounding(within), without_rounding(means.var(axis=1, ddof=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(between / within + (count - 1) / count)


def ess_of_halves(split: Array) -> Array:
    """Effective sample size of (variable, half chain, draw), as `ess_bulk` says."""
    variables, chains, count = split.shape
    size = chains * count
    constant = np.ptp(split, axis=(1, 2)) < np.finfo(float).resolution
    means = split.mean(axis=2, keepdims=True)
    length = next_fast_len(2 * count, real=True)
    spectrum = rfft(split - means, n=length, axis=2)
    # Only the mean over chains is used: averaging the power spectra saves all inverse transforms
    # but one a variable.
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    covariance = irfft(power, n=length, axis=1)[:, :count] / count
    within = covariance[:, :1] * count / (count - 1)
    total = covariance[:, 0] + (means[:, :, 0].var(axis=1, ddof=1) if chains > 1 else 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1 - (within - covariance) / total[:, None]
    rho[:, 0] = 1.0

    pairs = max(0, (count - 3) // 2) + 1
    sums = rho[:, 0 : 2 * pairs : 2] + rho[:, 1 : 2 * pairs : 2]
    # The sequence ends at the first pair whose sum is not positive, or at the last one.
    stop = np.where((sums > 0).all(axis=1), pairs - 1, np.argmin(sums > 0, axis=1))
    kept = np.minimum.accumulate(sums, axis=1) * (np.arange(pairs) < stop[:, None])
    row = np.arange(variables)
    even, final = rho[row, 2 * stop], sums[row, stop]
    rest = np.where((final >= 0) | (even > 0), even, 0.0)
    tau = np.maximum(-1 + 2 * kept.sum(axis=1) + rest, 1 / np.log10(size))
    return np.where(constant, float(size), size / tau)
