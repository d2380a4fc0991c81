"""Monte Carlo errors of means, standard deviations and quantiles, and the weight of the tails."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.diagnostics.convergence.halved_chains import ess_of_halves, half_chains
from bayesnn_ppl.diagnostics.convergence.measures import by_block
from bayesnn_ppl.diagnostics.convergence.tails import tail_shape, tail_size

__all__ = ["Precision", "precision_summary"]

type Array = NDArray[np.float64]

_LEVELS = (0.05, 0.95)


@readable
class Precision(NamedTuple):
    """Monte Carlo errors of every variable; each field has the variables' shape.

    Attributes:
        mean_error: standard error of the mean over the standard deviation.
        spread_error: standard error of the standard deviation over itself.
        quantile_error: the larger standard error of the 5 % and 95 % quantiles over the
            standard deviation.
        tail_shape: k of the heavier tail, see `tails.tail_shape`; the sd is infinite from k = 1/2.
        tail_error: about the standard error of that.
    """

    mean_error: Any
    spread_error: Any
    quantile_error: Any
    tail_shape: Any
    tail_error: Any


def precision_summary(draws: ArrayLike) -> Precision:
    """Monte Carlo errors of mean, standard deviation and the 5 % and 95 % quantiles.

    With squares c² = (x - mean)² the relative standard error of the standard deviation is
    sqrt(Var(c²) / ESS(c²)) / (2 mean(c²)), and that of a quantile is half the distance between
    the 16 % and 84 % quantiles of its rank, a Beta(ESS p + 1, ESS (1 - p) + 1) variable. With heavy
    tails these errors are too small themselves; the tails' shape says where. A constant has NaN.

    Args:
        draws: shape (chain, draw, ...).

    Raises:
        ValueError, TypeError: as `rhat`.

    References:
        Vehtari et al. (2021), arXiv:1903.08008, section 4.
    """
    return Precision(**by_block(draws, Precision._fields, _precision))


def _precision(block: Array) -> dict[str, Array]:
    """The fields of a `Precision`, of a block (variable, chain, draw)."""
    split = half_chains(block)
    flat = block.reshape(len(block), -1)
    size = flat.shape[1]
    centre = flat.mean(axis=1)[:, None, None]
    sd = np.sqrt(((split - centre) ** 2).mean(axis=(1, 2)))
    constant = np.ptp(flat, axis=1) == 0
    sd = np.where(constant, np.nan, sd)
    squares = ((split - centre) / sd[:, None, None]) ** 2
    with np.errstate(invalid="ignore"):
        effective = ess_of_halves(split)
        spread = squares.std(axis=(1, 2)) / np.sqrt(ess_of_halves(squares)) / 2
    ordered = np.sort(flat, axis=1)
    quantile = np.zeros(len(block))
    for level, edge in zip(_LEVELS, np.quantile(flat, _LEVELS, axis=1), strict=True):
        draws = ess_of_halves((split <= edge[:, None, None]).astype(float))
        # Ranks within which the quantile lies with a probability of 68 %.
        low, high = (
            betaincinv(draws * level + 1, draws * (1 - level) + 1, p) * size - 1
            for p in (0.1586553, 0.8413447)
        )
        first = np.floor(np.maximum(low, 0)).astype(int)
        last = np.ceil(np.minimum(high, size - 1)).astype(int)
        row = np.arange(len(block))
        quantile = np.maximum(quantile, (ordered[row, last] - ordered[row, first]) / 2)
    shape, error = np.full(len(block), np.nan), np.full(len(block), np.nan)
    tails = tail_size(size, effective)
    for tail in np.unique(tails[~constant]):
        alike = (tails == tail) & ~constant
        shape[alike] = tail_shape(flat[alike], int(tail))
        error[alike] = 1 / np.sqrt(np.maximum(tail * effective[alike] / size, 1.0))
    return {
        "mean_error": np.where(constant, np.nan, 1 / np.sqrt(effective)),
        "spread_error": spread,
        "quantile_error": quantile / sd,
        "tail_shape": shape,
        "tail_error": np.minimum(error, 1.0),
    }
