"""Words for what a shell cannot build: an approximation's optimiser, schedule and mode."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.core.arguments import near_misses, positive

__all__ = ["WORDS", "with_objects"]

# Setting -> words it may be given; `momentum` is a number.
WORDS: dict[str, tuple[str, ...]] = {
    "optimiser": ("adamw", "sgd"),
    "schedule": ("constant", "cosine"),
    "momentum": (),
    "mode": ("map",),
}
_OF_MODE = "mode_"


def with_objects(kind: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with objects where they have words.

    `optimiser=sgd` is gradient descent with the learning rate and `momentum` (0.9) of the
    settings, m ← momentum·m + g and θ ← θ - rate·m on the mean loss. `mode=map` begins at a
    network that is trained with the settings `mode_epochs`, `mode_learning_rate` and so on.

    Args:
        kind: the class of the approximation. Where it has no `optimiser`, a momentum is its own.
        settings: words and numbers.

    Raises:
        ValueError: an unknown word, or a momentum or learning rate that does not fit.
    """
    made = {name: value for name, value in settings.items() if not name.startswith(_OF_MODE)}
    of_mode = {n.removeprefix(_OF_MODE): v for n, v in settings.items() if n.startswith(_OF_MODE)}
    for name, words in WORDS.items():
        if words and isinstance(made.get(name), str) and made[name] not in words:
            raise ValueError(
                f"--set {name}={made[name]} is unknown. {near_misses(made[name], words)}"
            )
    if of_mode and "mode" not in made:
        raise ValueError(
            f"--set {_OF_MODE}{next(iter(of_mode))} is for the network that `--set mode=map` "
            "begins at, and that is not given. Give it, or leave this out."
        )
    if "mode" in made:
        from bayesnn_ppl.inference.approximations import MAP

        made["mode"] = MAP(**with_objects(MAP, of_mode))
    if "schedule" in made:
        from bayesnn_ppl.inference.training.trainer import cosine

        made["schedule"] = cosine if made["schedule"] == "cosine" else None
    if "optimiser" not in {field.name for field in dataclasses.fields(kind)}:
        return made
    momentum = made.pop("momentum", None)
    chosen = made.pop("optimiser", "adamw")
    if chosen != "sgd":
        if momentum is not None:
            raise ValueError("--set momentum is that of `--set optimiser=sgd`; adamw has its own.")
        return made
    import optax

    rate = made.pop("learning_rate", None)
    if rate is None:
        raise ValueError(
            "`--set optimiser=sgd` needs `--set learning_rate=...`, on the mean loss: there is no "
            "default that would suit other data."
        )
    decay = 0.9 if momentum is None else momentum
    if decay != 0 and positive(decay, "momentum") >= 1:
        raise ValueError(f"--set momentum must be from 0 to below 1, not {decay}.")
    made["optimiser"] = optax.sgd(positive(rate, "learning_rate"), momentum=decay)
    return made
