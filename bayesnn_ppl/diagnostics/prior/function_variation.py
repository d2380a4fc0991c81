"""How large functions drawn from a prior are, and over which length they vary."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.core.arguments import readable

__all__ = ["FunctionScale", "LengthScale", "function_scale", "length_scale"]


@readable
@dataclass(frozen=True)
class FunctionScale:
    """The variance of functions f_s(x_n), parted into that of constants and that of changes.

    Var f = Var_s(mean_n f) + mean_s(Var_n f), of each output by itself, then averaged over outputs.

    Attributes:
        sd: root of the whole, over draws and inputs.
        offset_sd: root of the first term: how draws differ by a constant.
        change_sd: root of the second: how a draw changes from input to input.
    """

    sd: float
    offset_sd: float
    change_sd: float

    @property
    def constant_share(self) -> float:
        """Share of the variance that is a constant for each draw; 1 for constant functions."""
        return self.offset_sd**2 / self.sd**2 if self.sd > 0 else 1.0


@readable
@dataclass(frozen=True)
class LengthScale:
    """Over which distance functions vary, along random lines between two inputs.

    Attributes:
        value: λ = √(Var f / E f'²), with f' the slope along the line, in units of the inputs. Of
            a Gaussian process with covariance exp(-r²/2ℓ²) it is ℓ. Infinite for constants.
        distance: between two inputs, the median.
        crossings: distance / (πλ): how often a stationary Gaussian process of this λ crosses its
            mean between two inputs that far apart (Rice).

    References:
        Rice (1945), Mathematical analysis of random noise, Bell System Technical Journal 24;
        Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, equation 4.3.
    """

    value: float
    distance: float
    crossings: float


def function_scale(functions: ArrayLike) -> FunctionScale:
    """The size of functions.

    Args:
        functions: (S, N, ...), finite.
    """
    values = np.asarray(functions, dtype=float)
    offset = values.mean(axis=1).var(axis=0).mean()
    change = values.var(axis=1).mean()
    return FunctionScale(math.sqrt(offset + change), math.sqrt(offset), math.sqrt(change))


def length_scale(ends: ArrayLike, distances: ArrayLike, *, step: float) -> LengthScale | None:
    """The length-scale, from slopes as differences over short pieces of lines.

    Where functions vary within a piece the slope comes out too small: λ is never found to be
    less than step · distance / √2.

    Args:
        ends: values at both ends of each piece, (S, 2, L, ...), finite.
        distances: lengths of the lines, (S, L); one of 0 joins two equal inputs and does not count.
        step: length of a piece as a share of its line.

    Returns:
        None where no line is longer than 0.
    """
    values, lengths = np.asarray(ends, dtype=float), np.asarray(distances, dtype=float)
    proper = lengths > 0
    if not proper.any():
        return None
    pieces = np.moveaxis(values, 1, 2)[proper]  # (pieces, 2, ...)
    runs = step * lengths[proper].reshape(-1, *(1,) * (pieces.ndim - 2))
    slope = np.square((pieces[:, 1] - pieces[:, 0]) / runs).mean()
    variance = pieces.var(axis=(0, 1)).mean()
    value = math.sqrt(variance / slope) if slope > 0 else math.inf
    distance = float(np.median(lengths[proper]))
    crossings = distance / (math.pi * value) if value > 0 else math.inf
    return LengthScale(value, distance, crossings)
