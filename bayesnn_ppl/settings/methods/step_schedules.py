"""Schedules of the step size and preconditioners: from words to JSON, from JSON to objects.

`run.json` holds `{"schedule": NAME OF ITS CLASS, ...}` in place of a number, and no code.
"""

from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.settings.declaring import setting
from bayesnn_ppl.settings.value_kinds import choice, number, whole

__all__ = ["SCHEDULE_SETTINGS", "built", "check_schedule", "scheduled"]

_STEPS_PER_DRAW = 100  # as the kernels have it; a test compares the two
_POWERS = {"cyclical": 2.0, "cyclical-step": 1.0}

SCHEDULE_SETTINGS: dict[str, Any] = {
    "schedule": setting(
        "how the step size moves: along half a cosine to --final-step-size in the warm-up; or "
        "constant in the warm-up and then cycle by cycle to nearly 0 along half a cosine, of its "
        "square root (cyclical) or of itself (cyclical-step, as Zhang et al. and bnn_hmc do)",
        read=choice("constant", "burn-in", *_POWERS),
        unit="word",
        shown="constant",
    ),
    "final_step_size": setting(
        "where --schedule burn-in ends: the step size of the draws",
        read=number(),
        metavar="H",
        unit="as --step-size",
        shown="--step-size",
    ),
    "steps_per_cycle": setting(
        "length of a cycle of --schedule cyclical, best that of a draw or several",
        read=whole(2),
        metavar="N",
        unit="steps",
        shown="--steps-per-draw, one draw at the end of each cycle",
    ),
}


def check_schedule(given: Mapping[str, Any], *, warmup: int) -> None:
    """Refuse settings of another schedule than the one chosen.

    Args:
        given: settings of the kernel, without those that were not given.
        warmup: draws.

    Raises:
        ValueError: one is given, or the schedule lacks what it needs.
    """
    chosen = given.get("schedule", "constant")
    if "final_step_size" in given and chosen != "burn-in":
        raise ValueError(
            f"--final-step-size is where `--schedule burn-in` ends, and the schedule is {chosen}. "
            "Leave it out, or choose that schedule."
        )
    if "steps_per_cycle" in given and chosen not in _POWERS:
        raise ValueError(
            "--steps-per-cycle is the length of a cycle of `--schedule cyclical`, and the schedule "
            f"is {chosen}. Leave it out, or choose that schedule."
        )
    if chosen == "constant":
        return
    if given.get("step_size") == "auto":
        raise ValueError(
            f"`--step-size auto` looks for a step size that stays, and `--schedule {chosen}` moves "
            "it. Find one without the schedule first, and give it as --step-size."
        )
    if chosen == "burn-in" and not warmup:
        raise ValueError(
            "`--schedule burn-in` moves the step size in the warm-up, and --warmup is 0. Give a "
            "warm-up, or leave the schedule out."
        )


def scheduled(
    arguments: Mapping[str, Any], given: Mapping[str, Any], *, warmup: int
) -> dict[str, Any]:
    """The arguments with the schedule in place of the step size.

    Args:
        arguments: of the kernel's class, with a number as `step_size`.
        given: its settings, those of the schedule among them.
        warmup: draws.
    """
    chosen, made = given.get("schedule", "constant"), dict(arguments)
    if made.get("preconditioner") == "none":
        del made["preconditioner"]
    if chosen == "constant":
        return made
    steps, first = given.get("steps_per_draw", _STEPS_PER_DRAW), made["step_size"]
    if chosen == "burn-in":
        made["step_size"] = {
            "schedule": "CosineBurnIn",
            "initial": first,
            "final": given.get("final_step_size", first),
            "steps": warmup * steps,
        }
        return made
    made["step_size"] = {
        "schedule": "Cyclical",
        "peak": first,
        "steps_per_cycle": given.get("steps_per_cycle", steps),
        "power": _POWERS[chosen],
        "after": warmup * steps,
    }
    return made


def built(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with objects where `scheduled` has words for them."""
    import bayesnn_ppl as bnn

    made, step = dict(settings), settings.get("step_size")
    if isinstance(step, Mapping):
        parts = dict(step)
        schedule, after = parts.pop("schedule"), parts.pop("after", 0)
        made["step_size"] = getattr(bnn.schedules, schedule)(**parts)
        if after:
            made["step_size"] = bnn.schedules.Delayed(made["step_size"], after)
    if "preconditioner" in made:
        known = {
            "rmsprop": bnn.preconditioners.RMSProp(),
            "rmsprop-plain": bnn.preconditioners.RMSProp(mode="plain"),
            "gradient-noise": bnn.preconditioners.GradientNoise(),
        }
        made["preconditioner"] = known[made["preconditioner"]]
    return made
