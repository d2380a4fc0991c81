"""The largest step size at which a stochastic-gradient sampler still has the right temperatures."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import integer, positive, strict_switches
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import StochasticGradientKernel
from bayesnn_ppl.inference.step_size_search.ladder import (
    PilotRun,
    StepSizeSearch,
    zero_step_temperatures,
)
from bayesnn_ppl.inference.step_size_search.pilots import Pilots, stopped
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["find_step_size"]

_RATIO = 8.0  # up from a step that passes; temperatures are off by O(ε)
_MOST_RUNGS = 16
# Between the longest step that passed and the shortest that did not: how many are tried, and at
# which ratio of the two none is.
_REFINED, _NEAR = 3, 2.5
_UNSTABLE = 3.0  # the excess over T, in T, that is taken for a step at which a chain stopped
_SHARPER = 2.0  # half the widest interval that passes, in tolerances
_CERTAIN = 5.0  # tolerances beyond which a temperature is too high, whatever its interval
_FAR = 3.0  # the kernel's own step over the one found, or the reverse, from which it is said
_FEWEST_DRAWS = 16
_LONGER = 4  # how often a pilot whose intervals are too wide is repeated, twice as long


@strict_switches
def find_step_size(
    kernel: StochasticGradientKernel,
    x: Any,
    y: Any,
    *,
    step_sizes: Sequence[float] | None = None,
    warmup: int = 80,
    draws: int | None = None,
    chains: int = 4,
    seed: int = 0,
    tolerance: float = 0.1,
    float64: bool = False,
    init: Any = None,
    report: Callable[[str], Any] | None = None,
) -> StepSizeSearch:
    """Pilot runs over a ladder of step sizes: the largest whose temperatures pass.

    Pilots begin near the posterior, where SGLD with a moving RMSProp preconditioner leads, which
    no scale of the gradients upsets. Without a ladder the search begins at the kernel's own step
    and goes up by factors of 8, or down to where the excess of the temperature, which goes as ε,
    should be gone, until the verdict changes; then at most three steps are tried in between. Each
    pilot starts where the last that passed ended.

    Every kernel is tried as SGHMC with its β, of which the momenta alone tell: within a few steps
    they have the temperature of the step and of the gradients' noise, and that of the positions is
    theirs times (1+β)/2 wherever the chains are stationary, which for a network takes them far
    longer than a pilot. SGLD is SGHMC with β = 0. Of SGNHT and ATMC it is the heat that the
    thermostat has to take up, and of a splitting such as BAOAB the error of the momenta, which
    is as large. A pilot whose intervals are too wide is repeated, twice as long, up to four times.

    At a step that passes no temperature is known to be wrong: one that is a little more than the
    tolerance off may pass, since pilots are short. Nor does it say that the chains mix, which is
    what `diagnose` is for.

    Args:
        kernel: a stochastic-gradient kernel with a constant step size; it is not modified.
            Pilots run at the temperature its schedule ends at, with all of the noise, and with
            draws of 20 steps, or 2/(1 - β) where that is more.
        x, y: the data.
        step_sizes: the ladder, tried from the largest down to the first that passes; None for the
            search above.
        warmup: draws on the way to the posterior; each pilot has a quarter of them.
        draws: of the first and shortest run of each pilot; None for as many as the smallest array
            asks for, 272 of each of four chains where that is a single number.
        chains, seed, float64, init: see `sample`.
        tolerance: the share of T that a right temperature may be off.
        report: called with a line after each pilot, such as `print`.

    Warns:
        UserWarning: the kernel's own step is three times as long as the one found, or as short.

    Raises:
        TypeError, ValueError: the kernel does not use stochastic gradients, its step is a schedule,
            or an argument is out of range; said before anything is compiled.
        RuntimeError: no chain found a start where density and gradient are finite.
    """
    first, given = _check(kernel, x, step_sizes)
    tolerance = positive(tolerance, "`tolerance` of find_step_size")
    if draws is not None:
        integer(draws, "`draws` of find_step_size", at_least=_FEWEST_DRAWS)
    done: dict[float, PilotRun] = {}
    pilots = Pilots(
        kernel, x, y, warmup=warmup, chains=chains, seed=seed, float64=float64, init=init
    )
    shortest = draws or _enough(pilots.start, chains, tolerance)
    start: list[Any] = [None]

    def pilot(step_size: float) -> PilotRun:
        here = start[0]
        for attempt in range(_LONGER + 1):
            length = shortest * 2**attempt
            posterior, end = pilots.run(step_size, length, keep_every=shortest, state=here)
            run = _read(posterior, step_size, length, tolerance)
            if not stopped(posterior):
                here = end
            if run.status != "not known":
                break
        if run.passed:  # others leave chains that a short step would take long to cool
            start[0] = here
        done[step_size] = run
        if report is not None:
            report(f"step size {step_size:.2e}: {run.status}, hottest {run.hottest:.3g} T")
        return run

    if given:
        for step_size in given:
            if pilot(step_size).passed:
                break
    else:
        _search(first, tolerance, pilot)
    found = _found(kernel, done, tolerance)
    far = _far(first, found.step_size)
    if far:
        warnings.warn(f"{type(kernel).__name__}: {far}", stacklevel=2)
        found = replace(found, sentence=f"{found.sentence} {far}")
    return found


def _far(own: float, found: float | None) -> str:
    """What to say of the kernel's own step where it is far from the one found; else nothing."""
    if found is None or 1 / _FAR < own / found < _FAR:
        return ""
    if own > found:
        return (
            f"Its own step size, {own:.2e}, is {own / found:.0f} times as long: draws at it are "
            "spread wider than the posterior."
        )
    return (
        f"Its own step size, {own:.2e}, is {found / own:.0f} times shorter: chains at it move more "
        "slowly than they need to."
    )


def _search(step_size: float, tolerance: float, pilot: Callable[[float], PilotRun]) -> None:
    """Up or down until the verdict changes, then in between until the last two are near.

    It ends where a pilot on the way down is too short to tell: of shorter steps it says no more.
    Where none has passed, pilots begin where the way to the posterior ended, which may be far from
    it; once one has, what failed there is tried again.
    """
    good = bad = None
    refined = 0
    for _ in range(_MOST_RUNGS):
        run = pilot(step_size)
        if run.passed:
            good, bad = step_size, None if good is None else bad
        else:
            bad = step_size
        if good is not None and bad is not None:
            if refined == _REFINED or bad / good < _NEAR:
                return
            refined += 1
            step_size = good * math.sqrt(bad / good)
        elif run.passed:
            step_size *= _RATIO
        elif run.status == "not known":
            return
        else:
            # A chain that stopped says nothing of how far; an excess goes as ε, at the least.
            excess = _UNSTABLE if math.isnan(run.hottest) else run.hottest - 1
            step_size *= tolerance / max(2 * excess, 2 * tolerance)


def _check(kernel: Any, x: Any, step_sizes: Sequence[float] | None) -> tuple[float, list[float]]:
    """The kernel's own step, and the ladder from the largest down."""
    if not isinstance(kernel, StochasticGradientKernel):
        raise TypeError(
            "find_step_size takes a stochastic-gradient kernel, such as SGHMC(model, ...), not "
            f"{type(kernel).__name__}: kernels with an accept step adapt theirs in the warm-up."
        )
    rate = getattr(kernel, "learning_rate", None)
    value = kernel.step_size if rate is None else rate
    if callable(value):
        raise ValueError(
            f"The step size of {type(kernel).__name__} is the schedule {value!r}, and a pilot "
            "looks for one number. Search with a constant step, and make the schedule from what "
            "is found: it may begin there or end there."
        )
    own = float(value) if rate is None else float(value) / len(x)
    ladder = [
        positive(s, f"`step_sizes[{i}]` of find_step_size") for i, s in enumerate(step_sizes or ())
    ]
    if step_sizes is not None and not ladder:
        raise ValueError("`step_sizes` is empty; leave it out to search from the kernel's own.")
    return own, sorted(set(ladder), reverse=True)


def _enough(ends: Any, chains: int, tolerance: float) -> int:
    """Draws of each chain by which the mean of p² over the smallest array is known well enough.

    Its relative error is √(2/dn), and an interval of all arrays reaches 3.5 of them, or so.
    """
    arrays = ends.values() if isinstance(ends, Mapping) else ()
    smallest = min((int(np.prod(array.shape[1:])) for array in arrays), default=1)
    reach = 0.75 * _SHARPER * tolerance
    return max(_FEWEST_DRAWS, math.ceil(2 * (3.5 / reach) ** 2 / (smallest * chains)))


def _read(posterior: Posterior, step_size: float, draws: int, tolerance: float) -> PilotRun:
    if stopped(posterior):
        return PilotRun(step_size, "not finite", math.nan, math.nan, draws, None)
    # A ladder has to see a fault as large as the tolerance or so, and can run on until it does.
    found = posterior.temperatures(tolerance=tolerance, resolution=_SHARPER * tolerance)
    values = found.readings()["kinetic"][:, 0] / found.temperature
    if not np.isfinite(values).all():
        return PilotRun(step_size, "not finite", math.nan, math.nan, draws, found)
    status, ends = found.status, (float(values.min()), float(values.max()))
    if status == "not known" and ends[1] > 1 + _CERTAIN * tolerance:
        # Of chains that are still cooling, whose intervals are wide, and longer pilots as well.
        status = "too hot"
    return PilotRun(step_size, status, *ends, draws, found)


def _found(kernel: Any, pilots: dict[float, PilotRun], tolerance: float) -> StepSizeSearch:
    ladder = tuple(pilots[step] for step in sorted(pilots, reverse=True))
    good = [run for run in ladder if run.passed]
    chosen = good[0].step_size if good else None
    limits = zero_step_temperatures(ladder)
    name = type(kernel).__name__
    if chosen is not None:
        best = good[0]
        sentence = (
            f"{chosen:.2e} is the largest step size of the ladder at which no temperature of "
            f"{name} differs from T by more than {100 * tolerance:g} % beyond its error: they read "
            f"{best.coldest:.3g} to {best.hottest:.3g} T in {best.draws} draws of a chain."
        )
        if chosen == ladder[0].step_size:
            sentence += " It is the largest that was tried; a longer one may pass as well."
    elif ladder[-1].status == "not known":
        sentence = (
            f"No step size passed: at {ladder[-1].step_size:.2e} the pilot is too short to tell. "
            "Give the search more `draws`."
        )
    else:
        last = ladder[-1]
        detail = last.temperatures.verdict if last.temperatures is not None else "A chain stopped."
        sentence = (
            f"No step size passed; the smallest, {last.step_size:.2e}, is {last.status}. If the "
            "temperatures do not come nearer to T as the step falls, the step is not what is "
            f"wrong. {detail}"
        )
    return StepSizeSearch(
        step_size=chosen,
        kernel=None if chosen is None else kernel.with_step_size(chosen),
        sentence=sentence,
        ladder=ladder,
        zero_step=limits,
    )
