"""`bayesnn calibrate`: check a method on data that the model makes."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import zoo
from bayesnn_ppl.cli.datasets import load_data
from bayesnn_ppl.cli.devices import prepare_devices
from bayesnn_ppl.cli.fitting import given_settings, made_approximation
from bayesnn_ppl.cli.kernels import check_kernel, chosen_kernel, make_kernel
from bayesnn_ppl.cli.options import MODEL_OPTIONS
from bayesnn_ppl.cli.output import note, print_json
from bayesnn_ppl.cli.sampling import chosen_model
from bayesnn_ppl.cli.user_model import failures_named, load_program, split_name
from bayesnn_ppl.core.arguments import series

__all__ = ["run_calibrate"]

_KERNEL_SETTINGS = ("warmup", "draws", "chains")


def run_calibrate(arguments: argparse.Namespace) -> int:
    """Calibrate, print the verdict, and keep ranks, report and figure where a folder is given."""
    options = vars(arguments)
    zoo.check_name(arguments.model, "calibrate", arguments.target)
    _check(arguments, options)
    prepare_devices(options["chains"], None)
    dataset, _ = load_data(options)
    model, _, path = chosen_model(arguments, dataset)
    truth = _truth(arguments, dataset, model)
    method = _method(options, model)
    x, y = _rows(dataset, arguments.rows)
    folder = None if arguments.out is None else Path(arguments.out)
    if not (arguments.quiet or arguments.json):
        note(f"{arguments.model} at {len(x)} training rows of {dataset.name}")
    settings = {} if arguments.approximation else {n: options[n] for n in _KERNEL_SETTINGS}
    try:
        with failures_named(path):
            found = bnn.calibrate(
                method,
                truth,
                x,
                y if arguments.around_data else None,
                replications=arguments.replications,
                false_alarm=arguments.false_alarm,
                seed=arguments.seed,
                float64=arguments.float64,
                progress=not (arguments.quiet or arguments.json),
                out=folder,
                **settings,
            )
    except KeyboardInterrupt:
        advice = (
            "Nothing is kept without --out." if folder is None else "The same command resumes it."
        )
        raise InterruptedError(f"Interrupted before there was a verdict. {advice}") from None
    if folder is not None:
        _write(folder, found)
    if arguments.json:
        print_json(found.to_dict())
    else:
        print(found)
        if folder is not None and not arguments.quiet:
            note(f"Saved in {folder}: calibration_report.json and the figure ranks.png")
    return 0


def _check(arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    """Refuse settings of a method that is not the chosen one; fill in those of kernels."""
    given = [name for name in ("kernel", *_KERNEL_SETTINGS) if options[name] is not None]
    if arguments.approximation is not None:
        if given:
            flags = series(f"--{name}" for name in given)
            raise ValueError(
                f"{flags} are for kernels, and --approximation {arguments.approximation} is none. "
                "Leave them out; --set gives settings of the approximation."
            )
        options["chains"] = 1
        return
    if arguments.set:
        raise ValueError("--set is for an approximation: name it, --approximation laplace.")
    options["kernel"] = options["kernel"] or "nuts"
    for name, value in (("warmup", 150), ("draws", 150)):
        options[name] = value if options[name] is None else options[name]
    ensembles = ("chees", "parallel-tempering")
    if options["chains"] is None:
        options["chains"] = 4 if options["kernel"] in ensembles else 2
    check_kernel(options)
    if options["step_size"] == "auto":
        raise ValueError(
            "`--step-size auto` tunes for one data set, and each replication has its own: give a "
            "number."
        )


def _method(options: dict[str, Any], model: Any) -> Any:
    if options["approximation"] is None:
        return make_kernel(model, chosen_kernel(options))
    settings = given_settings(options["approximation"], options["set"] or [])
    return made_approximation(options["approximation"], model, settings)


def _truth(arguments: argparse.Namespace, dataset: Any, model: Any) -> Any:
    """The model that makes the data: the method's own, one of a file, or one of other options."""
    words = arguments.truth or []
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        if not zoo.is_file(words[0]):
            raise ValueError(
                "--truth takes FILE.py:NAME, or NAME=VALUE of a model option such as "
                f"`--truth prior-scale=1`, not `{words[0]}`."
            )
        return load_program(*split_name(words[0]))
    if zoo.is_file(arguments.model):
        raise ValueError(
            f"--truth NAME=VALUE changes an option of the zoo, and `{arguments.model}` is a model "
            "of your own: `--truth FILE.py:NAME` names another one."
        )
    changed = {name: getattr(arguments, name) for name in MODEL_OPTIONS}
    for name, value in given_settings("truth", words).items():
        if name not in MODEL_OPTIONS:
            known = ", ".join(n.replace("_", "-") for n in MODEL_OPTIONS)
            raise ValueError(f"--truth {name}: the model options are {known}.")
        changed[name] = value
    chosen = {name: value for name, value in changed.items() if value is not None}
    return zoo.build(arguments.model, chosen, task=dataset.task, classes=dataset.classes)


def _rows(dataset: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows spread evenly over the training data."""
    x, y = dataset.train
    chosen = np.linspace(0, len(x) - 1, min(most, len(x))).astype(int)
    return np.asarray(x)[chosen], np.asarray(y)[chosen]


def _write(folder: Path, found: Any) -> None:
    with storage.writing_to(folder, lambda: "The ranks of all replications are kept there."):
        report = found.to_json() + "\n"
        (folder / "calibration_report.json").write_text(report, encoding="utf-8")
        if any(quantity.among for quantity in found.quantities):
            found.plot().savefig(folder / "ranks.png")
