"""`bayesnn diagnose` and `bayesnn evaluate`: what a saved run is worth."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli.shared.options import Argument, Command, Output, calibration_table, model_file
from bayesnn_ppl.cli.shared.output import note, paragraph, print_error, print_json
from bayesnn_ppl.conformal.calibrating import repeated, require_new_rows
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.models.user_models import failures_named
from bayesnn_ppl.settings.saved.hmc_references import reference_of
from bayesnn_ppl.settings.saved.kept_diagnosis import keep_diagnosis
from bayesnn_ppl.settings.saved.opening import open_posterior, open_run
from bayesnn_ppl.settings.saved.rows import inputs, inputs_and_targets
from bayesnn_ppl.settings.saved.run_file import Run

__all__ = ["CHECKED", "DIAGNOSE", "EVALUATE", "RUN", "calibration_rows", "opened"]

# Exit status of `diagnose --check`; 2 is an error in what was typed.
CHECKED = {"converged": 0, "not converged": 1, "approximate": 3, "doubtful": 4, "not judged": 5}
_RECORDED = (
    "Quantiles and the CRPS are those of one predictive sample for each draw, which the run kept. "
    "With the model, `--model FILE.py`, they are computed from the whole predictive "
    "distribution and differ a little."
)


RUN = Argument("run", "the folder that `bayesnn sample` or `bayesnn fit` made", "RUN")
_KEPT = "the run's zoo model; diagnose and evaluate then use what the run kept"
_ROWS = "the run's test rows"


@dataclass(frozen=True)
class DiagnoseSettings:
    """Where a run is judged."""

    model: str | None = model_file(_KEPT)
    data: str | None = setting(
        "where the functions are judged: a .csv file with the run's features, or a data set with "
        "them",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown=_ROWS,
    )
    check: bool = switch(
        "exit status 0 if converged, 1 if not, 3 if approximate, 4 if doubtful, 5 if not judged; "
        "fits, which never converge, have 1"
    )


@dataclass(frozen=True)
class EvaluateSettings:
    """Where a run is scored."""

    model: str | None = model_file(_KEPT)
    data: str | None = setting(
        "rows to score on: a .csv file with the run's features and target, or the test rows of a "
        "data set with them",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown=_ROWS,
    )
    conformal: str | None = calibration_table(
        "adds the coverage and width of intervals, or sets of classes, calibrated on them"
    )


def opened(folder: Path, model: str | None) -> tuple[Run, Any, Path | None]:
    """As `open_posterior`, and a word on what is computed then."""
    run, posterior, path = open_posterior(folder, model)
    if posterior.has_weights:
        shape = f"{posterior.provenance['chains']} × {posterior.kept_draws}"
        note(
            f"Computing what {shape} draws predict. The first time this compiles, which can take "
            "half a minute."
        )
    return run, posterior, path


def _judged(
    folder: Path, model: str | None, *rows: str | None, diagnosed: bool = False
) -> tuple[Run, Any, Path | None, bool]:
    """As `opened`, and whether the run is judged by what it kept at its probe inputs.

    So it is where a model of the user's own is not given, or no weights were kept, unless other
    `rows` have to be predicted. Convergence is judged so where weights of few draws were kept, if
    no temperatures are needed.
    """
    run = open_run(folder)
    posterior = bnn.load(folder)
    without = "zoo" not in run.model and model is None
    known = all(row is None for row in rows) and posterior.probe is not None
    few = posterior.knows_more_at_probe and posterior.provenance.get("accept_step")
    if known and (without or not posterior.has_weights or (diagnosed and few)):
        return run, posterior, None, True
    return *opened(folder, model), False


def _probe_label(run: Run, posterior: Any) -> str:
    x, y = posterior.probe
    part = "training" if y is None else "test"
    return f"the {len(x)} {part} rows of {run.data_label} that the run kept"


def run_diagnose(run: str, *, settings: DiagnoseSettings, output: Output) -> int:
    """Print the diagnosis; with --check the exit status says what it is, see `CHECKED`."""
    folder = storage.fetched(run)
    of, posterior, path, recorded = _judged(folder, settings.model, settings.data, diagnosed=True)
    if recorded or (settings.data is None and posterior.knows_more_at_probe):
        x, label = None, _probe_label(of, posterior)
    else:
        x, label = inputs(of, settings.data)
    with failures_named(path):
        rows = None if recorded else _judging_rows(of, posterior)
        diagnosis = posterior.diagnose(x, data=rows)
    if settings.data is None:
        keep_diagnosis(folder, diagnosis)
    if output.json:
        print_json(diagnosis.to_dict())
    else:
        print(f"{of.model_label} on {of.data_label}, functions at {label}\n")
        print(diagnosis)
    return CHECKED.get(diagnosis.status, 1) if settings.check else 0


def _judging_rows(run: Run, posterior: Any) -> Any:
    """The data of the run, which a kernel without an accept step is judged by; else None."""
    made = posterior.provenance
    if made.get("accept_step") or made.get("approximation") is not None:
        return None
    return training_rows(run, posterior)


def training_rows(run: Run, posterior: Any) -> Any:
    """The data that trained the run; None where they are not at hand."""
    try:
        train = tuple(run.load_data().train)
    except (OSError, ValueError):  # a file that was moved or changed
        return None
    # In Python a part of the data may have been given.
    return train if posterior.is_trained_on(*train) else None


def calibration_rows(run: Run, posterior: Any, table: str) -> tuple[Any, Any, str]:
    """The rows of --conformal as the model was given its own, and what they are in a few words.

    Raises:
        ValueError: most of them trained the run, as far as its data are at hand; or features or
            target are not those of the run.
    """
    x, y, label = inputs_and_targets(run, table)
    if (train := training_rows(run, posterior)) is not None:
        require_new_rows(train, x, y)
    return x, y, label


def _warn_of_training_rows(train: tuple[Any, Any] | None, x: Any, y: Any) -> None:
    again = 0 if train is None else repeated(train, (x, y))
    if again:
        print_error(
            f"{again} of the {len(y)} rows trained the posterior, which fits them better than new "
            "rows, so the scores are too good. Give rows that it has not seen.",
            kind="warning",
        )


def run_evaluate(run: str, *, settings: EvaluateSettings, output: Output) -> int:
    """Print the scores."""
    folder = storage.fetched(run)
    of, posterior, path, recorded = _judged(
        folder, settings.model, settings.data, settings.conformal
    )
    if recorded:
        scores = bnn.metrics.evaluate(posterior, class_names=of.class_names)
        label = _probe_label(of, posterior)
    else:
        x, y, label = inputs_and_targets(of, settings.data)
        if settings.data is not None:
            _warn_of_training_rows(training_rows(of, posterior), x, y)
        # It knows the rows that the run was made for, in their order.
        reference = reference_of(of) if settings.data is None else None
        calibration = None
        if settings.conformal is not None:
            *calibration, by = calibration_rows(of, posterior, settings.conformal)
            label += f", calibrated on {by}"
        with failures_named(path):
            scores = bnn.metrics.evaluate(
                posterior,
                x,
                y,
                reference=reference,
                calibration=calibration,
                class_names=of.class_names,
            )
    if output.json:
        print_json(scores.to_dict())
    else:
        print(f"{of.model_label} on {of.data_label}, scored on {label}, in the data's units")
        print(scores)
        if recorded and scores.task == "regression":
            print()
            print(paragraph(_RECORDED))
    return 0


DIAGNOSE = Command(
    "diagnose",
    "say whether a saved run has converged",
    run_diagnose,
    (RUN,),
    {"Options": ("settings", DiagnoseSettings)},
)
EVALUATE = Command(
    "evaluate",
    "score a saved run on held-out rows",
    run_evaluate,
    (RUN,),
    {"Options": ("settings", EvaluateSettings)},
)
