"""From the readings of two temperatures to a verdict on each parameter array."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.diagnostics.temperature.estimators import Measured, expected_kinetic, measure
from bayesnn_ppl.diagnostics.temperature.reading_sentences import (
    Judged,
    output_sentences,
    sentences,
)
from bayesnn_ppl.diagnostics.temperature.readings import (
    SHIFTED,
    STATUS_OF,
    ArrayTemperature,
    Dynamics,
    Kind,
    Reading,
    TemperatureStatus,
    Thermometry,
)

__all__ = ["judge_temperatures"]

_RHAT = 1.2
# Of positions, below which a reading counts: chains that have not been round the posterior read
# anything, and their intervals, from the same few turns, are too narrow.
_SETTLED_RHAT, _SETTLED_ESS = 1.1, 50.0


def judge_temperatures(
    names: Sequence[str],
    sizes: Sequence[int],
    *,
    temperature: float = 1.0,
    kinetic: ArrayLike | None = None,
    configurational: ArrayLike | None = None,
    functions: ArrayLike | None = None,
    shifts: ArrayLike | None = None,
    kinetic_distribution: str = "none",
    momentum_decay: ArrayLike = 0.0,
    frozen: Collection[str] = (),
    kernel: str = "the sampler",
    dynamics: Dynamics = "noise",
    tolerance: float = 0.1,
    resolution: float = 0.35,
    level: float = 0.99,
    parts: int = 8,
    notes: Sequence[str] = (),
) -> Thermometry:
    """Judge the series of both temperatures, array by array and together.

    An array is too hot or too cold if its whole interval lies beyond T(1 ± tolerance), right if the
    interval meets that band and is no wider than ± resolution·T, and not known otherwise, nor by
    positions of chains that have an R-hat above 1.1 or 50 effective draws at most. The
    curvature is not known: the kinetic temperature is divided by its expectation at a small step,
    what the step adds to it is judged as heat, and T_C = T_K·(1+β)/2, exact at any step, is what
    tells a wrong force from wrong noise.

    Args:
        names, sizes: of the parameter arrays.
        temperature: T.
        kinetic: T_K of each draw, (chain, draw, arrays), as measured; None without momenta.
        configurational: T_C of each draw, (chain, draw', arrays); None where not measured.
        functions, shifts: temperatures and shifts of K directions of the function outputs,
            (chain, draw'', K); see `function_temperature`.
        kinetic_distribution, momentum_decay: see `expected_kinetic`; the decay may be (chain,
            draw).
        frozen: names of arrays that never move.
        kernel: its name, for the words.
        dynamics: "noise" where the kernel injects it, as those of stochastic gradients do;
            "accept step", which leaves the posterior unchanged, so that an array which is off
            is not judged; "unadjusted" for any other.
        tolerance, resolution: shares of T.
        level: the probability that all intervals hold.
        parts: of the run, for the temperature over time.
        notes: sentences put at the end of the verdict.

    Raises:
        ValueError: neither temperature is given, or the numbers of arrays differ.
    """
    if kinetic is None and configurational is None:
        raise ValueError("Neither temperature was measured, so there is nothing to judge.")
    read: dict[str, Measured] = {}
    count = sum(series is not None for series in (kinetic, configurational))
    outputs = np.zeros((1, 4, 0)) if functions is None else np.asarray(functions, dtype=float)
    moved = np.zeros((1, 4, 0)) if shifts is None else np.asarray(shifts, dtype=float)
    comparisons = count * len(names) + outputs.shape[2] + moved.shape[2]
    for name, series in (("kinetic", kinetic), ("configurational", configurational)):
        if series is None:
            continue
        values = np.asarray(series, dtype=float)
        if values.ndim != 3 or values.shape[2] != len(names) or len(sizes) != len(names):
            raise ValueError(
                f"`{name}` has shape {values.shape}, but there are {len(names)} names and "
                f"{len(sizes)} sizes: it must be (chain, draw, {len(names)})."
            )
        if name == "kinetic":
            factor = np.asarray(
                expected_kinetic(kinetic_distribution, momentum_decay=momentum_decay)
            )
            values = values / (factor[..., None] if factor.ndim else factor)
        read[name] = measure(
            values,
            level=level,
            comparisons=comparisons,
            parts=parts,
            bootstrap=name == "configurational",
        )
    arrays = []
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        k, c = (
            Reading.of(read[what], i) if what in read else None
            for what in ("kinetic", "configurational")
        )
        kind = (
            "frozen"
            if name in frozen
            else _kind(
                k, c, kinetic_distribution == "thermostat", temperature, tolerance, resolution
            )
        )
        if dynamics == "accept step" and kind in ("hot", "cold", "strong", "weak", "momenta"):
            kind = "off"
        arrays.append(ArrayTemperature(name, int(size), k, c, kind))
    settings = {"level": level, "comparisons": comparisons, "parts": parts, "bootstrap": True}
    directions = []
    for i, reading in enumerate(_readings(outputs, settings)):
        kind = _kind(None, reading, False, temperature, tolerance, resolution)
        directions.append(ArrayTemperature(f"outputs, direction {i + 1}", 1, None, reading, kind))
    off = tuple(_readings(moved, settings))
    found = {STATUS_OF[a.kind] for a in (*arrays, *directions)}
    if any(r.lower > SHIFTED or r.upper < -SHIFTED for r in off):
        found |= {"wrong"}
    wrong = found - {"right", "not known"}
    status: TemperatureStatus = "wrong"
    if len(wrong) == 1:
        status = wrong.pop()
    elif not wrong:
        status = "not known" if "not known" in found else "right"
    # Of other kernels the excess does not go as the step size.
    injects = dynamics == "noise"
    factor_of_step = _step_factor(arrays, temperature, tolerance) if injects else None
    words = sentences(
        Judged(
            arrays,
            kernel,
            kinetic_distribution,
            dynamics,
            temperature,
            tolerance,
            factor_of_step,
            count == 2,
        )
    )
    return Thermometry(
        status=status,
        verdict=" ".join([*words, *output_sentences(directions, off, temperature), *notes]),
        temperature=float(temperature),
        tolerance=tolerance,
        kernel=kernel,
        arrays=tuple(arrays),
        step_factor=factor_of_step,
        functions=tuple(directions),
        shifts=off,
    )


def _readings(series: Any, settings: Mapping[str, Any]) -> list[Reading]:
    """A reading of each series of (chain, draw, K)."""
    if not series.shape[2]:
        return []
    measured = measure(series, **settings)
    return [Reading.of(measured, i) for i in range(series.shape[2])]


def _kind(
    kinetic: Reading | None,
    configurational: Reading | None,
    held: bool,
    temperature: float,
    tolerance: float,
    resolution: float,
) -> Kind:
    given = [r for r in (kinetic, configurational) if r is not None]
    if not all(math.isfinite(r.value) for r in given):
        return "broken"

    def off(r: Reading) -> Kind:
        low, high = temperature * (1 - tolerance), temperature * (1 + tolerance)
        if r.lower > high:
            return "hot"
        if r.upper < low:
            return "cold"
        return "right" if r.upper - r.lower <= 2 * resolution * temperature else "not known"

    settled = configurational is None or (
        configurational.ess >= _SETTLED_ESS and not configurational.rhat > _SETTLED_RHAT
    )
    if kinetic is None or configurational is None:
        alone = off(given[0]) if settled else "not known"
        apart = alone == "not known" and kinetic is not None and kinetic.rhat > _RHAT
        return "apart" if apart else alone
    k, c = off(kinetic), off(configurational) if settled else "not known"
    if not settled and k in ("hot", "cold"):
        return "momenta" if held else k
    if "not known" in (k, c) and "hot" not in (k, c) and "cold" not in (k, c):
        return "apart" if kinetic.rhat > _RHAT else "not known"
    if k == c:
        return k
    # One is off: do the two differ, or is the other one near its bound?
    ratio = configurational.value / kinetic.value if kinetic.value > 0 else math.inf
    spread = (kinetic.upper - kinetic.lower) + (configurational.upper - configurational.lower)
    differ = abs(configurational.value - kinetic.value) > max(spread / 2, tolerance * temperature)
    if not differ and not held:
        return k if k in ("hot", "cold") else c
    if c in ("hot", "cold"):
        if k == "right" or (ratio > 1) == (c == "hot"):
            return "weak" if c == "hot" else "strong"
    return "momenta"


def _step_factor(
    arrays: Sequence[ArrayTemperature], temperature: float, tolerance: float
) -> float | None:
    """The largest factor that can be right: of a Gaussian, e/(1+e) of an excess e goes as ε.

    Noise of minibatches makes e itself go as ε, which asks for more once e is not small.
    """
    excess = []
    for a in arrays:
        # The temperature that is known better, with the end of its interval that is nearer to T.
        given = [r for r in (a.kinetic, a.configurational) if r is not None]
        if a.kind in ("hot", "right"):
            best = min(given, key=lambda r: r.error)
            excess.append((best.value if a.kind == "hot" else best.upper) / temperature - 1)
    if not excess or not math.isfinite(max(excess)) or max(excess) <= 0:
        return None
    worst, wanted = max(excess), tolerance / 2
    return (wanted / (1 + wanted)) / (worst / (1 + worst))
