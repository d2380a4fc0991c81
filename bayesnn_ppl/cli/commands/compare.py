"""`bayesnn compare`: saved runs in one table and one figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import references, storage
from bayesnn_ppl.cli.commands.reading import calibration_rows
from bayesnn_ppl.cli.shared.options import Argument, Command, Output, calibration_table, model_file
from bayesnn_ppl.cli.shared.output import note, print_json
from bayesnn_ppl.settings.declaring import setting
from bayesnn_ppl.settings.models.user_models import failures_named
from bayesnn_ppl.settings.saved.opening import loaded, open_run
from bayesnn_ppl.settings.saved.run_file import Run

__all__ = ["COMMAND", "RUNS", "folders_of", "runs_of"]

_FORMATS = (".png", ".pdf", ".svg")
RUNS = Argument("runs", "folders that `bayesnn sample` or `bayesnn fit` made", "RUN", many=True)


@dataclass(frozen=True)
class CompareSettings:
    """What runs are compared with, and where the figure goes."""

    reference: str | None = setting(
        "the run that distances are to, such as the longest one of HMC, or the name of a reference "
        "posterior, such as bostonHousing",
        metavar="RUN",
        unit="path",
        shown="none, and no distances",
    )
    conformal: str | None = calibration_table(
        "adds the width and coverage of 90 % intervals, or sets of classes, calibrated on them"
    )
    model: str | None = model_file("none; runs are scored where they kept function values")
    out: str | None = setting(
        "figure to write, which must not exist: " + ", ".join(f"*{f}" for f in _FORMATS),
        metavar="FIGURE.png",
        unit="path",
        shown="no figure",
    )


def run_compare(runs: Sequence[str], *, settings: CompareSettings, output: Output) -> int:
    """Print the table, and draw the figure where one is wanted."""
    out = None if settings.out is None else _new_figure(Path(settings.out))
    stored = _is_stored(settings.reference)
    folders, reference = folders_of(runs, None if stored else settings.reference)
    reference = settings.reference if stored else reference
    if len(folders) < 2:
        raise ValueError(
            f"`{runs[0]}` is only one run, and a comparison needs two. Add another run, or score "
            "this one with `bayesnn evaluate`."
        )
    found_runs, models, file = runs_of(folders, settings.model)
    posteriors = {
        name: loaded(folders[name], found_runs[name], model, settings.model)
        for name, model in models.items()
    }
    first = next(iter(found_runs.values()))
    x = y = None
    kept = " that the runs kept"
    if all(p.model is not None and p.has_weights for p in posteriors.values()):
        (x, y), kept = first.load_data().test, ""
    calibration = None
    if settings.conformal is not None:
        for name, posterior in posteriors.items():  # of the same data, so in the same units
            *calibration, by = calibration_rows(found_runs[name], posterior, settings.conformal)
        kept += f", calibrated on {by}"
    with failures_named(file):
        found = bnn.metrics.compare(posteriors, x, y, reference=reference, calibration=calibration)
    if output.json:
        print_json(found.to_dict())
    else:
        print(f"{found.rows} test rows of {first.data_label}{kept}, in the data's units\n{found}")
    if out is not None:
        from bayesnn_ppl.report.sections.comparison import comparison_figure

        comparison_figure(found, first.target_name).savefig(out)
        note(f"Wrote the figure to {out}")
    return 0


def _is_stored(reference: str | None) -> bool:
    """Whether it names a reference posterior of the package; a folder comes first."""
    return reference in references.names() and not Path(str(reference)).exists()


def _new_figure(path: Path) -> Path:
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(f"--out takes a figure, {', '.join(_FORMATS)}, not `{path}`.")
    if path.exists():
        raise FileExistsError(
            f"`{path}` exists, and files are not overwritten. Choose another name, or remove it."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder `{path.parent}` of --out does not exist. Make it first."
        )
    return path


def folders_of(given: Sequence[str], reference: str | None) -> tuple[dict[str, Path], str | None]:
    """Name -> folder, the reference among them, and its name."""
    given = list(given)
    places = [storage.fetched(folder) for folder in given]
    resolved = [place.resolve() for place in places]
    twice = next((p for i, p in enumerate(places) if resolved[i] in resolved[:i]), None)
    if twice is not None:
        raise ValueError(f"The run `{twice}` is given twice. Name each run once.")
    other = None
    if reference is not None:
        place = storage.fetched(reference)
        other = place.resolve()
        if other not in resolved:
            given.append(reference)
            places.append(place)
            resolved.append(other)
    short = [
        PurePosixPath(name).name if storage.is_address(name) else place.name
        for name, place in zip(given, resolved, strict=True)
    ]
    names = short if len(set(short)) == len(short) else given
    chosen = None if other is None else names[resolved.index(other)]
    return dict(zip(names, places, strict=True)), chosen


def runs_of(
    folders: dict[str, Path], model: str | None
) -> tuple[dict[str, Run], dict[str, Any], Path | None]:
    """Runs of the same data, their models, None where one is not known, and the user's file.

    Raises:
        ValueError: their test rows are not the same, or `model` is of none of them.
    """
    runs = {name: open_run(folder) for name, folder in folders.items()}
    (first, one), *others = runs.items()
    for name, run in others:
        _require_same_data(first, one, name, run)
    if model is not None and all("zoo" in run.model for run in runs.values()):
        raise ValueError("All runs were made with models of the zoo, so --model does not apply.")
    models: dict[str, Any] = {}
    file = None
    for name, run in runs.items():
        models[name] = None
        if "zoo" in run.model:
            models[name], _ = run.load_model(None)
        elif model is not None:
            models[name], file = run.load_model(model)
    return runs, models, file


def _require_same_data(first: str, one: Run, name: str, run: Run) -> None:
    def part(of: Run) -> dict[str, Any]:
        return {key: value for key, value in of.data.items() if key != "name"}

    if one.data_sha256 != run.data_sha256:
        what = f"`{first}` is of {one.data_label} and `{name}` of {run.data_label}"
        if one.data_label == run.data_label:
            what = f"the values of {one.data_label} differ between `{first}` and `{name}`"
    elif part(one) != part(run) or one.standardisation != run.standardisation:
        what = (
            f"`{first}` and `{name}` split or prepare {one.data_label} differently, and the test "
            "rows of one may be training rows of the other"
        )
    else:
        return
    raise ValueError(f"Only runs of the same data can be compared, but {what}.")


COMMAND = Command(
    "compare",
    "score saved runs on the same rows",
    run_compare,
    (RUNS,),
    {"Options": ("settings", CompareSettings)},
)
