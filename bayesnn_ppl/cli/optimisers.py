"""Words for the optimiser and the schedule of an approximation, which a shell cannot build."""

from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.arguments import near_misses, positive

__all__ = ["WORDS", "with_optimiser"]

# Setting -> words it may be given; `momentum` is a number.
WORDS: dict[str, tuple[str, ...]] = {
    "optimiser": ("adamw", "sgd"),
    "schedule": ("constant", "cosine"),
    "momentum": (),
}


def with_optimiser(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with objects where they have words for an optimiser or a schedule.

    `optimiser=sgd` is gradient descent with the learning rate and `momentum` (0.9) of the
    settings, m ← momentum·m + g and θ ← θ - rate·m on the mean loss.

    Raises:
        ValueError: an unknown word, or a momentum or learning rate that does not fit.
    """
    made = dict(settings)
    for name, words in WORDS.items():
        if words and isinstance(made.get(name), str) and made[name] not in words:
            raise ValueError(
                f"--set {name}={made[name]} is unknown. {near_misses(made[name], words)}"
            )
    if "schedule" in made:
        from bayesnn_ppl.inference.training import cosine

        made["schedule"] = cosine if made["schedule"] == "cosine" else None
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
