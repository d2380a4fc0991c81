"""Intervals and sets of classes whose coverage was calibrated on rows that trained nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.conformal.scores import AdaptiveSets, Band, Floats, Quantile, Residual
from bayesnn_ppl.core.arguments import readable, strict_switches

_VALUES = 2**22  # ends of intervals held at a time by cross-conformal prediction: 32 MB


class Part(NamedTuple):
    """A posterior, and calibration rows that it was not trained on.

    Attributes:
        posterior: what predicts.
        prediction: its predictions at the rows.
        y: their targets: labels (n,), or numbers (n, ...) in the data's units.
        given: inputs and targets of the rows, as they were given.
    """

    posterior: Any
    prediction: Any
    y: NDArray[Any]
    given: tuple[Any, Any]


@readable
@dataclass(frozen=True, eq=False)
class Calibrated:
    """What `split` and `cross` return: predictions with coverage.

    Attributes:
        parts: one for `split`, one of each fold for `cross`.
        score: what was calibrated.
    """

    parts: tuple[Part, ...]
    score: Quantile | Residual | AdaptiveSets

    @property
    def rows(self) -> int:
        """Number of calibration rows, of all parts."""
        return sum(len(part.y) for part in self.parts)

    @property
    def highest_level(self) -> float:
        """The highest level that so many rows can calibrate, n / (n + 1)."""
        return self.rows / (self.rows + 1)

    @strict_switches
    def interval(self, x: Any, level: float = 0.9, *, raw: bool = False) -> Floats:
        r"""Ends of an interval for each number, in the data's units.

        Of one part [low(x) - scale(x) q, high(x) + scale(x) q], where q is the k-th smallest
        score of the n calibration rows, k = ceil((n + 1) level). A new row that is exchangeable
        with them lies inside with probability level to level + 1/(n + 1), whatever the model,
        where the probability is over calibration and new rows, and above that where many scores
        are equal, as those of counts. Of several parts, where score
        i belongs to fold f(i), the ends are the (n + 1 - k)-th smallest of low_f(i)(x) -
        scale_f(i)(x) E_i and the k-th smallest of high_f(i)(x) + scale_f(i)(x) E_i. The
        probability is then about the level, and never below 2 level - 1 - sqrt(2/n).

        Where the ends would cross, both are in their middle.

        Args:
            x: inputs (N, ...), prepared as the training inputs were.
            level: of the intervals, inside (0, 1) and at most `highest_level`. Of each element of
                y alone, where a row has several.
            raw: `x` is in the data's units, as in `Posterior.predict`.

        Returns:
            Array (N, ..., 2): the shape of the predictive mean, and lower and upper ends.

        Raises:
            ValueError: the level is out of range, there are labels, or as `Posterior.predict`.

        References:
            Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world. Barber,
            Candès, Ramdas and Tibshirani (2021), Predictive inference with the jackknife+,
            arXiv:1905.02928, section 4 (CV+).
        """
        score = self.score
        if isinstance(score, AdaptiveSets):
            raise ValueError("Labels have no intervals: `.sets(x, level)` has their sets.")
        rank = self._rank(level)
        scores = [_scores(score.band(p.prediction, level), p.y) for p in self.parts]
        if len(scores) == 1:  # one interval for each row is enough
            scores, rank = [np.sort(scores[0], axis=0)[rank - 1 : rank]], 1
        bands = [score.band(_predict(part, x, raw), level) for part in self.parts]
        upper = _combined([b.high for b in bands], bands, scores, rank)
        lower = 0.0 - _combined([-b.low for b in bands], bands, scores, rank)  # counts have no -0
        middle = (lower + upper) / 2
        return np.stack([np.minimum(lower, middle), np.maximum(upper, middle)], axis=-1)

    @strict_switches
    def sets(self, x: Any, level: float = 0.9, *, raw: bool = False) -> NDArray[np.bool_]:
        """Which classes are in the set of each row.

        A class is in it if fewer than k = ceil((n + 1) level) calibration rows have a smaller
        score, each of the posterior that was not trained on the row. The set of a new row that is
        exchangeable with them holds its label with at least this probability; of several folds
        see `interval`.

        Args:
            x: inputs (N, ...), prepared as the training inputs were.
            level: of the sets, inside (0, 1) and at most `highest_level`.
            raw: `x` is in the data's units, as in `Posterior.predict`.

        Returns:
            Array (N, K): whether the set of a row (line) has a class (column).

        Raises:
            ValueError: the level is out of range, there are numbers, or as `Posterior.predict`.

        References:
            Romano, Sesia and Candès (2020), arXiv:2006.02544, sections 2.2 and 2.3.
        """
        score = self.score
        if not isinstance(score, AdaptiveSets):
            raise ValueError("Numbers have no sets of classes: use `.interval(x, level)`.")
        rank = self._rank(level)
        calibration_u = np.split(
            score.shares(self.rows, 0), np.cumsum([len(part.y) for part in self.parts])[:-1]
        )
        smaller: Any = 0
        for part, u in zip(self.parts, calibration_u, strict=True):
            every = score.scores(part.prediction.probabilities, u)
            own = np.sort(every[np.arange(len(part.y)), part.y])
            p = _predict(part, x, raw).probabilities
            new = score.scores(p, score.shares(len(p), 1))
            smaller = smaller + np.searchsorted(own, new, side="left")
        return smaller < rank

    def _rank(self, level: float) -> int:
        """k = ceil((n + 1) level), the rank of the score that decides."""
        if not 0 < level < 1:
            raise ValueError(
                f"`level` is {level}, but a level lies inside (0, 1): write 0.9 for 90 %."
            )
        # Rounded, or 100 · 0.55 would be 56.
        rank = math.ceil(round((self.rows + 1) * level, 9))
        if rank > self.rows:
            needed, highest = rows_needed(level), math.floor(1e4 * self.highest_level) / 1e4
            raise ValueError(
                f"{self.rows} calibration rows cannot calibrate level {level:g}: with fewer than "
                f"{needed} its intervals are infinite and its sets have all classes. Give more "
                f"rows, or a level of at most {highest:g}."
            )
        return rank

    def _figures(self) -> dict[str, Any]:
        return {"score": self.score, "rows": self.rows, "folds": len(self.parts)}


def rows_needed(level: float) -> int:
    """The fewest calibration rows of which one has the rank that `level` asks for."""
    return math.ceil(round(level / (1 - level), 9))


def _predict(part: Part, x: Any, raw: bool) -> Any:
    return part.posterior.predict(x, raw=True) if raw else part.posterior.predict(x)


def _scores(band: Band, y: Floats) -> Floats:
    found = band.scores(y)
    if not np.isfinite(found).all():
        raise ValueError(
            "The predictions at some calibration rows are not finite, so the rows have no order. "
            "Look at the diagnosis of the posterior."
        )
    return found


def _combined(
    ends: Sequence[Floats], bands: Sequence[Band], scores: Sequence[Floats], rank: int
) -> Floats:
    """The rank-th smallest of end_f(i)(x) + scale_f(i)(x) E_i over i, of each element, (N, ...)."""
    count = sum(map(len, scores))
    rows = max(1, _VALUES // (count * max(1, ends[0][:1].size)))
    found = np.empty_like(ends[0])
    for start in range(0, len(found), rows):
        some = slice(start, start + rows)
        every = [
            end[some, None] + (b.scale if isinstance(b.scale, float) else b.scale[some, None]) * e
            for end, b, e in zip(ends, bands, scores, strict=True)
        ]
        found[some] = np.partition(np.concatenate(every, axis=1), rank - 1, axis=1)[:, rank - 1]
    return found
