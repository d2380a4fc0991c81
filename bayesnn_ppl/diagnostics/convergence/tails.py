"""How heavy the tails of many variables are: the shape of a generalised Pareto distribution."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["tail_shape", "tail_size"]

type Array = NDArray[np.float64]

# Strength of the prior on the shape, in draws, that ArviZ and loo use too.
_PRIOR_DRAWS, _PRIOR_SHAPE = 10, 0.5


def tail_size(size: int, effective: Array) -> NDArray[np.int64]:
    """Draws that count as a tail: min(S/5, 3 sqrt(S²/ESS)), as in Vehtari et al. (2024), and 5.

    Args:
        size: S, draws of all chains together.
        effective: effective sample sizes, shape (variable,).

    References:
        Vehtari, Simpson, Gelman, Yao, Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
    """
    wanted = 3 * size / np.sqrt(np.maximum(effective, 1.0))
    # Few different sizes, so that variables go together: powers of the square root of two.
    steps = 2 ** (np.round(2 * np.log2(wanted)) / 2)
    return np.maximum(np.minimum(steps, size / 5), 5).astype(int)


def tail_shape(flat: Array, tail: int) -> Array:
    """The larger shape k of both tails; moments of order 1/k and above are infinite.

    The excesses over the threshold are fitted by a generalised Pareto distribution. A variable
    whose tail has equal values only (a bound that is reached, a few values) has k = -inf: it is
    light.

    Args:
        flat: shape (variable, draw), finite.
        tail: draws in each tail.

    Returns:
        Array (variable,).

    References:
        Zhang and Stephens (2009), A new and efficient estimation method for the generalized
        Pareto distribution, Technometrics 51(3).
    """
    ordered = np.sort(flat, axis=1)
    upper = ordered[:, -tail:] - ordered[:, -tail - 1, None]
    lower = (ordered[:, tail, None] - ordered[:, :tail])[:, ::-1]
    return np.maximum(_pareto_shape(upper), _pareto_shape(lower))


def _pareto_shape(excess: Array) -> Array:
    """Shape of sorted excesses, (variable, tail), with a weak prior."""
    count = excess.shape[1]
    shape = np.full(len(excess), -np.inf)
    quarter = excess[:, int(count / 4 + 0.5) - 1]
    usable = quarter > 0
    if not usable.any():
        return shape
    excess, quarter = excess[usable], quarter[usable]
    grid = 30 + int(np.sqrt(count))
    rate = (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quarter[:, None])
    rate = rate + 1 / excess[:, -1:]
    fitted = np.stack(
        [np.log1p(-rate[:, i, None] * excess).mean(axis=1) for i in range(grid)], axis=1
    )
    # A rate of exactly 0, the exponential tail, occurs where most of the excesses are the largest.
    zero = rate == 0
    slope = np.where(zero, 1 / excess.mean(axis=1)[:, None], -rate / np.where(zero, 1, fitted))
    log_density = count * (np.log(slope) - fitted - 1)
    weight = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    best = (rate * weight).sum(axis=1) / weight.sum(axis=1)
    found = np.log1p(-best[:, None] * excess).mean(axis=1)
    shape[usable] = (count * found + _PRIOR_DRAWS * _PRIOR_SHAPE) / (count + _PRIOR_DRAWS)
    return shape
