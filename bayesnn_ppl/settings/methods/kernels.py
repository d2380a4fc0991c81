"""Kernels by word: their settings are the arguments of their classes.

Every kernel of `bayesnn_ppl.kernels` is here, and NumPyro's NUTS. So a kernel's options, their
help, the keys of recipes and what a run remembers follow from its file alone.
"""

import dataclasses
import functools
import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.core.arguments import near_misses, series
from bayesnn_ppl.settings.declaring import declared, flag, setting
from bayesnn_ppl.settings.methods.constructor_settings import (
    argument_settings,
    arguments_of,
    as_arguments,
    takes_schedule,
    word_of,
)
from bayesnn_ppl.settings.methods.step_schedules import (
    SCHEDULE_SETTINGS,
    built,
    check_schedule,
    scheduled,
)
from bayesnn_ppl.settings.value_kinds import (
    choice,
    number,
    number_or_auto,
)

__all__ = [
    "METHODS",
    "check_kernel",
    "chosen_kernel",
    "find_step",
    "kernel_group",
    "kernel_kind",
    "kernel_kinds",
    "kernel_summary",
    "kernels_with",
    "make_kernel",
]

# A whole recipe in one word: its kernel, and defaults of the kernel and of the run. As
# `bayesnn_ppl.mile`, which a test compares; a draw is ten steps.
METHODS: dict[str, dict[str, Any]] = {
    "mile": {
        "kernel": "mclmc",
        "text": "an ensemble is trained, and microcanonical chains (mclmc) start from its members",
        "settings": {"energy_variance_end": 0.01},
        "run": {"init": "ensemble", "warmup": 5000, "draws": 1000, "chains": 12},
    }
}

_BIASED = ("BiasedMinibatchHMC", "BiasedMinibatchMetropolis")  # wrong on purpose, for teaching
_OF_NUTS = (
    *("step_size", "target_accept_prob", "max_tree_depth"),
    *("dense_mass", "adapt_step_size", "adapt_mass_matrix", "regularize_mass_matrix"),
)
# Argument -> setting, where a model or the data have a setting of that name, or kernels differ.
_RENAMED = {
    "prior_variance": "trajectory_prior_variance",
    "length": "trajectory_length",
    "target_accept_prob": "target_accept",
}
# Schedules and objects; `--posterior-temperature` is for every kernel.
_NOT_TYPED = ("model", "init_strategy", "temperature", "noise", "gradient")
_LENGTHS = ("trajectory_length", "num_leapfrogs", "trajectory_prior_variance")
# What is usual of settings that a kernel needs and that have no default.
_USUAL = {"--batch-size": "32 to 256 rows are usual, such as `--batch-size 64`"}
_FIRST_STEP = 1e-5  # where the search begins; it goes up by factors of 8, or down
_MOST_CHAINS = 4  # of the search: more chains tell little more, and each takes its time


@functools.cache
def kernel_kinds() -> dict[str, type]:
    """Word -> class of every kernel; NUTS, the usual one, first."""
    from numpyro.infer import NUTS

    from bayesnn_ppl.inference import kernels

    found = [getattr(kernels, name) for name in kernels.__all__ if name not in _BIASED]
    return {"nuts": NUTS} | {word_of(kind): kind for kind in found if inspect.isclass(kind)}


def kernel_kind(word: str) -> type:
    """The class of a kernel or of a method.

    Raises:
        ValueError: there is none of that name.
    """
    word, known = METHODS.get(word, {}).get("kernel", word), kernel_kinds()
    if word not in known:
        near = near_misses(word, [*known, *METHODS])
        raise ValueError(f"There is no kernel `{word}`. {near}")
    return known[word]


def kernel_summary(word: str) -> str:
    """What a kernel or a method is, in one line."""
    if word in METHODS:
        return str(METHODS[word]["text"])
    if word == "nuts":
        return "NumPyro's No-U-Turn sampler, which finds the length of each trajectory itself"
    return (
        (inspect.getdoc(kernel_kind(word)) or "").split("\n\n")[0].replace("\n", " ").rstrip(".:")
    )


@functools.cache
def kernel_group(word: str) -> type:
    """The settings of a kernel or a method as a frozen dataclass; None means not given."""
    kind, defaults = kernel_kind(word), METHODS.get(word, {}).get("settings", {})
    only = _OF_NUTS if word == "nuts" else None
    fields = argument_settings(kind, _NOT_TYPED, only=only, renamed=_RENAMED, defaults=defaults)
    if word == "hmc":
        fields["mass"] = setting(
            _text(fields["mass"]), read=choice("identity", "diagonal", "fisher"), unit="word",
            shown="diagonal; identity with --trajectory-prior-variance",
        )  # fmt: skip
        fields["trajectory_length"] = setting(
            _text(fields["trajectory_length"]), read=number(), unit="number", metavar="L",
            shown="pi/2, where no other length is given",
        )  # fmt: skip
    if "step_size" in fields and takes_schedule(kind, "step_size"):
        fields["step_size"] = setting(
            f"{_text(fields['step_size'])}; auto finds, by short runs, the largest that keeps the "
            "temperature",
            read=number_or_auto,
            unit="number or auto",
            metavar="H",
            shown="none",
        )
        fields |= SCHEDULE_SETTINGS
    made = [(name, Any, field) for name, field in fields.items()]
    return dataclasses.make_dataclass(f"{kind.__name__}Settings", made, frozen=True, kw_only=True)


def _text(field: Any) -> str:
    return str(field.metadata["setting"].text)


def kernels_with(name: str) -> list[str]:
    """The kernels that have a setting."""
    return [word for word in kernel_kinds() if name in declared(kernel_group(word))]


def check_kernel(word: str, settings: Any, *, warmup: int, chains: int) -> None:
    """Refuse settings that lack something, or contradict each other or the run.

    Args:
        word: of the kernel, or of a method.
        settings: an instance of its `kernel_group`.
        warmup, chains: of the run.

    Raises:
        ValueError: they do.
    """
    given = {n: v for n in declared(settings) if (v := getattr(settings, n)) is not None}
    kind = kernel_kind(word)
    needed = [
        _RENAMED.get(name, name)
        for name, (parameter, _) in arguments_of(kind).items()
        if parameter.default is inspect.Parameter.empty and name != "model"
    ]
    steps = getattr(kind, "step_arguments", ())
    if steps and not any(name in given for name in steps):
        needed.insert(0, steps[0])
    missing = [flag(name) for name in needed if name not in given]
    if missing:
        finds = "--step-size" in missing and "schedule" in declared(settings)
        advice = (
            ["`--step-size auto` looks for the largest step that keeps the temperature"]
            if finds
            else [_USUAL[name] for name in missing if name in _USUAL]
        )
        raise ValueError(
            f"The kernel {word} needs {series(missing)}: "
            + "; ".join(["there is no default that would suit other data", *advice])
            + "."
        )
    if "schedule" in declared(settings):
        check_schedule(given, warmup=warmup)
    lengths = [flag(name) for name in _LENGTHS if name in given]
    if len(lengths) > 1:
        raise ValueError(
            f"Give one of {series(lengths)}, not more: each of them fixes the length of the "
            "trajectories."
        )
    if chains < (least := getattr(kind, "least_chains", 1)):
        raise ValueError(
            f"The kernel {word} learns from how its chains differ and needs at least {least}: "
            "`--chains 4`, or another kernel."
        )
    if getattr(kind, "learns_trajectory_length", False) and not warmup and not lengths:
        raise ValueError(
            f"Without a warm-up the kernel {word} cannot learn how long its trajectories "
            "should be: give --trajectory-length, or a longer --warmup."
        )


def chosen_kernel(word: str, settings: Any, *, warmup: int) -> dict[str, Any]:
    """The kernel as `run.json` holds it: its name and the arguments of its class.

    Arguments and not settings are stored, so a run continues as it began where a default here
    changes.

    Args:
        word, settings: as in `check_kernel`.
        warmup: draws, which some schedules count.
    """
    arguments = {setting: argument for argument, setting in _RENAMED.items()}
    has, method = arguments_of(kernel_kind(word)), METHODS.get(word, {})
    given = {n: v for n in declared(settings) if (v := getattr(settings, n)) is not None}
    values = dict(method.get("settings", {})) | given
    name = method.get("kernel", word)
    chosen = {
        (arguments[n] if arguments.get(n) in has else n): value
        for n, value in values.items()
        if n not in SCHEDULE_SETTINGS
    }
    if "schedule" in declared(settings):
        chosen = scheduled(chosen, values, warmup=warmup)
    if name == "hmc" and "prior_variance" not in chosen:
        chosen.setdefault("mass", "diagonal")
        if "num_leapfrogs" not in chosen:
            chosen.setdefault("trajectory_length", math.pi / 2)
    return {"kernel": name, "settings": chosen}


def make_kernel(model: Any, chosen: Mapping[str, Any]) -> Any:
    """The kernel on a model.

    Args:
        model: a NumPyro model.
        chosen: of `chosen_kernel`, or the `kernel` of a `run.json`.

    Raises:
        ValueError: a setting is out of the kernel's range.
    """
    settings = built(chosen["settings"])
    kind = kernel_kind(chosen["kernel"])
    return kind(model, **as_arguments(kind, settings))


def find_step(
    model: Any, x: Any, y: Any, chosen: Mapping[str, Any], *, chains: int, seed: int, report: Any
) -> float:
    """The step size that `--step-size auto` means, by short runs; see `find_step_size`.

    Args:
        model: a NumPyro model.
        x, y: training data.
        chosen: of `chosen_kernel`, with any step size.
        chains, seed: of the run.
        report: told each line, or None.

    Raises:
        ValueError: no step size that was tried keeps the temperatures.
    """
    import bayesnn_ppl as bnn

    tried = {**chosen["settings"], "step_size": _FIRST_STEP}
    kernel, chains = make_kernel(model, {**chosen, "settings": tried}), min(chains, _MOST_CHAINS)
    with warnings.catch_warnings():
        # The search begins at a step that nobody has asked for, so its distance says nothing.
        warnings.simplefilter("ignore", UserWarning)
        found = bnn.find_step_size(kernel, x, y, chains=chains, seed=seed, report=report)
    if found.step_size is None:
        last = found.ladder[-1]
        raise ValueError(
            f"`--step-size auto` found none: of {len(found.ladder)} step sizes down to "
            f"{last.step_size:.2e} none keeps the temperature, and that of the last is "
            f"{last.status}. Take a larger --batch-size, whose gradients are less noisy, or give "
            "--step-size a number."
        )
    return found.step_size
