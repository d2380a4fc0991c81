"""The largest step size at which a stochastic-gradient sampler still has the right temperatures."""

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesnn_ppl.arguments import positive, whole_number
from bayesnn_ppl.inference.kernels.stochastic_gradient import StochasticGradientKernel
from bayesnn_ppl.inference.runner import sample
from bayesnn_ppl.inference.step_size_ladder import (
    PilotRun,
    StepSizeSearch,
    zero_step_temperatures,
)
from bayesnn_ppl.posterior import Posterior

__all__ = ["find_step_size"]

_RATIO = 4.0  # of neighbouring steps of the ladder; temperatures are off by O(ε)
_MOST_RUNGS = 8
_SHARPER = 2.0  # half the widest interval that passes, in tolerances
_FAR = 3.0  # the kernel's own step over the one found, or the reverse, from which it is said
_LONGER = 2  # how often a pilot whose intervals are too wide is repeated, twice as long


def find_step_size(
    kernel: StochasticGradientKernel,
    x: Any,
    y: Any,
    *,
    step_sizes: Sequence[float] | None = None,
    warmup: int = 200,
    draws: int = 400,
    chains: int = 4,
    seed: int = 0,
    gradients: int = 400,
    rows: int | None = None,
    tolerance: float = 0.1,
    float64: bool = False,
    init: Any = None,
    report: Callable[[str], Any] | None = None,
) -> StepSizeSearch:
    """Pilot runs over a ladder of step sizes: the largest whose temperatures pass.

    Without a ladder the search begins at the kernel's own step, goes up or down by factors of 4
    until the verdict changes, and then tries the step in the middle. Each pilot starts where the
    one before ended, so that only the first has to find the posterior. A pilot whose intervals are
    too wide is repeated, twice and then four times as long.

    A step that passes is right for the temperatures of this posterior; it does not say that the
    chains mix, which is what `diagnose` is for.

    Args:
        kernel: a stochastic-gradient kernel with a constant step size; it is not modified.
            Pilots run at the temperature its schedule ends at, and with all of the noise.
        x, y: the data.
        step_sizes: the ladder, tried from the largest down to the first that passes; None for the
            search above.
        warmup, draws, chains, seed, float64, init: of each pilot, see `sample`.
        gradients, rows: full gradients of each thermometer reading, and the rows of each, see
            `diagnostics.configurational_temperature`.
        tolerance: the share of T that a right temperature may be off.
        report: called with a line after each pilot, such as `print`.

    Warns:
        UserWarning: the kernel's own step is three times as long as the one found, or as short.

    Raises:
        TypeError, ValueError: the kernel is none of stochastic gradients, its step is a schedule,
            or an argument is out of range; said before anything is compiled.
        RuntimeError: no chain found a start where density and gradient are finite.
    """
    first, given = _check(kernel, x, step_sizes)
    tolerance = positive(tolerance, "`tolerance` of find_step_size")
    whole_number(draws, "`draws` of find_step_size", at_least=16)
    pilots: dict[float, PilotRun] = {}
    start: list[Any] = [init]

    def passes(step_size: float) -> bool:
        length, precise = draws, gradients
        for attempt in range(_LONGER + 1):
            with warnings.catch_warnings():
                # That chains stop is what a ladder finds out.
                warnings.simplefilter("ignore")
                posterior = sample(
                    _pilot(kernel, step_size),
                    x,
                    y,
                    warmup=warmup,
                    draws=length,
                    chains=chains,
                    seed=seed + 1000 * len(pilots) + attempt,
                    init=start[0],
                    float64=float64,
                    progress=False,
                )
            run = _read(posterior, x, y, step_size, length, precise, rows, tolerance)
            if run.status != "not finite":
                start[0] = _ends(posterior)
            if run.status != "not known":
                break
            length, precise = 2 * length, 2 * precise
        pilots[step_size] = run
        if report is not None:
            report(f"step size {step_size:.2e}: {run.status}, hottest {run.hottest:.3g} T")
        return run.passed

    if given:
        for step_size in given:
            if passes(step_size):
                break
    else:
        _search(first, passes, lambda step_size: pilots[step_size].status)
    found = _found(kernel, pilots, tolerance)
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


def _search(first: float, passes: Callable[[float], bool], status: Callable[[float], str]) -> None:
    """Up or down from `first` until the verdict changes, then between the last two.

    On the way down it ends where a pilot is too short to tell: shorter steps go less far still.
    """
    good = passes(first)
    factor, step_size = (_RATIO if good else 1 / _RATIO), first
    for _ in range(_MOST_RUNGS - 1):
        step_size *= factor
        if passes(step_size) != good:
            passes(step_size / math.sqrt(factor))
            return
        if not good and status(step_size) == "not known":
            return


def _check(kernel: Any, x: Any, step_sizes: Sequence[float] | None) -> tuple[float, list[float]]:
    """The kernel's own step, and the ladder from the largest down."""
    if not isinstance(kernel, StochasticGradientKernel):
        raise TypeError(
            "find_step_size takes a stochastic-gradient kernel, such as SGHMC(model, ...), not "
            f"{type(kernel).__name__}: kernels with an accept step adapt theirs in the warm-up."
        )
    rate = getattr(kernel, "_learning_rate", None)
    value = kernel._step_size if rate is None else rate
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


def _with_step(kernel: StochasticGradientKernel, step_size: float) -> Any:
    fresh = kernel.wrap_model(lambda model: model)
    fresh._step_size = step_size
    if getattr(fresh, "_learning_rate", None) is not None:
        fresh._learning_rate = None
    return fresh


def _pilot(kernel: StochasticGradientKernel, step_size: float) -> Any:
    fresh = copy.copy(_with_step(kernel, step_size))
    fresh._temperature, fresh._noise = kernel.posterior_temperature, 1.0
    return fresh


def _ends(posterior: Posterior) -> dict[str, np.ndarray]:
    """The last draw of each chain: where the next pilot starts."""
    latents = set(posterior.provenance["latents"])
    names = posterior.provenance["site_names"]
    return {site: posterior.draws[name][:, -1] for name, site in names.items() if site in latents}


def _read(
    posterior: Posterior,
    x: Any,
    y: Any,
    step_size: float,
    draws: int,
    gradients: int,
    rows: int | None,
    tolerance: float,
) -> PilotRun:
    stopped = posterior.statistics.get("stopped")
    if stopped is not None and np.asarray(stopped).any():
        return PilotRun(step_size, "not finite", math.nan, math.nan, draws, None)
    # A ladder has to see a fault as large as the tolerance or so, and can run on until it does.
    found = posterior.temperatures(
        x,
        y,
        gradients=gradients,
        rows=rows,
        tolerance=tolerance,
        resolution=_SHARPER * tolerance,
        seed=draws,
    )
    values = np.concatenate([table[:, 0] for table in found.readings().values()])
    finite = bool(np.isfinite(values).all())
    return PilotRun(
        step_size,
        found.status if finite else "not finite",
        float(values.min()) / found.temperature if finite else math.nan,
        float(values.max()) / found.temperature if finite else math.nan,
        draws,
        found,
    )


def _found(kernel: Any, pilots: dict[float, PilotRun], tolerance: float) -> StepSizeSearch:
    ladder = tuple(pilots[step] for step in sorted(pilots, reverse=True))
    good = [run for run in ladder if run.passed]
    chosen = good[0].step_size if good else None
    limits = zero_step_temperatures(ladder)
    name = type(kernel).__name__
    if chosen is not None:
        sentence = (
            f"{chosen:.2e} is the largest step size of the ladder at which all temperatures of "
            f"{name} are right to within {100 * tolerance:g} %."
        )
        if chosen == ladder[0].step_size:
            sentence += " It is the largest that was tried; a longer one may pass as well."
    elif ladder[-1].status == "not known":
        sentence = (
            f"No step size passed: at {ladder[-1].step_size:.2e} the pilot is too short to tell. "
            "Give it more `draws` and `gradients`, or a kernel with more `steps_per_draw`."
        )
    else:
        last = ladder[-1]
        detail = last.thermometry.verdict if last.thermometry is not None else "A chain stopped."
        sentence = (
            f"No step size passed; the smallest, {last.step_size:.2e}, is {last.status}. If the "
            "temperatures do not come nearer to T as the step falls, the step is not what is "
            f"wrong. {detail}"
        )
    return StepSizeSearch(
        step_size=chosen,
        kernel=None if chosen is None else _with_step(kernel, chosen),
        sentence=sentence,
        ladder=ladder,
        zero_step=limits,
    )
