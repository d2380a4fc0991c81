"""Function values of the draws of a run as it goes, and whether they have converged."""

from collections.abc import Mapping

import numpy as np

from bayesnn_ppl.diagnostics import ess_bulk, ess_tail
from bayesnn_ppl.diagnostics.convergence.nested import rhat_among
from bayesnn_ppl.diagnostics.diagnosis.judgements import judge_precision
from bayesnn_ppl.diagnostics.diagnosis.summaries import summarise

__all__ = ["FunctionHistory"]

_HISTORY_DRAWS = 1000  # of each chain are always held
_HISTORY_VALUES = 4_000_000  # of all chains and outputs may be; more draws are thinned
_HISTORY_OUTPUTS = 1000


class FunctionHistory:
    """Function values of all draws so far, thinned so that memory does not grow.

    When four million values are held (and 2·1 000 draws of a chain), every second draw is
    dropped, and from then on only every second new one is taken. Thinning hardly changes R-hat, and
    can only lower the effective sample size.

    Args:
        superchains: how many groups of chains there are, side by side, for the nested R-hat.
    """

    def __init__(self, superchains: int | None = None) -> None:
        self._superchains = superchains
        self._every, self._seen = 1, 0
        self._parts: list[np.ndarray] = []
        self._held = 0
        self._columns: np.ndarray | None = None
        self._probabilities = False

    def add(self, functions: Mapping[str, np.ndarray]) -> None:
        """Take a block of what each draw's network says, (chain, block, row, ...)."""
        flat = _outputs(functions)
        self._probabilities = "probability" in functions
        if self._columns is None:
            most = min(flat.shape[2], _HISTORY_OUTPUTS)
            self._columns = np.linspace(0, flat.shape[2] - 1, most).astype(int)
        first = -(self._seen + 1) % self._every
        kept = flat[:, first :: self._every][:, :, self._columns]
        self._seen += flat.shape[1]
        self._parts.append(kept)
        self._held += kept.shape[1]
        most = max(2 * _HISTORY_DRAWS, _HISTORY_VALUES // (kept.shape[0] * kept.shape[2]))
        while self._held >= most:
            # The last of each pair: draw k stays when (k + 1) divides by the new stride.
            joined = self.values()[:, 1::2]
            self._parts, self._held = [joined.copy()], joined.shape[1]
            self._every *= 2

    def values(self) -> np.ndarray:
        """What is held, (chain, draw, output)."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0]

    def convergence(self, at_most: float | None = None) -> tuple[float, float]:
        """Largest R-hat and smallest effective sample size (bulk or tail) over the outputs.

        NaN where there is nothing to judge: fewer than 4 draws, or constants alone.

        Args:
            at_most: an R-hat above which nothing else matters; then only the means and variances
                of half chains may be compared, which takes a hundredth of the time.
        """
        values = self.values()
        if values.shape[1] < 4:
            return np.nan, np.nan
        if at_most is not None and self._superchains is None:
            quick = _largest_split_rhat(values)
            if quick > at_most:
                return quick, np.nan
        with np.errstate(all="ignore"):
            worst = rhat_among(values, self._superchains)
            if not np.isfinite(worst).any():
                return np.nan, np.nan
            largest = float(np.nanmax(worst))
            if at_most is not None and largest > at_most:
                return largest, np.nan
            fewest = np.minimum(ess_bulk(values), ess_tail(values))
        return largest, float(np.nanmin(fewest))

    def precise(self, ess: float) -> bool:
        """Whether the precision would pass in a diagnosis with this ESS threshold."""
        summary = summarise(
            {"function": self.values()},
            rhat_threshold=1.01,
            rhat_limit=1.1,
            ess_limit=ess,
            superchains=self._superchains,
            precision=True,
            probabilities=self._probabilities,
        )
        found = judge_precision({"function": summary}, ess_threshold=ess, ess_limit=ess)
        return found.status == "passed"


def _outputs(functions: Mapping[str, np.ndarray]) -> np.ndarray:
    """All that a draw says, (chain, block, output)."""
    if "probability" in functions:
        found = [functions["probability"]]
    else:
        sd = functions["sd"]
        # A noise scale that all rows share is one output, and not one for each row.
        found = [functions["mean"], sd[:, :, :1] if (sd == sd[:, :, :1]).all() else sd]
    return np.concatenate([a.reshape(*a.shape[:2], -1) for a in found], axis=2)


def _largest_split_rhat(values: np.ndarray) -> float:
    """Largest split R-hat without ranks (Gelman et al. 2013) over the outputs."""
    half = values.shape[1] // 2
    split = np.concatenate([values[:, :half], values[:, -half:]], axis=0, dtype=np.float64)
    within = split.var(axis=1, ddof=1).mean(axis=0)
    between = split.mean(axis=1).var(axis=0, ddof=1)
    moving = within > 0
    if not moving.any():
        return np.nan
    ratio = (half - 1) / half + between[moving] / within[moving]
    return float(np.sqrt(ratio.max()))
