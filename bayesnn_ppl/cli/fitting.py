"""`bayesnn fit`: from options to a saved, judged and scored approximation."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import zoo
from bayesnn_ppl.cli.datasets import load_data
from bayesnn_ppl.cli.devices import prepare_devices
from bayesnn_ppl.cli.methods import APPROXIMATIONS
from bayesnn_ppl.cli.optimisers import WORDS, with_objects
from bayesnn_ppl.cli.output import note
from bayesnn_ppl.cli.references import check_reference
from bayesnn_ppl.cli.runs import default_folder, note_of_working_copy, remember, require_new
from bayesnn_ppl.cli.sampling import chosen_model, report, reserved, what_is_kept
from bayesnn_ppl.cli.stopping import stop_on_sigterm
from bayesnn_ppl.cli.user_model import failures_named
from bayesnn_ppl.core.arguments import near_misses

__all__ = ["given_settings", "made_approximation", "run_fit", "settable"]

_SCALARS = (bool, int, float, str, tuple, type(None))
_OBJECTS = ("model", "optimiser", "schedule", "mode")  # `WORDS` has words for some of them


def run_fit(arguments: argparse.Namespace) -> int:
    """Fit, save, judge, score, and say what to type next."""
    options = vars(arguments)
    zoo.check_name(arguments.model, "fit", arguments.target)
    settings = given_settings(arguments.approximation, arguments.set or [])
    if arguments.out is not None:
        require_new(storage.working_copy(arguments.out))
    prepare_devices(int(settings.get("members") or 1), None)
    dataset, data = load_data(options)
    program, model, path = chosen_model(arguments, dataset)
    approximation = made_approximation(arguments.approximation, program, settings)
    run = remember(
        dataset,
        made_by="bayesnn fit",
        model=model,
        posterior_temperature=arguments.posterior_temperature,
        data=data,
        kernel={"approximation": arguments.approximation, "settings": settings},
        reference=arguments.reference,
        command=getattr(arguments, "command", None),
    )
    check_reference(run, weights=arguments.keep == "weights")
    label = f"{Path(run.model_label).stem}-{arguments.approximation}"
    place = arguments.out or str(default_folder(run.data_label, label))
    folder = storage.working_copy(place)
    if not (arguments.quiet or arguments.json):
        note(f"{run.model_label} on {dataset!r}")
        note_of_working_copy(place, folder)
    keep = what_is_kept(options, dataset)
    with failures_named(path), reserved(folder), stop_on_sigterm() as stop, stop.expected():
        with storage.writing_to(folder, lambda: "Choose another folder with --out."):
            run.write(folder)
        try:
            posterior = bnn.fit(
                approximation,
                *dataset.train,
                seed=arguments.seed,
                float64=arguments.float64,
                progress=not arguments.quiet,
                callback=stop.asked,
                out=folder,
                keep=keep,
            )
        except KeyboardInterrupt:
            raise InterruptedError(
                f"Interrupted in training. `bayesnn resume {folder}` goes on from here."
            ) from None
    if stop.came:
        return stop.told(folder)
    if not arguments.json:
        print(f"Saved in {folder}\n", flush=True)
    report(posterior, dataset, run, folder, arguments)
    return 0


def made_approximation(name: str, program: Any, settings: dict[str, Any]) -> Any:
    """The approximation of that name, built from a program.

    Raises:
        ValueError: a setting that it does not have.
    """
    known = settable(name)
    for setting in settings:
        if setting not in known:
            raise ValueError(
                f"`{name}` has no setting `{setting}` that --set could give. "
                + near_misses(setting, known)
            )
    values = {n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
    return _kind(name)(program, **with_objects(_kind(name), values))


def settable(name: str) -> list[str]:
    """The settings of an approximation that `--set` can give."""
    fields = {f.name: f for f in dataclasses.fields(_kind(name))}
    known = [
        field.name
        for field in fields.values()
        if field.name not in _OBJECTS and isinstance(field.default, _SCALARS)
    ]
    known += [word for word in WORDS if word in fields and word not in known]
    known += ["momentum"] if "optimiser" in fields else []
    if "mode" in fields:
        known += [f"mode_{setting}" for setting in settable("map") if setting != "mode"]
    return known


def _kind(name: str) -> Any:
    """The class of an approximation."""
    return getattr(bnn.approximations, APPROXIMATIONS[name])


def given_settings(name: str, given: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` words as a dictionary; a value is read as JSON, or else as a word."""
    found: dict[str, Any] = {}
    for word in given:
        setting, equals, value = word.partition("=")
        setting = setting.strip().replace("-", "_")
        if not equals or not setting:
            raise ValueError(
                f"--set takes NAME=VALUE, such as `--set epochs=100`, not `{word}`: a setting of "
                f"`{name}`."
            )
        if setting in found:
            raise ValueError(f"--set {setting} is given twice. Leave one of the two out.")
        try:
            read = json.loads(value)
        except json.JSONDecodeError:
            read = value
        found[setting] = read
    return found
