"""Conformity scores: how unusual a target is, given what a posterior predicts.

A score of numbers is a band: E(x, y) = max(low(x) - y, y - high(x)) / scale(x), so the targets of a
score of at most q are the interval [low - scale q, high + scale q]. A score of labels is one
number for each class, and the classes of a score of at most q are the set.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import integer, readable, strict_switches

type Floats = NDArray[np.float64]


class Band(NamedTuple):
    """What a score of numbers needs of a prediction: arrays of its shape, in the data's units."""

    low: Floats
    high: Floats
    scale: Floats | float

    def scores(self, y: Floats) -> Floats:
        """E(x, y) of each element."""
        return np.maximum(self.low - y, y - self.high) / self.scale


@readable
@dataclass(frozen=True)
class Quantile:
    """Conformalised quantile regression: the predictive interval, wider or narrower for all inputs.

    low and high are the (1 - level)/2 and (1 + level)/2 quantiles of the predictive distribution,
    scale is 1. So the score is a distance to the interval, negative inside, in the data's units.
    The intervals keep what the posterior says about where the noise is large.

    References:
        Romano, Patterson and Candès (2019), Conformalized quantile regression, arXiv:1905.03222,
        equations 6 to 8.
    """

    task: ClassVar[str] = "regression"

    def band(self, prediction: Any, level: float) -> Band:
        """That of a prediction for intervals of this level."""
        low, high = (
            np.asarray(prediction.quantile((1 + sign * level) / 2), dtype=np.float64)
            for sign in (-1, 1)
        )
        return Band(low, high, 1.0)


@readable
@strict_switches
@dataclass(frozen=True)
class Residual:
    """Split conformal regression: |y - E y|, or |y - E y| / sd y, of the predictive distribution.

    low and high are the predictive mean. Scale is 1, and all intervals of a level have one width;
    or it is the predictive standard deviation, and they are as wide as the posterior is unsure.

    Args:
        scaled: whether residuals are divided by the predictive standard deviation.

    References:
        Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), Distribution-free predictive
        inference for regression, arXiv:1604.04173, sections 2.2 and 5.2.
    """

    scaled: bool = False
    task: ClassVar[str] = "regression"

    def band(self, prediction: Any, level: float) -> Band:
        """That of a prediction, whatever the level."""
        mean = np.asarray(prediction.mean, dtype=np.float64)
        if not self.scaled:
            return Band(mean, mean, 1.0)
        sd = np.sqrt(np.asarray(prediction.variance, dtype=np.float64))
        if (sd <= 0).any():
            raise ValueError(
                "The predictive standard deviation of some rows is 0, so their residuals cannot be "
                "divided by it. Give the likelihood a noise, or use `Residual()`."
            )
        return Band(mean, mean, sd)


@readable
@dataclass(frozen=True)
class AdaptiveSets:
    r"""Sets of classes in the order of their probability (APS), large ones penalised (RAPS).

    With classes sorted by averaged probability, p_(1) >= p_(2) >= ..., the score of the class
    of rank r is

        E = p_(1) + ... + p_(r-1) + u p_(r) + penalty · max(r - free, 0).

    With `seed=None` u is 0: no set is empty, and the coverage is the level, or the accuracy of the
    most probable class where that is larger. With a seed u is uniform on (0, 1), as in the papers:
    the coverage is the level exactly, so where the model is more accurate than that some sets are
    empty.

    Args:
        penalty: of each class beyond the free ones, at least 0. 0 is APS; a small number such as
            0.01 removes the tail of improbable classes.
        free: number of classes without a penalty; a typical size of a set.
        seed: of u, or None.

    Raises:
        ValueError, TypeError: out of range; or `free` is given and there is no penalty.

    References:
        Romano, Sesia and Candès (2020), Classification with valid and adaptive coverage,
        arXiv:2006.02544. Angelopoulos, Bates, Malik and Jordan (2021), Uncertainty sets for image
        classifiers using conformal prediction, arXiv:2009.14193, equation 5.
    """

    penalty: float = 0.0
    free: int = 1
    seed: int | None = None
    task: ClassVar[str] = "classification"

    def __post_init__(self) -> None:
        if not (0 <= self.penalty < math.inf):
            raise ValueError(f"`penalty` is {self.penalty}, but must be at least 0 and finite.")
        integer(self.free, "`free`", at_least=0)
        if self.penalty == 0 and self.free != 1:
            raise ValueError(
                f"`free={self.free}` says which classes have no penalty, but `penalty` is 0. Give "
                "`penalty=` too, such as 0.01, or leave `free` out."
            )
        if self.seed is not None:
            integer(self.seed, "`seed`", at_least=0)

    def shares(self, rows: int, stream: int) -> Floats:
        """u of each row, (rows,): other numbers for each stream."""
        if self.seed is None:
            return np.zeros(rows)
        return np.random.default_rng([self.seed, stream]).uniform(size=rows)

    def scores(self, probabilities: Any, u: Floats) -> Floats:
        """E of every class, (N, K).

        Args:
            probabilities: averaged over draws, (N, K).
            u: (N,).
        """
        p = np.asarray(probabilities, dtype=np.float64)
        order = np.argsort(-p, axis=1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=1)
        rank = np.arange(1, p.shape[1] + 1)
        found = np.cumsum(ranked, axis=1) - (1 - u[:, None]) * ranked
        found += self.penalty * np.maximum(rank - self.free, 0)
        scores = np.empty_like(found)
        np.put_along_axis(scores, order, found, axis=1)
        return scores


type Score = Quantile | Residual | AdaptiveSets
