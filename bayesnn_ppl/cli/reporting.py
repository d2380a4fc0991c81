"""`bayesnn report` and `bayesnn watch`: runs as a page, finished or while they go on."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesnn_ppl.cli.output import note, print_json
from bayesnn_ppl.cli.parser import Parser, option, switch, whole

if TYPE_CHECKING:
    from bayesnn_ppl.cli.runs import Run
    from bayesnn_ppl.report.parts.subject import Subject

# The parser needs this file for every command, so what is slow to import is imported below.

__all__ = [
    "add_gallery",
    "add_report",
    "add_watch",
    "run_gallery",
    "run_report",
    "run_watch",
]

_MODEL = (
    "the .py file of runs that were made with one; without it they are judged by what they kept"
)


def add_report(parser: Parser) -> None:
    """The arguments of `bayesnn report`."""
    parser.add_argument(
        "run_folders",
        nargs="+",
        metavar="RUN",
        help="folders that `bayesnn sample` or `bayesnn fit` made; several stand side by side",
    )
    option(
        parser,
        "--out",
        "the page to write; an earlier one is replaced",
        metavar="FILE.html",
        unit="path",
        shown="report.html in the folder of the run, or here for several",
    )
    option(parser, "--model", _MODEL, metavar="FILE.py", unit="path", shown="none")
    option(
        parser,
        "--reference",
        "the run among them that distances are to",
        metavar="RUN",
        unit="path",
        shown="none, and no distances",
    )
    option(
        parser,
        "--gradients",
        "draws at which temperatures are read, each a pass over the training rows; 0 for none",
        default=400,
        type=whole(0),
        metavar="N",
        unit="draws",
    )


def add_watch(parser: Parser) -> None:
    """The arguments of `bayesnn watch`."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of a run, which may still go on")
    option(
        parser,
        "--port",
        "port of this machine to serve the page at; 0 takes a free one",
        default=8765,
        type=whole(0),
        metavar="PORT",
        unit="number",
    )
    option(parser, "--model", _MODEL, metavar="FILE.py", unit="path", shown="none")
    switch(parser, "--browser", "open the page in the browser of this machine")


def add_gallery(parser: Parser) -> None:
    """The arguments of `bayesnn gallery`."""
    parser.add_argument(
        "out", metavar="FILE.html", help="the page to write; an earlier one is replaced"
    )
    option(
        parser,
        "--draws",
        "draws of each chain; the file grows with them",
        default=240,
        type=whole(40),
        metavar="N",
        unit="draws per chain",
    )
    option(
        parser,
        "--samplers",
        "those to show, separated by commas",
        metavar="NAME,NAME",
        unit="words",
        shown="all eight",
    )
    option(
        parser,
        "--targets",
        "those to show, separated by commas",
        metavar="NAME,NAME",
        unit="words",
        shown="all eight",
    )
    option(
        parser, "--seed", "seed of everything random", default=0, type=whole(0), metavar="N",
        unit="number",
    )  # fmt: skip


def run_gallery(arguments: argparse.Namespace) -> int:
    """Run the kernels on every target, and write the page."""
    from bayesnn_ppl.report.gallery import gallery_page

    out = _page_file(Path(arguments.out))
    chosen = {
        name: tuple(word.strip() for word in value.split(","))
        for name in ("samplers", "targets")
        if (value := getattr(arguments, name)) is not None
    }
    page = gallery_page(
        draws=arguments.draws,
        seed=arguments.seed,
        report=None if arguments.json else note,
        **chosen,
    )
    page.save(out)
    size = out.stat().st_size
    if arguments.json:
        print_json({"file": str(out), "bytes": size})
    else:
        print(f"Wrote the gallery to {out} ({size / 1e6:.1f} MB); open it in any browser.")
    return 0


def run_report(arguments: argparse.Namespace) -> int:
    """Write the page, and say where it is and what it says."""
    from bayesnn_ppl.cli.comparing import folders_of, runs_of
    from bayesnn_ppl.cli.user_model import failures_named
    from bayesnn_ppl.cli.verdicts import keep_diagnosis
    from bayesnn_ppl.report.building import built

    folders, reference = folders_of(arguments.run_folders, arguments.reference)
    runs, programs, file = runs_of(folders, arguments.model)
    single = len(folders) == 1
    default = next(iter(folders.values())) / "report.html" if single else Path("report.html")
    out = _page_file(Path(arguments.out) if arguments.out else default)
    subjects = [
        _subject(index, name, folders[name], run, programs[name], arguments.gradients)
        for index, (name, run) in enumerate(runs.items())
    ]
    if any(subject.inputs is not None for subject in subjects):
        note("Computing the page. The first time this compiles, which can take half a minute.")
    with failures_named(file):
        page = built(subjects, reference=reference)
    page.save(out)
    for subject in subjects:
        keep_diagnosis(folders[subject.name], subject.diagnosis)
    size = out.stat().st_size
    if arguments.json:
        print_json({"file": str(out), "bytes": size, "runs": page.statuses})
        return 0
    for name, status in page.statuses.items():
        print(f"{name}: {status}")
    for subject in subjects:
        if subject.inputs is None:
            print(_missing(subject.name, runs[subject.name], programs[subject.name]))
    print(f"Wrote the report to {out} ({size / 1e6:.1f} MB); open it in any browser.")
    return 0


def _missing(name: str, run: "Run", program: Any) -> str:
    """What a page without functions lacks: the run kept none, and none can be computed."""
    lacks = [] if program is not None else ["program: --model FILE.py:NAME"]
    if not run.data:
        lacks.append(
            "data: made from arrays in Python, sample there on `bayesnn_ppl.data.load` or with "
            "`keep=bayesnn_ppl.Keep(probe=(x, y))`"
        )
    return f"{name} is shown without functions, which need what is missing ({'; '.join(lacks)})."


def run_watch(arguments: argparse.Namespace) -> int:
    """Serve the page of a run until Ctrl-C."""
    from bayesnn_ppl.cli.comparing import folders_of, runs_of
    from bayesnn_ppl.cli.watching import Watched, serve

    folders, _ = folders_of([arguments.run_folder], None)
    ((name, folder),) = folders.items()
    runs, programs, _ = runs_of({name: folder}, arguments.model)
    run, program = runs[name], programs[name]

    def subject() -> "Subject":
        return _subject(0, name, folder, run, program, 0, kept=True)

    def started(address: str) -> None:
        if arguments.json:
            print_json({"address": address, "run": str(folder)})
        else:
            note(f"Watching {folder} at {address} (Ctrl-C ends).")

    serve(
        Watched(arguments.run_folder, name, subject),
        port=arguments.port,
        started=started,
        browser=arguments.browser,
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
    run: "Run",
    program: Any,
    gradients: int,
    *,
    kept: bool = False,
) -> "Subject":
    """What the page is told of a run; where `kept`, only what the run itself recorded is used."""
    import bayesnn_ppl as bnn
    from bayesnn_ppl.cli.reading import predicting
    from bayesnn_ppl.cli.rows import held_out
    from bayesnn_ppl.report.parts.subject import Subject

    posterior = bnn.load(folder)
    kept = kept and posterior.probe is not None
    rows: dict[str, Any] = {}
    if program is not None and posterior.has_weights and not kept:
        posterior = bnn.load(folder, predicting(run, posterior.provenance, program))
        if run.data:
            dataset = run.load_data()
            x, y = held_out(dataset)
            train = tuple(dataset.train)
            # In Python a part of the data may have been given.
            rows = {"x": x, "y": y, "train": train if posterior.is_trained_on(*train) else None}
    words = {
        "command": run.command,
        "data": f"{run.model_label} on {run.data_label}",
        "target": run.target_name,
        "classes": run.class_names,
    }
    return Subject(name, f"run{index}", posterior, gradients=gradients, words=words, **rows)
