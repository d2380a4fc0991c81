"""Schedules of the step size and preconditioners: from words to JSON, from JSON to objects.

`run.json` holds `{"schedule": NAME OF ITS CLASS, ...}` in place of a number, and no code.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["built", "check_schedule", "scheduled"]

_STEPS_PER_DRAW = 100  # as the kernels have it; a test compares the two
_POWERS = {"cyclical": 2.0, "cyclical-step": 1.0}


def check_schedule(options: Mapping[str, Any]) -> None:
    """Refuse options of another schedule than the one chosen.

    Raises:
        ValueError: one is given, or the schedule lacks what it needs.
    """
    chosen = options["schedule"] or "constant"
    if options["final_step_size"] is not None and chosen != "burn-in":
        raise ValueError(
            f"--final-step-size is where `--schedule burn-in` ends, and the schedule is {chosen}. "
            "Leave it out, or choose that schedule."
        )
    if options["steps_per_cycle"] is not None and chosen not in _POWERS:
        raise ValueError(
            "--steps-per-cycle is the length of a cycle of `--schedule cyclical`, and the schedule "
            f"is {chosen}. Leave it out, or choose that schedule."
        )
    if chosen == "constant":
        return
    if options["step_size"] == "auto":
        raise ValueError(
            f"`--step-size auto` looks for a step size that stays, and `--schedule {chosen}` moves "
            "it. Find one without the schedule first, and give it as --step-size."
        )
    if chosen == "burn-in" and not options["warmup"]:
        raise ValueError(
            "`--schedule burn-in` moves the step size in the warm-up, and --warmup is 0. Give a "
            "warm-up, or leave the schedule out."
        )


def scheduled(settings: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the schedule of the options in place of the step size.

    Args:
        settings: arguments of the kernel's class, with a number as `step_size`.
        options: of `bayesnn sample`.
    """
    chosen, settings = options["schedule"] or "constant", dict(settings)
    if settings.get("preconditioner") == "none":
        del settings["preconditioner"]
    if chosen == "constant":
        return settings
    steps = options["steps_per_draw"] or _STEPS_PER_DRAW
    warmup, first = options["warmup"] * steps, settings["step_size"]
    if chosen == "burn-in":
        final = options["final_step_size"]
        settings["step_size"] = {
            "schedule": "CosineBurnIn",
            "initial": first,
            "final": first if final is None else final,
            "steps": warmup,
        }
        return settings
    settings["step_size"] = {
        "schedule": "Cyclical",
        "peak": first,
        "steps_per_cycle": options["steps_per_cycle"] or steps,
        "power": _POWERS[chosen],
        "after": warmup,
    }
    return settings


def built(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with objects where `scheduled` has words for them."""
    import bayesnn_ppl as bnn

    made, step = dict(settings), settings.get("step_size")
    if isinstance(step, Mapping):
        parts = dict(step)
        schedule, after = parts.pop("schedule"), parts.pop("after", 0)
        made["step_size"] = getattr(bnn.schedules, schedule)(**parts)
        if after:
            made["step_size"] = bnn.schedules.Delayed(made["step_size"], after)
    if "preconditioner" in made:
        mode = {"rmsprop": "frozen", "rmsprop-plain": "plain"}[made["preconditioner"]]
        made["preconditioner"] = bnn.preconditioners.RMSProp(mode=mode)
    return made
