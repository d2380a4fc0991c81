"""From ranks to a status: which quantity departs from calibration, in which way, and the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bayesnn_ppl.calibration.quantities import DENSITIES
from bayesnn_ppl.calibration.record import Line
from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.diagnostics.convergence.rank_uniformity import RankTest, holm, rank_test

type Status = Literal[
    "calibrated", "too narrow", "too wide", "shifted", "not calibrated", "not judged"
]

# Numbers of draws that a rank may be among; all are recorded, and the verdict takes the largest
# for which the draws are nearly independent.
LEVELS = (127, 63, 31, 15, 7, 3)
_FEWEST_OF_CHAINS = 7
# Thinned to half of the effective sample size, neighbours of an AR(1) chain have a correlation of
# exp(-4) = 0.02.
_ESS_PER_DRAW = 2.0
_SHARE = 0.9  # of the replications must have that
_MOST_FAILED = 0.1  # replications without finite draws
_CLEAR = 2.5  # standard errors at which a shift or a spread is called one


@readable
@dataclass(frozen=True, eq=False)
class QuantityCalibration:
    """One test quantity.

    Attributes:
        name: such as "f at probe 0", "noise_scale" or "log joint".
        status: "calibrated"; "too narrow", "too wide" or "shifted", of the draws; "not
            calibrated" where the ranks fit none of these; "not judged" where the draws of a
            replication are worth too few independent ones.
        ranks: of the truth among `among` draws, (R,), without replications that failed.
        among: L; 0 where the quantity is not judged.
        ess: median effective sample size of a replication; NaN for independent draws.
        ess_low: what nine replications in ten have at least.
        test: p-values of the three tests, shift and spread; None where it is not judged.
        p_value: of the three tests together, with one budget over all quantities (Holm).
        failed: replications in which it was not finite.
    """

    name: str
    status: Status
    ranks: np.ndarray
    among: int
    ess: float
    ess_low: float
    test: RankTest | None
    p_value: float
    failed: int

    @property
    def density(self) -> bool:
        """Whether it is a log density, high in the middle of the posterior."""
        return self.name in DENSITIES

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        names = ("name", "status", "p_value", "among", "ess", "ess_low", "failed")
        return {name: getattr(self, name) for name in names} | {
            "test": None if self.test is None else self.test._asdict(),
            "ranks": self.ranks.tolist(),
        }


def judge_quantities(
    lines: Sequence[Line], *, independent: bool, false_alarm: float
) -> list[QuantityCalibration]:
    """Every quantity of the replications that have draws, with one false-alarm budget (Holm)."""
    names = list(dict.fromkeys(name for line in lines for name in line["ranks"]))
    found = [_quantity(name, lines, independent=independent) for name in names]
    tests = {i: q.test for i, q in enumerate(found) if q.test is not None}
    adjusted = holm([test.p_value for test in tests.values()]) if tests else ()
    for i, p_value in zip(tests, map(float, adjusted), strict=True):
        status = _status(found[i], p_value, false_alarm)
        found[i] = replace(found[i], p_value=p_value, status=status)
    return found


def _quantity(name: str, lines: Sequence[Line], *, independent: bool) -> QuantityCalibration:
    own = [line for line in lines if name in line["ranks"] and line["ranks"][name] is not None]
    ess = np.array([line["ess"][name] for line in own], dtype=float)
    ranks = np.array([line["ranks"][name] for line in own], dtype=int).reshape(-1, len(LEVELS))
    level = _level(ess, ranks, independent=independent)
    column = ranks[:, level or 0]
    among = 0 if level is None else LEVELS[level]
    if len(own) < max(2, (1 - _MOST_FAILED) * len(lines)):
        among = 0
    unknown = independent or not ess.size
    return QuantityCalibration(
        name=name,
        status="not judged",
        ranks=column,
        among=among,
        ess=float("nan") if unknown else float(np.median(ess)),
        ess_low=float("nan") if unknown else float(np.quantile(ess, 1 - _SHARE)),
        test=rank_test(column, among) if among else None,
        p_value=float("nan"),
        failed=len(lines) - len(own),
    )


def _level(ess: np.ndarray, ranks: np.ndarray, *, independent: bool) -> int | None:
    """The largest number of draws that nearly all replications have independent ones for."""
    for index, level in enumerate(LEVELS):
        if not len(ranks) or (ranks[:, index] < 0).any():
            continue
        if independent:
            return index
        if level >= _FEWEST_OF_CHAINS and np.mean(ess >= _ESS_PER_DRAW * level) >= _SHARE:
            return index
    return None


def _status(quantity: QuantityCalibration, p_value: float, false_alarm: float) -> Status:
    test = quantity.test
    if p_value >= false_alarm or test is None:
        return "calibrated"
    shift, spread = test.z_shift, test.z_spread
    if quantity.density:
        # High in the middle of the posterior: a truth below its draws is farther out than they.
        if abs(shift) < _CLEAR:
            return "not calibrated"
        return "too narrow" if shift < 0 else "too wide"
    if max(abs(shift), abs(spread)) < _CLEAR:
        return "not calibrated"
    # Ranks that crowd at one end lie far from the middle one, though the draws may be wide.
    if spread > max(abs(shift), _CLEAR) and test.spread < 1:
        return "too narrow"
    if -spread > max(abs(shift), _CLEAR):
        return "too wide"
    return "shifted" if abs(shift) >= _CLEAR else "not calibrated"


def overall_status(found: Sequence[QuantityCalibration], failed: int, replications: int) -> Status:
    """That of the calibration: the clear departure that all wrong quantities share."""
    if failed > _MOST_FAILED * replications:
        return "not calibrated"
    if all(q.status == "calibrated" for q in found):
        return "calibrated"
    for group in ([q for q in found if not q.density], [q for q in found if q.density]):
        # Functions and scalars say what is wrong; densities only where those show nothing.
        kinds = {q.status for q in group} - {"calibrated", "not judged"}
        clear = kinds - {"not calibrated"}
        for one in ("too narrow", "too wide", "shifted"):
            if one in clear and clear <= {one, "shifted"}:  # what is narrow is often off as well
                return one
        if kinds:
            return "not calibrated"
    return "not judged"
