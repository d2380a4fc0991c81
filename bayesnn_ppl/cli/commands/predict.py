"""`bayesnn predict`, `compress` and `export`: what a saved run says of rows, now and elsewhere."""

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import conformal, storage
from bayesnn_ppl.cli.commands.reading import RUN, calibration_rows, opened
from bayesnn_ppl.cli.shared.options import Command, Output, calibration_table, model_file
from bayesnn_ppl.cli.shared.output import note, print_json, standard_output
from bayesnn_ppl.core.wording import json_text
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.models.user_models import failures_named
from bayesnn_ppl.settings.saved.rows import inputs
from bayesnn_ppl.settings.saved.run_file import Run, require_new
from bayesnn_ppl.settings.value_kinds import choices, levels, number, whole

__all__ = ["COMMAND", "COMPRESS", "EXPORT", "prediction_columns"]

_QUANTILES = (0.05, 0.95)
_LEVEL = 0.9


@dataclass(frozen=True)
class PredictSettings:
    """What is predicted, and where it is written."""

    model: str | None = model_file("the run's zoo model")
    data: str | None = setting(
        "rows to predict: a .csv file with the run's features, or the test rows of a data set with "
        "them",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="the run's test rows",
    )
    split: int | None = setting(
        "test rows of this split of a data set",
        read=whole(0),
        metavar="K",
        unit="number",
        shown="that of the run",
    )
    out: str | None = setting(
        "file to write, which must not exist", metavar="FILE", unit="path", shown="standard output"
    )
    quantiles: tuple[float, ...] | None = setting(
        "levels of the quantiles, for regression",
        read=levels,
        metavar="Q,Q",
        unit="probabilities",
        shown="0.05,0.95",
    )
    conformal: str | None = calibration_table(
        "adds intervals, or sets of classes, which are calibrated on them and hold their level "
        "whether the model is right or not"
    )
    level: float | None = setting(
        "level of these intervals or sets",
        read=number(below=1.0),
        metavar="P",
        unit="probability",
        shown="0.9",
    )


@dataclass(frozen=True)
class CompressSettings:
    """How many draws are chosen, and where they go."""

    model: str | None = model_file("the run's zoo model")
    draws: int = setting("draws to keep", default=20, read=whole(1), metavar="N", unit="draws")
    data: str | None = setting(
        "rows at which draws are compared: a .csv file with the run's features, or the test rows "
        "of a data set with them",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="the run's training rows",
    )
    out: str | None = setting(
        "folder of the new run, new or empty", metavar="FOLDER", unit="path", shown="RUN-DRAWS"
    )


@dataclass(frozen=True)
class ExportSettings:
    """What function is written, and where."""

    model: str | None = model_file("the run's zoo model")
    components: bool = switch("return what each draw says, in place of the mixture's moments")
    platforms: tuple[str, ...] = setting(
        "what the function may run on in addition to CPUs",
        default=(),
        read=choices("cuda", "rocm", "tpu"),
        metavar="P,P",
        unit="names",
        shown="none",
    )
    data: str | None = setting(
        "rows to check the function at, as in `predict`",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="the run's test rows",
    )
    out: str | None = setting(
        "folder to write, new or empty", metavar="FOLDER", unit="path", shown="RUN-function"
    )


def run_predict(run: str, *, settings: PredictSettings, output: Output) -> int:
    """Write the predictions to standard output or to a new file."""
    out = None if settings.out in (None, "-") else Path(str(settings.out))
    if out is not None and out.exists():
        raise FileExistsError(
            f"`{out}` exists, and a file is never written over. Choose another name, or remove it."
        )
    if out is not None and not out.parent.is_dir():
        raise FileNotFoundError(
            f"The folder `{out.parent}` of --out does not exist. Make it first."
        )
    if settings.level is not None and settings.conformal is None:
        raise ValueError(
            "--level is that of calibrated intervals, which need rows with targets: give "
            "--conformal too. Levels of the posterior's own quantiles are --quantiles."
        )
    of, posterior, path = opened(storage.fetched(run), settings.model)
    x, label = inputs(of, settings.data, split=settings.split)
    with failures_named(path):
        columns = prediction_columns(of, posterior.predict(x), settings.quantiles)
        if settings.conformal is not None:
            columns |= _conformal_columns(of, posterior, x, settings.conformal, settings.level)
    if out is None:
        if output.json:
            print_json(_records(columns))
        else:
            with standard_output():
                _write_csv(sys.stdout, columns)
        return 0
    with (
        storage.writing_to(out, lambda: "Choose another file with --out."),
        out.open("w", newline="", encoding="utf-8") as handle,
    ):
        if output.json:
            handle.write(json_text(_records(columns)))
        else:
            _write_csv(handle, columns)
    note(f"Wrote the predictions for {label} to {out}")
    return 0


def run_compress(run: str, *, settings: CompressSettings, output: Output) -> int:
    """Save the chosen draws, and print what is lost at the run's test rows."""
    folder = storage.fetched(run)
    out = Path(settings.out or f"{folder}-{settings.draws}")
    require_new(out)
    of, posterior, path = opened(folder, settings.model)
    x = of.load_data().train.x if settings.data is None else inputs(of, settings.data)[0]
    with failures_named(path):
        small = posterior.compress(settings.draws, x)
        small.save(out)
        if of.made_by != "Python":
            of.write(out)
        lost = None
        if of.data and len(rows := of.load_data().test):
            both = {"all": posterior, "chosen": small}
            lost = bnn.metrics.compare(both, *rows, reference="all", diagnose=False)
    if output.json:
        scores = None if lost is None else lost.to_dict()
        print_json({"folder": str(out), **small.provenance["selection"], "scores": scores})
    else:
        chosen = small.provenance["selection"]
        print(f"Saved {settings.draws} of {chosen['of']} draws in {out}")
        if lost is not None:
            print(f"\n{lost.rows} test rows of {of.data_label}, in the data's units\n{lost}")
    return 0


def run_export(run: str, *, settings: ExportSettings, output: Output) -> int:
    """Write the function."""
    folder = storage.fetched(run)
    out = Path(settings.out or f"{folder}-function")
    require_new(out)
    of, posterior, path = opened(folder, settings.model)
    x, _ = inputs(of, settings.data)
    with failures_named(path):
        posterior.export(
            out, x, components=settings.components, platforms=("cpu", *settings.platforms)
        )
    if output.json:
        print_json({"folder": str(out)})
    else:
        print(f"Wrote the function to {out}")
    return 0


def prediction_columns(
    run: Run, prediction: Any, quantiles: tuple[float, ...] | None
) -> dict[str, Any]:
    """Column name -> values of all rows, in the data's units.

    Raises:
        ValueError: quantiles of labels, or more than one number for each row.
    """
    if prediction.mean.ndim != (2 if prediction.task == "classification" else 1):
        raise ValueError(
            f"The model predicts an array of shape {prediction.mean.shape[1:]} for each row, "
            "which has no place in a line of CSV. Use `posterior.predict(x)` in Python."
        )
    columns: dict[str, Any] = {"row": np.arange(1, len(prediction.mean) + 1)}
    if prediction.task == "classification":
        if quantiles is not None:
            raise ValueError(
                "--quantiles is for regression: labels have no order. Leave it out; the columns "
                "`p_...` are the probabilities of the classes."
            )
        names = run.class_names or [str(k) for k in range(prediction.probabilities.shape[1])]
        best = prediction.probabilities.argmax(axis=1)
        columns["predicted"] = [names[k] for k in best]
        columns |= {f"p_{name}": prediction.probabilities[:, k] for k, name in enumerate(names)}
        columns["entropy"] = prediction.entropy
        columns["mutual_information"] = prediction.mutual_information
        return columns
    columns["mean"] = prediction.mean
    columns["sd"] = np.sqrt(prediction.variance)
    columns["aleatoric_sd"] = np.sqrt(prediction.aleatoric)
    columns["epistemic_sd"] = np.sqrt(prediction.epistemic)
    levels = _QUANTILES if quantiles is None else quantiles
    for level, values in zip(levels, prediction.quantile(levels), strict=True):
        columns[f"q{level:g}"] = values
    return columns


def _conformal_columns(
    run: Run, posterior: Any, x: Any, table: str, level: float | None
) -> dict[str, Any]:
    """Column name -> ends of intervals, or names of the classes of a set with bars between."""
    rows, y, label = calibration_rows(run, posterior, table)
    if np.array_equal(rows, x):
        raise ValueError(
            f"{label[0].upper()}{label[1:]} are to be predicted and calibrate the prediction, so "
            "nothing new would be predicted. Give other rows with --data or with --conformal."
        )
    calibrated = conformal.split(posterior, rows, y)
    level = _LEVEL if level is None else level
    name = f"{100 * level:g}"
    if isinstance(calibrated.score, conformal.AdaptiveSets):
        sets = calibrated.sets(x, level)
        names = run.class_names or [str(k) for k in range(sets.shape[1])]
        return {f"set_{name}": ["|".join(names[k] for k in np.flatnonzero(s)) for s in sets]}
    lower, upper = np.moveaxis(calibrated.interval(x, level), -1, 0)
    return {f"lower_{name}": lower, f"upper_{name}": upper}


def _records(columns: dict[str, Any]) -> list[dict[str, Any]]:
    lists = {name: np.asarray(values).tolist() for name, values in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _write_csv(handle: Any, columns: dict[str, Any]) -> None:
    writer = csv.writer(handle, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in zip(*columns.values(), strict=True))


def _cell(value: Any) -> str:
    """Six figures are more than any posterior knows."""
    return str(value) if isinstance(value, str | np.integer) else f"{value:.6g}"


COMMAND = Command(
    "predict",
    "predict with a saved run, as CSV",
    run_predict,
    (RUN,),
    {"Options": ("settings", PredictSettings)},
)
COMPRESS = Command(
    "compress",
    "keep the few draws of a saved run that together predict as all do",
    run_compress,
    (RUN,),
    {"Options": ("settings", CompressSettings)},
)
EXPORT = Command(
    "export",
    "write the predictions of a saved run as a function for JAX alone",
    run_export,
    (RUN,),
    {"Options": ("settings", ExportSettings)},
)
