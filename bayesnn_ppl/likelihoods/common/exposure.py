"""Counts over unequal exposures: a column of `x` that multiplies the rate."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.likelihoods.common.base import Likelihood


class CountLikelihood(Likelihood):
    """Counts whose log rate is the network's output, plus the log of an exposure if there is one.

    The network does not see the exposure. What is known of it is said in full, λ = e · exp(f(x)):
    twice the time at risk has twice the counts. A network that saw the column could contradict
    that, and would have to learn it wherever it does not.

    Attributes:
        exposure: the column of `x` that holds e, or None.
    """

    exposure: int | None

    def split_inputs(self, x: Any) -> tuple[Any, dict[str, Any]]:
        """`x` (B, columns) without the exposure's column, and the exposure, (B,)."""
        if self.exposure is None:
            return x, {}
        column = self._column(x)
        seen = jnp.concatenate([x[:, :column], x[:, column + 1 :]], axis=1)
        return seen, {"exposure": x[:, column]}

    def check_inputs(self, x: np.ndarray) -> None:
        """Raise ValueError unless every exposure in `x` is positive."""
        if self.exposure is None:
            return
        column = self._column(x)
        bad = np.flatnonzero(~(x[:, column] > 0))
        if bad.size:
            raise ValueError(
                f"x[{bad[0]}, {column}] = {x[bad[0], column]} cannot be an exposure, which is "
                "positive (a time at risk, a number of people): it multiplies the rate. Keep that "
                "column in its own units when the others are standardised, and leave out rows "
                "without exposure."
            )

    def log_rates(self, outputs: Any, parameters: dict[str, Any]) -> Any:
        """The checked outputs, one for each element of `y`, plus the log exposure of their row."""
        log_rate = self.elements(outputs)
        if self.exposure is None:
            return log_rate
        offset = jnp.log(parameters["exposure"])
        return log_rate + offset.reshape(-1, *(1,) * (log_rate.ndim - 1))

    def _column(self, x: Any) -> int:
        assert self.exposure is not None
        width = x.shape[1] if x.ndim == 2 else 0
        if width < 2 or not -width <= self.exposure < width:
            raise ValueError(
                f"`exposure={self.exposure}` of the {type(self).__name__} likelihood is a column "
                f"of `x`, but `x` has rows of shape {tuple(x.shape[1:])}. Rows must be vectors "
                "with that column and at least one more, which the network sees."
            )
        return self.exposure % width


def check_exposure_argument(exposure: Any) -> int | None:
    """`exposure` as None or an integer, counted from the end where it is negative."""
    if exposure is None:
        return None
    if isinstance(exposure, bool) or not isinstance(exposure, int | np.integer):
        raise TypeError(
            f"`exposure` is the index of a column of `x`, such as 3 or -1, not {exposure!r}."
        )
    return int(exposure)
