"""The result of a calibration: ranks, p-values, and a verdict in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.calibration import wording
from bayesnn_ppl.calibration.judging import (
    QuantityCalibration,
    Status,
    judge_quantities,
    overall_status,
)
from bayesnn_ppl.calibration.record import Line, read_calibration
from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.core.wording import json_text


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
        names = ("status", "p_value", "replications")
        return {n: getattr(self, n) for n in names} | {"quantities": len(self.quantities)}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries, lists and numbers."""
        names = (
            *("status", "calibrated", "verdict", "p_value", "false_alarm", "replications"),
            *("failed", "interrupted", "seconds"),
        )
        return {name: getattr(self, name) for name in names} | {
            "quantities": [q.to_dict() for q in self.quantities],
            "record": dict(self.record),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON; NaN and infinities become null."""
        return json_text(self.to_dict())

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
    """The verdict on replications."""
    whole = [line for line in lines if line["failed"] is None]
    if len(whole) < 2:
        raise ValueError(
            f"{len(whole)} of {len(lines)} replications have draws, and a verdict needs two at "
            "least. " + (lines[0]["failed"] or "" if lines else "")
        )
    false_alarm, failed = config["false_alarm"], len(lines) - len(whole)
    found = judge_quantities(whole, independent=config["independent"], false_alarm=false_alarm)
    p_values = [q.p_value for q in found if q.test is not None]
    seen = {
        "divergent_replications": sum(line["divergences"] > 0 for line in whole),
        "stopped_replications": sum(line["stopped"] > 0 for line in whole),
        "compile_seconds": whole[0]["compile_seconds"],
    }
    draft = Calibration(
        status=overall_status(found, failed, len(lines)),
        verdict="",
        p_value=min(p_values, default=float("nan")),
        false_alarm=false_alarm,
        replications=len(lines),
        failed=failed,
        interrupted=interrupted,
        quantities=tuple(found),
        record={**config, **seen},
        seconds=round(sum(line["seconds"] for line in lines), 3),
    )
    return replace(draft, verdict=wording.verdict(draft))
