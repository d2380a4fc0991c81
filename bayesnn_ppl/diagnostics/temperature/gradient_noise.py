r"""How noisy minibatch gradients are, how much heat that is, and how heavy the noise's tails.

A tail index α < 2 of an α-stable distribution has been read from the gradients of networks, and SGD
described by Lévy motion (Simsekli et al. 2019). The reading has a known fault: it took the
coordinates of one gradient for samples of one distribution. Coordinates differ in scale by orders
of magnitude, and a mixture of Gaussians of different scales has heavy tails; over minibatches, at a
fixed coordinate, the noise of usual batch sizes is nearly Gaussian (Panigrahi et al. 2019; Xie et
al. 2021), as the central limit theorem has it. So here every estimate is made over minibatches for
each coordinate alone, and averaged afterwards; both estimators are free of scale.

References:
    Simsekli, Sagun and Gurbuzbalaban (2019), arXiv:1901.06053.
    Mohammadi, Mohammadpour and Ogata (2015), Metrika 78: the estimator of α.
    Hill (1975), Annals of Statistics 3(5).
    Panigrahi, Somani, Goyal and Netrapalli (2019), arXiv:1910.09626.
    Xie, Sato and Sugiyama (2021), arXiv:2002.03495.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import integer, readable
from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.diagnostics.potential_energy.potential import minibatch_gradients

__all__ = ["GradientNoise", "hill_index", "minibatch_noise", "noise_heat", "stable_tail_index"]

_FEWEST = 16


@readable
@dataclass(frozen=True)
class GradientNoise:
    """The noise of minibatch gradients of one parameter array, at one draw.

    Attributes:
        variance: of the full-scale gradient Û, mean over coordinates.
        tail_index: α of a stable distribution, 2 for a Gaussian; see the module for what it is not.
        hill: Hill's index of the largest tenth; a Gaussian reads about 5, not infinity.
        gaussian_share: share of coordinates at which D'Agostino and Pearson's test accepts a
            Gaussian at 1 %.
    """

    variance: float
    tail_index: float
    hill: float
    gaussian_share: float


def stable_tail_index(noise: ArrayLike) -> float:
    """α of a symmetric stable distribution, from how sums grow; averaged over coordinates.

    1/α = (mean log|sums of K| - mean log|samples|) / log K with K near the root of the number of
    samples: a sum of K copies of a stable variable is K^{1/α} of one. For others with finite
    variance it tends to 2 as K grows, and is below 2 for any K where tails are heavy.

    Args:
        noise: (samples, ...), of mean 0 at each coordinate; coordinates that are 0 are left out.

    Raises:
        ValueError: fewer than 16 samples, or no coordinate that varies.
    """
    values = _columns(noise)
    size = int(np.sqrt(len(values)))
    values = values[: size * (len(values) // size)]
    sums = values.reshape(-1, size, values.shape[1]).sum(axis=1)
    tiny = np.finfo(float).tiny
    grown = np.log(np.abs(sums) + tiny).mean(axis=0) - np.log(np.abs(values) + tiny).mean(axis=0)
    inverse = float(np.mean(grown) / np.log(size))
    return 1 / inverse if inverse > 0 else float("inf")


def hill_index(noise: ArrayLike, *, share: float = 0.1) -> float:
    """Hill's tail index of |noise|: k / Σ log(x_(i) / x_(k+1)) over the k largest.

    Args:
        noise: (samples, ...); 1/α is averaged over coordinates.
        share: k over the number of samples.

    Raises:
        ValueError: fewer than 16 samples, no coordinate that varies, or a share outside (0, 1).
    """
    values = np.sort(np.abs(_columns(noise)), axis=0)[::-1]
    if not 0 < share < 1:
        raise ValueError(f"`share` must be in (0, 1), not {share:g}.")
    top = max(2, int(share * len(values)))
    tiny = np.finfo(float).tiny
    excess = np.log(values[:top] + tiny) - np.log(values[top] + tiny)
    mean = float(excess.mean())
    return 1 / mean if mean > 0 else float("inf")


def noise_heat(variance: Any, *, step_size: float, momentum_decay: float = 0.0) -> Any:
    """By how much minibatch noise raises the temperature: ε·C / (2(1 - β)).

    For symplectic Euler (SGHMC); β = 0 is SGLD. C is the variance of the full-scale gradient.
    """
    return step_size * np.asarray(variance) / (2 * (1 - momentum_decay))


def minibatch_noise(
    posterior: PosteriorDraws,
    x: Any,
    y: Any,
    *,
    batch_size: int,
    minibatches: int = 256,
    seed: int = 0,
) -> dict[str, GradientNoise]:
    """Minibatch noise of each parameter array at the last draw of the first chain.

    Args:
        posterior: with its model and its weights.
        x, y: the data of the run.
        batch_size: rows of a minibatch, drawn with replacement as the kernels do.
        minibatches: how many, at least 16; hundreds for the tails.
        seed: of the rows.

    Returns:
        Variable name -> `GradientNoise`.

    Raises:
        ValueError, TypeError: an argument or the data are not what they must be.
    """
    from scipy.stats import normaltest

    integer(minibatches, "`minibatches`", at_least=_FEWEST)
    found = {}
    gradients = minibatch_gradients(
        posterior, x, y, batch_size=batch_size, minibatches=minibatches, seed=seed
    )
    for name, samples in gradients.items():
        noise = samples - samples.mean(axis=0)
        flat = noise.reshape(len(noise), -1)
        varying = flat[:, np.ptp(flat, axis=0) > 0]
        if not varying.size:
            found[name] = GradientNoise(0.0, float("nan"), float("nan"), float("nan"))
            continue
        found[name] = GradientNoise(
            variance=float(flat.var(axis=0, ddof=1).mean()),
            tail_index=stable_tail_index(varying),
            hill=hill_index(varying),
            gaussian_share=float(np.mean(normaltest(varying, axis=0).pvalue > 0.01)),
        )
    return found


def _columns(noise: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(noise, dtype=float)
    if values.ndim == 0 or len(values) < _FEWEST:
        raise ValueError(
            f"`noise` has shape {values.shape}, but a tail index needs the axis of samples first, "
            f"and {_FEWEST} of them at least."
        )
    columns = values.reshape(len(values), -1)
    columns = columns[:, np.any(columns != 0, axis=0)]
    if not columns.size:
        raise ValueError("`noise` is 0 everywhere: there is no tail to measure.")
    return columns
