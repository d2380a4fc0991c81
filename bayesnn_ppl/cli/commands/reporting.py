"""`bayesnn report` and `bayesnn watch`: runs as a page, finished or running."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.cli.commands.compare import RUNS, folders_of, runs_of
from bayesnn_ppl.cli.commands.reading import RUN, calibration_rows
from bayesnn_ppl.cli.shared.options import Argument, Command, Output, calibration_table, model_file
from bayesnn_ppl.cli.shared.output import note, print_json
from bayesnn_ppl.cli.shared.page_server import Watched, serve
from bayesnn_ppl.report.building import built
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.models.user_models import failures_named
from bayesnn_ppl.settings.saved.kept_diagnosis import keep_diagnosis
from bayesnn_ppl.settings.saved.opening import predicting
from bayesnn_ppl.settings.saved.rows import held_out
from bayesnn_ppl.settings.saved.run_file import Run
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["GALLERY", "REPORT", "WATCH"]

_KEPT = "none; runs of one are judged by what they kept"


@dataclass(frozen=True)
class ReportSettings:
    """What a page holds, and where it goes."""

    out: str | None = setting(
        "the page to write; an earlier one is replaced",
        metavar="FILE.html",
        unit="path",
        shown="report.html in the folder of the run, or here for several",
    )
    model: str | None = model_file(_KEPT)
    reference: str | None = setting(
        "the run among them that distances are to",
        metavar="RUN",
        unit="path",
        shown="none, and no distances",
    )
    conformal: str | None = calibration_table(
        "compares the coverage and width of the run's own intervals with those calibrated on them"
    )
    gradients: int = setting(
        "draws at which temperatures are read, each a pass over the training rows; 0 for none",
        default=400,
        read=whole(0),
        metavar="N",
        unit="draws",
    )


@dataclass(frozen=True)
class WatchSettings:
    """How a page is served."""

    port: int = setting(
        "port of this machine to serve the page at; 0 takes a free one",
        default=8765,
        read=whole(0),
        metavar="PORT",
        unit="number",
    )
    model: str | None = model_file(_KEPT)
    browser: bool = switch("open the page in the browser of this machine")


@dataclass(frozen=True)
class GallerySettings:
    """What the gallery shows."""

    draws: int = setting(
        "draws of each chain; the file grows with them",
        default=240,
        read=whole(40),
        metavar="N",
        unit="draws per chain",
    )
    samplers: str | None = setting(
        "those to show, separated by commas", metavar="NAME,NAME", unit="words", shown="all of them"
    )
    targets: str | None = setting(
        "those to show, separated by commas", metavar="NAME,NAME", unit="words", shown="all of them"
    )
    seed: int = setting(
        "seed of all randomness", default=0, read=whole(0), metavar="N", unit="integer"
    )


def run_gallery(out: str = "gallery.html", *, settings: GallerySettings, output: Output) -> int:
    """Run the kernels on every target, and write the page."""
    from bayesnn_ppl.report.gallery import gallery_page

    page_file = _page_file(Path(out))
    chosen = {
        name: tuple(word.strip() for word in value.split(","))
        for name in ("samplers", "targets")
        if (value := getattr(settings, name)) is not None
    }
    page = gallery_page(
        draws=settings.draws,
        seed=settings.seed,
        report=None if output.json else note,
        **chosen,
    )
    page.save(page_file)
    size = page_file.stat().st_size
    if output.json:
        print_json({"file": str(page_file), "bytes": size})
    else:
        print(f"Wrote the gallery to {page_file} ({size / 1e6:.1f} MB); open it in any browser.")
    return 0


def run_report(runs: Sequence[str], *, settings: ReportSettings, output: Output) -> int:
    """Write the page, and say where it is and what it says."""
    folders, reference = folders_of(runs, settings.reference)
    found, models, file = runs_of(folders, settings.model)
    single = len(folders) == 1
    default = next(iter(folders.values())) / "report.html" if single else Path("report.html")
    out = _page_file(Path(settings.out) if settings.out else default)
    subjects = [
        _subject(
            index,
            name,
            folders[name],
            run,
            models[name],
            settings.gradients,
            conformal=settings.conformal,
        )
        for index, (name, run) in enumerate(found.items())
    ]
    if any(subject.inputs is not None for subject in subjects):
        note("Computing the page. The first time this compiles, which can take half a minute.")
    with failures_named(file):
        page = built(subjects, reference=reference)
    page.save(out)
    for subject in subjects:
        keep_diagnosis(folders[subject.name], subject.diagnosis)
    size = out.stat().st_size
    if output.json:
        print_json({"file": str(out), "bytes": size, "runs": page.statuses})
        return 0
    for name, status in page.statuses.items():
        print(f"{name}: {status}")
    for subject in subjects:
        if subject.inputs is None:
            print(_missing(subject.name, found[subject.name], models[subject.name]))
    print(f"Wrote the report to {out} ({size / 1e6:.1f} MB); open it in any browser.")
    return 0


def _missing(name: str, run: Run, model: Any) -> str:
    """What a page without functions lacks: the run kept none, and none can be computed."""
    lacks = [] if model is not None else ["model: --model FILE.py:NAME"]
    if not run.data:
        lacks.append(
            "data: made from arrays in Python, sample there on `bayesnn_ppl.data.load` or with "
            "`keep=bayesnn_ppl.Keep(probe=(x, y))`"
        )
    return f"{name} is shown without functions, which need what is missing ({'; '.join(lacks)})."


def run_watch(run: str, *, settings: WatchSettings, output: Output) -> int:
    """Serve the page of a run until Ctrl-C."""
    folders, _ = folders_of([run], None)
    ((name, folder),) = folders.items()
    runs, models, _ = runs_of({name: folder}, settings.model)
    of, model = runs[name], models[name]

    def subject() -> Subject:
        return _subject(0, name, folder, of, model, 0, kept=True)

    def started(address: str) -> None:
        if output.json:
            print_json({"address": address, "run": str(folder)})
        else:
            note(f"Watching {folder} at {address} (Ctrl-C ends).")

    serve(
        Watched(run, name, subject),
        port=settings.port,
        started=started,
        browser=settings.browser,
    )
    return 0


def _page_file(path: Path) -> Path:
    """The file of a page, refused before anything is computed where it cannot be written."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"A page is written to a file *.html, not to `{path}`.")
    if path.is_dir() or not path.parent.is_dir():
        raise FileNotFoundError(f"`{path}` cannot be written: its folder does not exist.")
    return path


def _subject(
    index: int,
    name: str,
    folder: Path,
    run: Run,
    model: Any,
    gradients: int,
    *,
    kept: bool = False,
    conformal: str | None = None,
) -> Subject:
    """What the page is told of a run; where `kept`, only what the run itself recorded is used."""
    posterior = bnn.load(folder)
    kept = kept and posterior.probe is not None
    rows: dict[str, Any] = {}
    if conformal is not None:
        *calibration, _ = calibration_rows(run, posterior, conformal)
        rows["calibration"] = tuple(calibration)
    if model is not None and posterior.has_weights and not kept:
        posterior = bnn.load(folder, predicting(run, posterior.provenance, model))
        if run.data:
            dataset = run.load_data()
            x, y = held_out(dataset)
            train = tuple(dataset.train)
            # In Python a part of the data may have been given.
            if conformal is not None and y is None:
                raise ValueError(
                    f"All rows of {run.data_label} trained `{name}`, so none are left to score "
                    "conformal intervals on. Leave --conformal out, or use `bayesnn evaluate` with "
                    "--data."
                )
            rows |= {"x": x, "y": y, "train": train if posterior.is_trained_on(*train) else None}
    words = {
        "command": run.command,
        "data": f"{run.model_label} on {run.data_label}",
        "target": run.target_name,
        "classes": run.class_names,
    }
    return Subject(name, f"run{index}", posterior, gradients=gradients, words=words, **rows)


REPORT = Command(
    "report",
    "write a page about saved runs",
    run_report,
    (RUNS,),
    {"Options": ("settings", ReportSettings)},
)
WATCH = Command(
    "watch",
    "serve the page of a run in progress",
    run_watch,
    (RUN,),
    {"Options": ("settings", WatchSettings)},
)
GALLERY = Command(
    "gallery",
    "write a page of animated samplers",
    run_gallery,
    (
        Argument(
            "out",
            "the page to write; an earlier one is replaced [default: gallery.html]",
            "FILE.html",
            default="gallery.html",
        ),
    ),
    {"Options": ("settings", GallerySettings)},
)
