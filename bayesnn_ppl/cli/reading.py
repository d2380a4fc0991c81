"""`bayesnn diagnose` and `bayesnn evaluate`: what a saved run is worth."""

import argparse
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli.output import note, paragraph, print_json
from bayesnn_ppl.cli.references import reference_of
from bayesnn_ppl.cli.rows import inputs, inputs_and_targets
from bayesnn_ppl.cli.runs import Run, loaded, open_run
from bayesnn_ppl.cli.user_model import failures_named
from bayesnn_ppl.cli.verdicts import keep_diagnosis

__all__ = ["CHECKED", "open_posterior", "predicting", "run_diagnose", "run_evaluate"]

# Exit status of `diagnose --check`; 2 is an error in what was typed.
CHECKED = {"converged": 0, "not converged": 1, "approximate": 3, "doubtful": 4, "not judged": 5}
_RECORDED = (
    "Quantiles and the CRPS are those of one predictive sample for each draw, which the run kept. "
    "With the program, `--model FILE.py`, they are computed from the whole predictive "
    "distribution and differ a little."
)
_SNGP_SETTINGS = ("features", "length_scale", "scale", "bound")


def open_posterior(arguments: argparse.Namespace) -> tuple[Run, Any, Path | None]:
    """The run of the arguments, its posterior with the program, and the user's file if any."""
    folder = storage.fetched(arguments.run_folder)
    run = open_run(folder)
    program, path = run.load_model(arguments.model)
    program = predicting(run, bnn.load(folder).provenance, program)
    posterior = loaded(folder, run, program, arguments.model)
    made = posterior.provenance
    note(
        f"Computing what {made['chains']} × {made['draws']} draws predict. The first time this "
        "compiles, which can take half a minute."
    )
    return run, posterior, path


def predicting(run: Run, made: dict[str, Any], program: Any) -> Any:
    """The program that the draws predict by; that of SNGP has another last layer."""
    if made["kernel"] != "SNGP":
        return program
    settings = made["kernel_settings"]
    known = {name: settings[name] for name in _SNGP_SETTINGS if name in settings}
    data = run.load_data().train
    return bnn.approximations.SNGP(program, **known).program(*data, seed=made["seed"])


def _judged(arguments: argparse.Namespace) -> tuple[Run, Any, Path | None, bool]:
    """As `open_posterior`, and whether the run is judged by what it kept at its probe.

    So it is where a program of the user's own is not given, or no weights were kept.
    """
    folder = storage.fetched(arguments.run_folder)
    run = open_run(folder)
    posterior = bnn.load(folder)
    without = "zoo" not in run.model and arguments.model is None
    if (
        arguments.data is None
        and posterior.probe is not None
        and (without or not posterior.has_weights)
    ):
        return run, posterior, None, True
    return *open_posterior(arguments), False


def _probe_label(run: Run, posterior: Any) -> str:
    x, y = posterior.probe
    part = "training" if y is None else "test"
    return f"the {len(x)} {part} rows of {run.data_label} that the run kept"


def run_diagnose(arguments: argparse.Namespace) -> int:
    """Print the diagnosis; with --check the exit status says what it is, see `CHECKED`."""
    run, posterior, path, recorded = _judged(arguments)
    if recorded:
        diagnosis, label = posterior.diagnose(), _probe_label(run, posterior)
    else:
        x, label = inputs(run, arguments.data)
        with failures_named(path):
            diagnosis = posterior.diagnose(x, data=_training_rows(run, posterior))
    if arguments.data is None:
        keep_diagnosis(storage.fetched(arguments.run_folder), diagnosis)
    if arguments.json:
        print_json(diagnosis.to_dict())
    else:
        print(f"{run.model_label} on {run.data_label}, functions at {label}\n")
        print(diagnosis)
    return CHECKED.get(diagnosis.status, 1) if arguments.check else 0


def _training_rows(run: Run, posterior: Any) -> Any:
    """The data of the run, which a kernel without an accept step is judged by; else None."""
    made = posterior.provenance
    if made.get("accept_step") or made.get("approximation") is not None:
        return None
    try:
        train = tuple(run.load_data().train)
    except (OSError, ValueError):  # a file that was moved or changed: judged without
        return None
    # In Python a part of the data may have been given.
    return train if posterior.is_trained_on(*train) else None


def run_evaluate(arguments: argparse.Namespace) -> int:
    """Print the scores."""
    run, posterior, path, recorded = _judged(arguments)
    if recorded:
        scores = bnn.metrics.evaluate(posterior, class_names=run.class_names)
        label = _probe_label(run, posterior)
    else:
        x, y, label = inputs_and_targets(run, arguments.data)
        # It knows the rows that the run was made for, in their order.
        reference = reference_of(run) if arguments.data is None else None
        with failures_named(path):
            scores = bnn.metrics.evaluate(
                posterior, x, y, reference=reference, class_names=run.class_names
            )
    if arguments.json:
        print_json(scores.to_dict())
    else:
        print(f"{run.model_label} on {run.data_label}, scored on {label}, in the data's units")
        print(scores)
        if recorded and scores.task == "regression":
            print()
            print(paragraph(_RECORDED))
    return 0
