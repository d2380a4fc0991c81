"""What the temperatures of a run say: too hot, too cold or right, which layers, what to change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.diagnostics.presentation import cut, paragraph
from bayesnn_ppl.diagnostics.temperature.estimators import Measured

__all__ = ["ArrayTemperature", "Reading", "TemperatureStatus", "Thermometry"]

type TemperatureStatus = Literal["right", "too hot", "too cold", "frozen", "wrong", "not known"]
type Kind = Literal[
    "right",
    "hot",
    "cold",
    "strong",
    "weak",
    "momenta",
    "frozen",
    "apart",
    "off",
    "broken",
    "not known",
]
type Dynamics = Literal["noise", "accept step", "unadjusted"]

STATUS_OF: Mapping[str, TemperatureStatus] = {
    "right": "right",
    "hot": "too hot",
    "cold": "too cold",
    "strong": "too cold",
    "weak": "too hot",
    "momenta": "wrong",
    "frozen": "frozen",
    "apart": "not known",
    "off": "not known",
    "broken": "wrong",
    "not known": "not known",
}

# Standard deviations by which the mean of an output may certainly be off.
SHIFTED = 0.1


@readable
@dataclass(frozen=True)
class Reading:
    """One temperature of one parameter array, in units in which a right sampler reads T.

    Attributes:
        value, error: mean over the run and its standard error.
        lower, upper: an interval, simultaneous over all readings of the run.
        ess: effective sample size of the mean; rhat: whether the chains have one temperature.
        over_time: `(value, lower, upper)` of consecutive parts of the run.
    """

    value: float
    error: float
    lower: float
    upper: float
    ess: float
    rhat: float
    over_time: tuple[tuple[float, float, float], ...]

    def _figures(self) -> dict[str, Any]:
        names = ("value", "error", "lower", "upper", "ess", "rhat")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of(cls, found: Measured, index: int) -> Self:
        """That of one of several series measured together."""
        parts = (found.part_value[index], found.part_lower[index], found.part_upper[index])
        return cls(
            value=float(found.value[index]),
            error=float(found.error[index]),
            lower=float(found.lower[index]),
            upper=float(found.upper[index]),
            ess=float(found.ess[index]),
            rhat=float(found.rhat[index]),
            over_time=tuple((float(v), float(a), float(b)) for v, a, b in zip(*parts, strict=True)),
        )


@dataclass(frozen=True)
class ArrayTemperature:
    """Both temperatures of one parameter array; None where one was not measured.

    `kind` is what the pair of them says: "right", "hot" and "cold" (both alike), "strong" and
    "weak" (the force against the model's), "momenta" (these alone are off), "frozen", "apart"
    (chains of different temperatures), "off" (hot or cold, of a kernel with an accept step, whose
    draws are few or slow then), "broken" (not finite) or "not known" (too few draws).
    """

    name: str
    elements: int
    kinetic: Reading | None
    configurational: Reading | None
    kind: Kind

    @property
    def status(self) -> TemperatureStatus:
        return STATUS_OF[self.kind]


@readable
@dataclass(frozen=True)
class Thermometry:
    """The verdict of the temperature diagnostics; `print` shows it.

    Attributes:
        status: "right", "too hot", "too cold", "frozen", "wrong" (several of these, or worse), or
            "not known" when the draws are too few for some array.
        verdict: which layers, why, and what to change, in sentences.
        temperature: T that was asked for; tolerance: the share by which a right one may miss it.
        arrays: one `ArrayTemperature` for each parameter array.
        functions: the same of directions of the function outputs, if they were looked at.
        shifts: how far the means along those directions are off, in standard deviations.
        step_factor: by what to multiply the step size for the hottest array to be within half
            the tolerance, as far as its excess comes from the step; None where not known, and for
            kernels that inject no noise.
    """

    status: TemperatureStatus
    verdict: str
    temperature: float
    tolerance: float
    kernel: str
    arrays: tuple[ArrayTemperature, ...]
    step_factor: float | None
    functions: tuple[ArrayTemperature, ...] = ()
    shifts: tuple[Reading, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether an array is frozen or not finite."""
        return any(a.status in ("frozen", "wrong") for a in self.arrays)

    @property
    def positions_read(self) -> bool:
        """Whether configurational temperatures of all arrays were read."""
        return all(a.configurational is not None for a in self.arrays)

    @property
    def beyond(self) -> bool:
        """Whether a temperature lies outside T/2 to 2 T.

        However wide its interval, of a parameter array. A direction of the outputs is one number
        and not a mean over many, so it must also lie two standard errors away from T.
        """
        of_arrays = [r for a in self.arrays for r in (a.configurational, a.kinetic) if r]
        of_outputs = [
            a.configurational
            for a in self.functions
            if a.configurational
            and abs(a.configurational.value - self.temperature) > 2 * a.configurational.error
        ]
        return any(
            not 0.5 <= reading.value / self.temperature <= 2 for reading in of_arrays + of_outputs
        )

    @property
    def right(self) -> bool:
        """Whether the status is "right"."""
        return self.status == "right"

    def __str__(self) -> str:
        lines = [f"Temperatures of {self.kernel}: {self.status}", ""]
        lines += paragraph(self.verdict)
        shown = (*self.arrays, *self.functions)
        width = min(44, max([5, *(len(a.name) for a in shown)]))
        lines += ["", f"{'array':<{width}} {'count':>8}  {'kinetic':>15}  {'configurational':>15}"]
        for a in shown:
            cells = f"{_cell(a.kinetic):>15}  {_cell(a.configurational):>15}"
            lines.append(f"{cut(a.name, width):<{width}} {a.elements:>8}  {cells}  {a.status}")
        return "\n".join(lines)

    def _figures(self) -> dict[str, Any]:
        ranges = {
            name: (float(np.nanmin(read[:, 0])), float(np.nanmax(read[:, 0])))
            for name, read in self.readings().items()
        }
        return {
            "status": self.status,
            "kernel": self.kernel,
            "temperature": self.temperature,
            "arrays": len(self.arrays),
            **ranges,
        }

    def _repr_html_(self) -> str:
        shown = (*self.arrays, *self.functions)
        rows = [
            (a.name, str(a.elements), _cell(a.kinetic), _cell(a.configurational), a.status)
            for a in shown
        ]
        header = ("array", "count", "kinetic", "configurational", "")
        title = f"Temperatures of {self.kernel}: {self.status}. {self.verdict}"
        return html_table(title, rows, header)

    def brief(self) -> str:
        """The status and the range of each temperature, on one line."""
        ranges = [
            f"{name} {np.nanmin(read[:, 0]):.3g} to {np.nanmax(read[:, 0]):.3g}"
            for name, read in self.readings().items()
        ]
        if self.functions:
            read = [a.configurational.value for a in self.functions if a.configurational]
            ranges.append(f"function outputs {min(read):.3g} to {max(read):.3g}")
        word: str = self.status
        kinds = {a.status for a in (*self.arrays, *self.functions)}
        if self.moved and kinds <= {"right", "not known"}:  # it is not the spreads that are wrong
            spreads = "not known" if "not known" in kinds else "right"
            word = f"{spreads}, means off in {self.moved} of {len(self.shifts)} directions"
        return f"{word}; T = {self.temperature:g}, " + ", ".join(ranges)

    @property
    def moved(self) -> int:
        """In how many directions the mean of the function outputs is off."""
        return sum(r.lower > SHIFTED or r.upper < -SHIFTED for r in self.shifts)

    def readings(self) -> dict[str, np.ndarray]:
        """Diagnostic -> `(value, lower, upper)` of each array, (arrays, 3); what plots take."""
        return self._collect(lambda r: (r.value, r.lower, r.upper), (np.nan,) * 3)

    def over_time(self) -> dict[str, np.ndarray]:
        """Diagnostic -> the same for each part of the run, (arrays, parts, 3)."""
        return self._collect(lambda r: r.over_time, None)

    def _collect(self, field: Any, missing: Any) -> dict[str, np.ndarray]:
        found = {}
        for name in ("kinetic", "configurational"):
            given = [getattr(a, name) for a in self.arrays]
            if any(r is not None for r in given):
                known = [missing if r is None else field(r) for r in given]
                found[name] = np.array(known, dtype=float)
        return found


def _cell(reading: Reading | None) -> str:
    if reading is None:
        return "-"
    reach = (reading.upper - reading.lower) / 2
    if max(abs(reading.value), reach) >= 1000:
        return f"{reading.value:.2g} ±{reach:.2g}"
    return f"{reading.value:.3f} ±{reach:.3f}"
