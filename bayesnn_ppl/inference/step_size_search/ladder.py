"""What pilot runs over a ladder of step sizes have found."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.diagnostics.temperature.estimators import zero_step_limit
from bayesnn_ppl.diagnostics.temperature.readings import Thermometry

__all__ = ["PilotRun", "StepSizeSearch", "zero_step_temperatures"]


@readable
@dataclass(frozen=True)
class PilotRun:
    """One rung of the ladder.

    Attributes:
        step_size: ε.
        status: that of its temperatures, or "not finite" when a chain stopped.
        coldest, hottest: temperatures of the parameter arrays, as multiples of T; NaN where the
            run was not finite.
        draws: of each chain.
        temperatures: all readings, or None.
    """

    step_size: float
    status: str
    coldest: float
    hottest: float
    draws: int
    temperatures: Thermometry | None

    @property
    def passed(self) -> bool:
        """Whether all temperatures are right."""
        return self.status == "right"


@readable
@dataclass(frozen=True)
class StepSizeSearch:
    """What the pilot runs found; `print` shows the ladder.

    Attributes:
        step_size: the largest ε of the ladder that passed; None when none did. For N rows it is
            the learning rate ε·N on the mean loss.
        kernel: a copy of the kernel with that step size, or None.
        sentence: what was found, or what to do instead.
        ladder: the pilot runs by falling step size.
        zero_step: parameter array -> temperature extrapolated to ε = 0, and its standard error;
            from the runs whose temperatures are within a half of T, where there are two at least.
    """

    step_size: float | None
    kernel: Any
    sentence: str
    ladder: tuple[PilotRun, ...]
    zero_step: dict[str, tuple[float, float]]

    def _figures(self) -> dict[str, Any]:
        return {"step_size": self.step_size, "pilot_runs": len(self.ladder), "found": self.sentence}

    def __str__(self) -> str:
        lines = [*textwrap.wrap(self.sentence, 88), ""]
        lines.append(f"{'step size':>10}  {'coldest/T':>9}  {'hottest/T':>9}  {'draws':>6}  status")
        for run in self.ladder:
            mark = "  <- chosen" if run.step_size == self.step_size else ""
            lines.append(
                f"{run.step_size:>10.2e}  {run.coldest:>9.3f}  {run.hottest:>9.3f}  "
                f"{run.draws:>6}  {run.status}{mark}"
            )
        return "\n".join(lines)

    def arrays(self) -> dict[str, Any]:
        """The arguments of `plots.plot_step_sizes`, which draws the ladder."""
        return {
            "step_sizes": [run.step_size for run in self.ladder],
            "hottest": [run.hottest for run in self.ladder],
            "coldest": [run.coldest for run in self.ladder],
            "passed": [run.passed for run in self.ladder],
            "chosen": self.step_size,
        }


def zero_step_temperatures(ladder: Sequence[PilotRun]) -> dict[str, tuple[float, float]]:
    """Parameter array -> T_0 and its error, from the runs within a half of T; {} for one run."""
    usable = [
        run
        for run in ladder
        if run.temperatures is not None and 0.5 < run.coldest and run.hottest < 1.5
    ]
    if len(usable) < 2:
        return {}
    steps = np.array([run.step_size for run in usable])
    tables = [[_best(a) for a in run.temperatures.arrays] for run in usable if run.temperatures]
    values, errors = np.moveaxis(np.array(tables, dtype=float), 2, 0)
    if not np.all(errors > 0):
        return {}
    limit, error = zero_step_limit(steps, values, errors)
    arrays = usable[0].temperatures.arrays if usable[0].temperatures else ()
    return {a.name: (float(v), float(e)) for a, v, e in zip(arrays, limit, error, strict=True)}


def _best(array: Any) -> tuple[float, float]:
    """The more precise of the readings of an array: its value and standard error."""
    given = [r for r in (array.kinetic, array.configurational) if r is not None]
    best = min(given, key=lambda r: r.error)
    return best.value, best.error
