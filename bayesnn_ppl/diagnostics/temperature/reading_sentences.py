"""Sentences on temperatures: each kind of fault, its layers, its cause and the remedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from bayesnn_ppl.diagnostics.temperature.readings import (
    SHIFTED,
    ArrayTemperature,
    Dynamics,
    Reading,
)

__all__ = ["Judged", "output_sentences", "sentences"]

_NAMED = 4


@dataclass(frozen=True)
class Judged:
    """What sentences are made of.

    Attributes:
        arrays: with their kinds.
        kernel: name of the sampler.
        kinetic_distribution: that of its momenta, by name; "none" without momenta.
        dynamics: whether it injects noise, see `judge_temperatures`.
        temperature, tolerance: T, and the share of it that a right reading may miss.
        step_factor: what to multiply the step size by, or None.
        both: whether both temperatures were measured.
    """

    arrays: Sequence[ArrayTemperature]
    kernel: str
    kinetic_distribution: str
    dynamics: Dynamics
    temperature: float
    tolerance: float
    step_factor: float | None
    both: bool


def sentences(judged: Judged) -> list[str]:
    """A sentence or two for each kind of array, the faults first."""
    arrays, temperature, step_factor = judged.arrays, judged.temperature, judged.step_factor
    groups: dict[str, list[ArrayTemperature]] = {}
    for array in arrays:
        groups.setdefault(array.kind, []).append(array)
    found = [
        _fault(kind, groups[kind], judged)
        for kind in ("broken", "frozen", "strong", "weak", "momenta", "cold", "hot")
        if kind in groups
    ]
    right = groups.get("right", [])
    if right:
        whole = len(right) == len(arrays)
        found.append(
            f"{_count(len(right), len(arrays))} right: the intervals "
            f"reach T = {temperature:g} ± {100 * judged.tolerance:g} %{_range(right)}."
        )
        if whole and step_factor is not None and step_factor > 4:
            found.append(
                "According to the temperatures, the step size could be larger, by a factor of "
                f"about {step_factor:.2g}."
            )
    found += [
        _fault(kind, groups[kind], judged)
        for kind in ("apart", "off", "not known")
        if kind in groups
    ]
    if judged.kinetic_distribution == "none" and judged.dynamics == "noise":
        found.append(f"{judged.kernel} has no momenta, hence no kinetic temperature.")
    elif judged.kinetic_distribution == "thermostat":
        found.append(
            f"The thermostat of {judged.kernel} holds the kinetic temperature at T whatever the "
            "noise: the configurational one decides."
        )
    return found


def output_sentences(
    directions: Sequence[ArrayTemperature], shifts: Sequence[Reading], temperature: float
) -> list[str]:
    """What the temperatures of the function outputs say of their spread.

    Args:
        directions: of the outputs, with their kinds; [] where they were not looked at.
        shifts: of the means along them, in standard deviations.
        temperature: T.
    """
    found = []
    for kind, words in (("hot", "large"), ("cold", "small")):
        group = [a for a in directions if a.kind == kind and a.configurational is not None]
        if group:
            values = [a.configurational.value for a in group if a.configurational]
            worst = max(values) if kind == "hot" else max(min(values), 0.0)
            excess = abs((worst / temperature) ** 0.5 - 1)
            found.append(
                f"In {len(group)} of {len(directions)} directions of the function outputs the "
                f"spread of the draws is wrong{_range(group)}: their standard deviation is too "
                f"{words} by up to {100 * excess:.0f} %."
            )
    unknown = [a for a in directions if a.kind == "not known"]
    if unknown:
        found.append(
            f"{len(unknown)} of {len(directions)} directions of the function outputs: not known, "
            f"the intervals are too wide{_range(unknown)}."
        )
    moved = [r for r in shifts if r.lower > SHIFTED or r.upper < -SHIFTED]
    if moved:
        most = max(abs(r.value) for r in moved)
        found.append(
            f"In {len(moved)} of {len(shifts)} directions the mean of the function outputs is off, "
            f"by up to {most:.2g} standard deviations: the draws miss a region, or are shifted to "
            "one side."
        )
    right = [a for a in directions if a.kind == "right"]
    if right and len(right) == len(directions):
        found.append(
            f"All {len(right)} directions of the function outputs are right{_range(right)}."
        )
    return found


def _fault(kind: str, group: Sequence[ArrayTemperature], judged: Judged) -> str:
    arrays, kernel, both = judged.arrays, judged.kernel, judged.both
    temperature, step_factor = judged.temperature, judged.step_factor
    names = _names(group, arrays)
    one = len(group) == 1
    verb = "is" if one else "are"
    if kind == "broken":
        return f"{names}: draws are not finite. Lower the step size, and check the data."
    if kind == "frozen":
        return (
            f"{names} {'does' if one else 'do'} not move: {'its' if one else 'their'} draws are "
            "one constant. Nothing is sampled there; look for a stopped gradient, a mask, or an "
            "enormous mass."
        )
    if kind in ("strong", "weak"):
        ratio = mean(_ratio(a) for a in group)
        if kind == "strong":
            return (
                f"{names} {verb} too cold in position{_range(group)} while the momenta read "
                f"{_times(1 / max(ratio, 1e-9))} as much. Either the chains still move apart: see "
                "the temperature over time, and warm up for longer. Or the force that moves "
                f"{'it' if one else 'them'} is about {_times(1 / max(ratio, 1e-9))} the model's "
                "gradient: a term is counted more than once (the likelihood's N/B, a prior, a sum "
                "over devices)."
            )
        return (
            f"{names} {verb} too hot in position{_range(group)} while the momenta read "
            f"{_times(1 / ratio)} as much. Either the chains are still moving to the posterior: "
            "look at the temperature over time, and warm up for longer. Or the force lacks a part "
            "of the model's gradient (a forgotten prior, a likelihood without its N/B)."
        )
    if kind == "momenta":
        return (
            f"{names}: the momenta do not have the integrator's distribution at a short "
            f"step{_range(group)}. Lower the step size. In a kernel of your own, check that the "
            "integrator is the one in use, that momenta are refreshed with noise √(2T(1-β)M), and "
            "that positions move with the new momentum."
        )
    if kind == "off":
        return (
            f"{names} {'reads' if one else 'read'} another temperature than T = {temperature:g}"
            f"{_range(group)}, which is not judged: {kernel} has an accept step, so neither step "
            "size nor noise changes its temperature. Its chains mix slowly or have not reached "
            "the posterior, which R-hat and effective sample sizes show. Or it is chance, as in "
            "one run of a hundred."
        )
    if judged.dynamics == "unadjusted" and kind in ("cold", "hot"):
        return (
            f"{names} {verb} too {kind}{_range(group)}: {kernel} has no accept step, and its step "
            "is too long, or its chains mix slowly or have not reached the posterior, which R-hat "
            "and effective sample sizes show. Lower the step size, or warm up for longer."
        )
    if kind == "cold":
        return (
            f"{names} {verb} too cold{_range(group)}: "
            + ("positions and momenta agree, so the force is right and " if both else "")
            + "the injected noise is too weak. Half of T is what noise √ε in place of √(2ε) gives; "
            "check the noise and temperature schedules over the kept draws."
        )
    if kind == "hot":
        least = min(_readings(a)[0].value for a in group)
        others = [_readings(a)[0].value for a in arrays if a.kind == "right"]
        some = bool(others) and max(others) - temperature < (least - temperature) / 2
        less = ""
        if step_factor is not None and step_factor < 1:
            less = f" at least {1 / step_factor:.2g}-fold"
        apart = any(a.kinetic is not None and a.kinetic.rhat > 1.2 for a in group)
        return (
            f"{names} {verb} too hot{_range(group)}: "
            + ("positions and momenta agree, so the force is right, and " if both else "")
            + "the step is too long or the minibatch gradients too noisy. Lower the step size"
            + less
            + ", raise the batch size, or take a gradient with less noise (control variates, SVRG)"
            + (
                "; the step suits the other arrays, so a preconditioner helps as well."
                if some
                else "."
            )
            + (" The chains differ in temperature: are the momenta refreshed?" if apart else "")
        )
    if kind == "apart":
        return (
            f"{names}: the chains have different kinetic temperatures, and keep them. Either the "
            "momenta are not refreshed (no friction, no noise), or the run is too short for them "
            "to forget their start."
        )
    return (
        f"{names}: not known, the intervals are too wide or the chains too slow{_range(group)}. "
        "Make more draws, or use more gradients."
    )


def _names(group: Sequence[ArrayTemperature], arrays: Sequence[ArrayTemperature]) -> str:
    if len(group) == len(arrays) and len(arrays) > 1:
        return f"All {len(arrays)} parameter arrays"
    shown = [f"`{a.name}`" for a in group[:_NAMED]]
    if len(group) > _NAMED:
        shown.append(f"{len(group) - _NAMED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _count(some: int, all_of: int) -> str:
    """The subject of a sentence, with its verb."""
    if all_of == 1:
        return "The one parameter array is"
    if some == all_of:
        return f"All {all_of} parameter arrays are"
    return f"{some} of the {all_of} parameter arrays {'is' if some == 1 else 'are'}"


def _readings(array: ArrayTemperature) -> list[Any]:
    """Configurational first: the one about the draws themselves."""
    return [r for r in (array.configurational, array.kinetic) if r is not None]


def _range(group: Sequence[ArrayTemperature]) -> str:
    values = [_readings(a)[0].value for a in group]
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return f" ({low})" if low == high else f" ({low} to {high})"


def _ratio(array: ArrayTemperature) -> float:
    assert array.kinetic is not None and array.configurational is not None
    return array.configurational.value / max(array.kinetic.value, 1e-12)


def _times(factor: float) -> str:
    return f"{factor:.2g} times"
