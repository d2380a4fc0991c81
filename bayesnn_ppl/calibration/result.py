"""The result of a calibration: ranks, p-values, and a verdict in words."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayesnn_ppl.calibration import wording
from bayesnn_ppl.calibration.quantities import DENSITIES
from bayesnn_ppl.calibration.record import Line, read_calibration
from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.diagnostics.convergence.rank_uniformity import RankTest, holm, rank_test

__all__ = ["LEVELS", "Calibration", "QuantityCalibration", "judged"]

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
        return {
            "name": self.name,
            "status": self.status,
            "p_value": self.p_value,
            "among": self.among,
            "ess": self.ess,
            "ess_low": self.ess_low,
            "failed": self.failed,
            "test": None if self.test is None else self.test._asdict(),
            "ranks": self.ranks.tolist(),
        }


@readable
@dataclass(frozen=True, eq=False)
class Calibration:
    """What a calibration found; `print` shows it, `plot` draws it.

    Attributes:
        status: "calibrated": no departure was found; "too narrow", "too wide", "shifted": all
            functions and scalars that depart do so in this way, or, where none does, all log
            densities; "not calibrated": in several ways, or
            another; "not judged": too few independent draws.
        verdict: what that means and what to do, in sentences.
        p_value: the smallest over all quantities, with one budget (Holm).
        false_alarm: probability at which a right method is called wrong.
        replications: that are done.
        failed: replications among them that gave no draws at all.
        interrupted: whether Ctrl-C ended it.
        quantities: one by one, in the order of the model.
        record: settings, versions, model and method.
        seconds: that the replications took, compilation included.
    """

    status: Status
    verdict: str
    p_value: float
    false_alarm: float
    replications: int
    failed: int
    interrupted: bool
    quantities: tuple[QuantityCalibration, ...]
    record: Mapping[str, Any]
    seconds: float

    @classmethod
    def load(cls, path: str | Path) -> "Calibration":
        """A calibration from its folder; neither the model nor the data are needed.

        Raises:
            FileNotFoundError, ValueError: the folder holds no calibration, or too little of one.
        """
        config, done = read_calibration(Path(path))
        return judged(config, [done[r] for r in sorted(done)], interrupted=False)

    @property
    def calibrated(self) -> bool:
        """Whether all quantities were judged, and no departure was found."""
        return self.status == "calibrated"

    @property
    def ranks(self) -> dict[str, np.ndarray]:
        """Name -> ranks (R,), among `among` draws of the quantity of that name."""
        return {q.name: q.ranks for q in self.quantities}

    @property
    def p_values(self) -> dict[str, float]:
        """Name -> p-value with one budget over all quantities; NaN where not judged."""
        return {q.name: q.p_value for q in self.quantities}

    def __str__(self) -> str:
        return wording.text(self)

    def _repr_html_(self) -> str:
        return wording.page(self)

    def _figures(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "p_value": self.p_value,
            "replications": self.replications,
            "quantities": len(self.quantities),
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries, lists and numbers."""
        return {
            "status": self.status,
            "calibrated": self.calibrated,
            "verdict": self.verdict,
            "p_value": self.p_value,
            "false_alarm": self.false_alarm,
            "replications": self.replications,
            "failed": self.failed,
            "interrupted": self.interrupted,
            "seconds": self.seconds,
            "quantities": [q.to_dict() for q in self.quantities],
            "record": dict(self.record),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON; NaN and infinities become null."""
        from bayesnn_ppl.diagnostics.presentation import plain

        return json.dumps(plain(self.to_dict()), indent=2, allow_nan=False)

    def plot(self, *, most: int = 6) -> Any:
        """Histogram and ECDF difference of the ranks, with bands; a Matplotlib figure.

        Args:
            most: quantities that are drawn; of more, those with the smallest p-values.
        """
        from bayesnn_ppl.plots import plot_calibration

        judged = [q for q in self.quantities if q.among]
        if not judged:
            raise ValueError(
                "No quantity was judged, so there are no ranks to draw. " + self.verdict
            )
        smallest = sorted(judged, key=lambda q: q.p_value)[:most]
        shown = [q for q in judged if any(q is s for s in smallest)]
        return plot_calibration(
            {q.name: q.ranks for q in shown},
            [q.among for q in shown],
            labels=[wording.short(q) for q in shown],
            title=wording.title(self),
            caption=wording.caption(self, len(shown), len(judged)),
            false_alarm=self.false_alarm / (3 * len(judged)),
        )


def judged(config: Mapping[str, Any], lines: Sequence[Line], *, interrupted: bool) -> Calibration:
    """The verdict on replications.

    Raises:
        ValueError: fewer than two of them have draws.
    """
    whole = [line for line in lines if line["failed"] is None]
    if len(whole) < 2:
        raise ValueError(
            f"{len(whole)} of {len(lines)} replications have draws, and a verdict needs two at "
            "least. " + (lines[0]["failed"] or "" if lines else "")
        )
    names = list(dict.fromkeys(name for line in whole for name in line["ranks"]))
    found = [_quantity(name, whole, independent=config["independent"]) for name in names]
    tested = [i for i, q in enumerate(found) if q.test is not None]
    adjusted = holm([found[i].test.p_value for i in tested])  # type: ignore[union-attr]
    for i, p_value in zip(tested, adjusted, strict=True):
        status = _status(found[i], float(p_value), config["false_alarm"])
        found[i] = replace(found[i], p_value=float(p_value), status=status)
    failed = len(lines) - len(whole)
    draft = Calibration(
        status=_overall(found, failed, len(lines)),
        verdict="",
        p_value=float(adjusted.min()) if tested else float("nan"),
        false_alarm=config["false_alarm"],
        replications=len(lines),
        failed=failed,
        interrupted=interrupted,
        quantities=tuple(found),
        record={**config, **_seen(whole)},
        seconds=round(sum(line["seconds"] for line in lines), 3),
    )
    return replace(draft, verdict=wording.verdict(draft))


def _quantity(name: str, lines: Sequence[Line], *, independent: bool) -> QuantityCalibration:
    own = [line for line in lines if name in line["ranks"] and line["ranks"][name] is not None]
    ess = np.array([line["ess"][name] for line in own], dtype=float)
    ranks = np.array([line["ranks"][name] for line in own], dtype=int).reshape(-1, len(LEVELS))
    level = _level(ess, ranks, independent=independent)
    usable = len(own) >= max(2, (1 - _MOST_FAILED) * len(lines))
    judge = level is not None and usable
    unknown = independent or not ess.size
    column = ranks[:, level] if level is not None else ranks[:, 0]
    return QuantityCalibration(
        name=name,
        status="not judged",
        ranks=column,
        among=LEVELS[level] if level is not None and judge else 0,
        ess=float("nan") if unknown else float(np.median(ess)),
        ess_low=float("nan") if unknown else float(np.quantile(ess, 1 - _SHARE)),
        test=rank_test(column, LEVELS[level]) if level is not None and judge else None,
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


def _overall(found: Sequence[QuantityCalibration], failed: int, replications: int) -> Status:
    if failed > _MOST_FAILED * replications:
        return "not calibrated"
    if all(q.status == "calibrated" for q in found):
        return "calibrated"
    for group in ([q for q in found if not q.density], [q for q in found if q.density]):
        # Functions and scalars say what is wrong; densities only where those show nothing.
        kinds = {q.status for q in group} - {"calibrated", "not judged"}
        clear = kinds - {"not calibrated"}
        for one in ("too narrow", "too wide", "shifted"):
            if one in clear and clear <= {
                one,
                "shifted",
            }:  # what is narrow or wide is often off as well
                return one
        if kinds:
            return "not calibrated"
    return "not judged"


def _seen(lines: Sequence[Line]) -> dict[str, Any]:
    """What the replications say of the sampler."""
    return {
        "divergent_replications": sum(line["divergences"] > 0 for line in lines),
        "stopped_replications": sum(line["stopped"] > 0 for line in lines),
        "compile_seconds": lines[0]["compile_seconds"],
    }
