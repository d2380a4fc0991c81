"""What leaving rows out says: log scores of rows that were not learned from."""

import textwrap
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import readable


@readable
@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Log scores log p(y_i | x_i, data without row i, or without its fold).

    Attributes:
        log_scores: of each row, (N,), in nats and the data's units.
        method: how the rows were left out, in a few words.
        sentence: what to make of it.
    """

    log_scores: NDArray[np.float64]
    method: str
    sentence: str

    @property
    def rows(self) -> int:
        """N."""
        return len(self.log_scores)

    @property
    def elpd(self) -> float:
        """Expected log predictive density of N new rows, the sum of the log scores."""
        return float(self.log_scores.sum())

    @property
    def standard_error(self) -> float:
        """Of `elpd`, as rows vary: sqrt(N Var_i(log score)); NaN where a score is infinite."""
        return _error_of_sum(self.log_scores)

    @property
    def nll(self) -> float:
        """-elpd / N, comparable with the negative log likelihood of held-out rows."""
        return -self.elpd / self.rows

    def difference(self, other: Self) -> tuple[float, float]:
        """`elpd` minus that of `other` on the same rows, and the standard error of that, paired.

        Raises:
            ValueError: they have not equally many rows.
        """
        if self.rows != other.rows:
            raise ValueError(
                f"One cross-validation has {self.rows} rows and the other {other.rows}: scores are "
                "compared row by row, so both must be of the same data."
            )
        each = self.log_scores - other.log_scores
        return float(each.sum()), _error_of_sum(each)

    def __str__(self) -> str:
        values = [("elpd", self.elpd, self.standard_error, "nats, larger is better")]
        values.append(("NLL", self.nll, self.standard_error / self.rows, "nats a row"))
        lines = [f"{name:<5} {value:>12.4f} ± {se:.4f}  {what}" for name, value, se, what in values]
        told = textwrap.fill(self.sentence, 86, break_on_hyphens=False).splitlines()
        return "\n  ".join([f"{self.method}, {self.rows} rows", *lines, *self._more(), *told])

    def _figures(self) -> dict[str, Any]:
        names = ("method", "rows", "elpd", "standard_error", "nll")
        return {name: getattr(self, name) for name in names}

    def _more(self) -> list[str]:
        """Further lines of the table."""
        return []


def _error_of_sum(each: NDArray[np.float64]) -> float:
    if len(each) < 2 or not np.isfinite(each).all():
        return float("nan")
    return float(np.sqrt(len(each) * each.var(ddof=1)))
