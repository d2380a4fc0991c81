"""Approximations by word: their settings are the arguments of their classes.

Words name the values that cannot be typed: an optimiser, a schedule, and the network to start from.
"""

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.core.arguments import near_misses, positive
from bayesnn_ppl.settings.declaring import declared, flag, setting
from bayesnn_ppl.settings.methods.constructor_settings import (
    argument_settings,
    as_arguments,
    word_of,
)
from bayesnn_ppl.settings.value_kinds import choice, choice_or_run, number

__all__ = [
    "approximation_group",
    "approximation_kinds",
    "approximation_summary",
    "chosen_approximation",
    "make_approximation",
]

_OF_MODE = "mode_"
_OPTIMISER = setting(
    "how the loss is minimised; sgd needs --learning-rate, on the mean loss",
    read=choice("adamw", "sgd"),
    unit="word",
    shown="adamw",
)
_MOMENTUM = setting(
    "momentum of --optimiser sgd: m <- momentum m + g",
    read=number(least=0, below=1),
    metavar="M",
    unit="number",
    shown="0.9",
)
_SCHEDULE = setting(
    "of the learning rate", read=choice("constant", "cosine"), unit="word", shown="the class's"
)
_MODE = setting(
    "begin at a network that is trained first, with the settings --mode-..., or at the first draw "
    "of a run of this model",
    read=choice_or_run("map"),
    metavar="{map,RUN}",
    unit="word, or the folder of a run",
    shown="none",
)


@functools.cache
def approximation_kinds() -> dict[str, type]:
    """Word -> class of every approximation; the ensemble, the usual one, first."""
    from bayesnn_ppl.inference import approximations

    found = [getattr(approximations, name) for name in approximations.__all__]
    kinds = {word_of(k): k for k in found if inspect.isclass(k) and "model" in _fields(k)}
    return {"ensemble": kinds["ensemble"], **kinds}


def _fields(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def _kind(word: str) -> Any:
    """The class of an approximation.

    Raises:
        ValueError: there is none of that name.
    """
    known = approximation_kinds()
    if word not in known:
        raise ValueError(f"There is no approximation `{word}`. {near_misses(word, known)}")
    return known[word]


def approximation_summary(word: str) -> str:
    """What an approximation is, in one line."""
    return (inspect.getdoc(_kind(word)) or "").split("\n\n")[0].replace("\n", " ").rstrip(".:")


@functools.cache
def approximation_group(word: str) -> type:
    """The settings of an approximation as a frozen dataclass; None means not given."""
    fields = [(name, Any, field) for name, field in _settings(_kind(word)).items()]
    return dataclasses.make_dataclass(
        f"{_kind(word).__name__}Settings", fields, frozen=True, kw_only=True
    )


def _settings(kind: Any) -> dict[str, Any]:
    has = _fields(kind)
    found = argument_settings(kind, ("model", "optimiser", "schedule", "mode"))
    if "optimiser" in has:
        found |= {"optimiser": _OPTIMISER, "momentum": _MOMENTUM}
    if "schedule" in has:
        found["schedule"] = _SCHEDULE
    if "mode" in has:
        from bayesnn_ppl.inference.approximations import MAP

        found["mode"] = _MODE
        for name, field in _settings(MAP).items():
            what = field.metadata["setting"]
            what = dataclasses.replace(what, text=f"of the network of --mode map: {what.text}")
            found[_OF_MODE + name] = dataclasses.field(default=None, metadata={"setting": what})
    return found


def chosen_approximation(word: str, settings: Any) -> dict[str, Any]:
    """The approximation as `run.json` holds it: its word and the settings that were given."""
    given = {n: v for n in declared(settings) if (v := getattr(settings, n)) is not None}
    return {"approximation": word, "settings": given}


def make_approximation(model: Any, chosen: Mapping[str, Any]) -> Any:
    """The approximation on a model.

    Args:
        model: a NumPyro model.
        chosen: of `chosen_approximation`, or the `kernel` of a `run.json`.

    Raises:
        ValueError: a setting that it does not have, or one out of range.
    """
    kind = _kind(chosen["approximation"])
    return kind(model, **_with_objects(kind, chosen["settings"]))


def _with_objects(kind: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with objects where they have words.

    `optimiser=sgd` is gradient descent with the learning rate and `momentum` (0.9) of the
    settings, m ← momentum·m + g and θ ← θ - rate·m on the mean loss. `mode=map` begins at a
    network that is trained with the settings `mode_epochs`, `mode_learning_rate` and so on, and
    `mode=RUN` at that of a run.

    Args:
        kind: the class of the approximation. Where it has no `optimiser`, a momentum is its own.
        settings: words and numbers.

    Raises:
        ValueError: a momentum or learning rate that does not fit.
    """
    own = {name: value for name, value in settings.items() if not name.startswith(_OF_MODE)}
    made = as_arguments(kind, own)
    of_mode = {n.removeprefix(_OF_MODE): v for n, v in settings.items() if n.startswith(_OF_MODE)}
    if of_mode and made.get("mode") != "map":
        raise ValueError(
            f"{flag(_OF_MODE + next(iter(of_mode)))} is for the network that `--mode map` begins "
            "at, and that is not given. Give it, or leave this out."
        )
    if made.get("mode", "map") != "map":
        from bayesnn_ppl.posterior.posterior import load

        made["mode"] = load(made["mode"])
    elif "mode" in made:
        from bayesnn_ppl.inference.approximations import MAP

        made["mode"] = MAP(**_with_objects(MAP, of_mode))
    if "schedule" in made:
        from bayesnn_ppl.inference.training.trainer import cosine

        made["schedule"] = cosine if made["schedule"] == "cosine" else None
    if "optimiser" not in _fields(kind):
        return made
    momentum = made.pop("momentum", None)
    chosen = made.pop("optimiser", "adamw")
    if chosen != "sgd":
        if momentum is not None:
            raise ValueError("--momentum is that of `--optimiser sgd`; adamw has its own.")
        return made
    import optax

    rate = made.pop("learning_rate", None)
    if rate is None:
        raise ValueError(
            "`--optimiser sgd` needs --learning-rate, on the mean loss: there is no default that "
            "would suit other data."
        )
    decay = 0.9 if momentum is None else momentum
    made["optimiser"] = optax.sgd(positive(rate, "learning_rate"), momentum=decay)
    return made
