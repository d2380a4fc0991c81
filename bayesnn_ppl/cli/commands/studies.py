"""`bayesnn study`: many recipes as one table."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesnn_ppl.cli.commands.recipes import SCALE
from bayesnn_ppl.cli.shared.options import Argument, Command, Output
from bayesnn_ppl.cli.shared.output import note, paragraph, print_json, table
from bayesnn_ppl.cli.shared.processes import CLUSTER, ClusterSettings
from bayesnn_ppl.experiments import (
    Outcome,
    Results,
    load_study,
    read_results,
    run_study,
    study_names,
)
from bayesnn_ppl.experiments.study_cells import job_of
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["COMMAND"]


@dataclass(frozen=True)
class StudySettings:
    """How a study is run."""

    scale: str = SCALE
    out: str | None = setting(
        "folder of the study; finished cells in it are not run again",
        metavar="FOLDER",
        unit="path",
        shown="runs/study-STUDY-SCALE",
    )
    jobs: int = setting(
        "cells at a time, each in a process of this machine",
        default=1,
        read=whole(1),
        metavar="N",
        unit="cells",
    )
    list: bool = switch("list the studies")
    quiet: bool = switch("no progress and no hints, only the results")


def run_study_command(
    study: str | None = None, *, settings: StudySettings, workers: ClusterSettings, output: Output
) -> int:
    """Run what a study has no result of yet, and show what there is."""
    if settings.list or study is None:
        return _list(json=output.json)
    of, scale = load_study(study), settings.scale
    folder = Path(settings.out or f"runs/study-{Path(of.name).stem}-{scale}")
    talk = not (settings.quiet or output.json)
    for cell in of.cells(scale):  # every setting is checked before the first run
        job_of(cell)
    if talk:
        note(f"{of.title}. {of.question}")
        note(f"Scale {scale}: {of.scales[scale]['note']}")

    def report(outcome: Outcome, done: int, total: int) -> None:
        if talk or outcome.error is not None:
            note(f"[{done}/{total}] {_told(outcome)}")

    try:
        outcomes = run_study(
            of,
            scale,
            folder,
            jobs=settings.jobs,
            cluster=workers.cluster,
            report=report,
        )
    except KeyboardInterrupt:
        raise InterruptedError(
            f"Interrupted. Finished cells are in {folder}; the same command continues."
        ) from None
    results = read_results(of, scale, folder)
    written = results.write(folder)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if output.json:
        print_json(_as_json(results, folder, failed))
    else:
        print(_shown(results))
        print(f"\nSaved: {', '.join(map(str, written))}")
        if failed:
            note(f"{len(failed)} cells failed; the same command tries them again.")
    return 1 if failed else 0


def _told(outcome: Outcome) -> str:
    cell = outcome.cell
    place = "" if cell.x is None else f" at {cell.x:g}"
    what = f"{cell.arm}{place}, seed {cell.seed}"
    if outcome.error is not None:
        return f"{what}: failed. {outcome.error}"
    return what if outcome.ran else f"{what}: was done before"


def _shown(results: Results) -> str:
    """A table of each metric over the places of each arm."""
    study, blocks = results.study, []
    for metric in study.metrics:
        if metric not in results.table:
            blocks.append(f"No cell has `{metric}`.")
            continue
        rows = []
        for point in results.points(metric):
            error = "" if math.isnan(point.error) else f" ± {point.error:.4f}"
            place = "" if point.x is None else f"{point.x:g}"
            rows.append((point.arm, place, f"{point.mean:.4f}{error}", str(point.seeds)))
        blocks.append(table(("ARM", study.x.upper() or "X", metric.upper(), "SEEDS"), rows))
    note_of = study.scales[results.scale]["note"]
    missing = f"{results.missing} cells have no result. " if results.missing else ""
    blocks.append(paragraph(f"{missing}Scale {results.scale}: {note_of}"))
    return "\n\n".join([*blocks, *map(paragraph, _judged(results))])


def _judged(results: Results) -> list[str]:
    """How many of the runs converged, in a sentence, where they have verdicts."""
    table = results.table
    if "verdict" not in table:
        return []
    runs = table.drop_duplicates("cell")
    counts = runs["verdict"].value_counts()
    if counts.empty:
        return []
    found = f"Verdicts of the runs: {', '.join(f'{n} {v}' for v, n in counts.items())}."
    worst = runs["rhat_max"].max() if "rhat_max" in runs else math.nan
    if not math.isnan(worst):
        found += f" The largest R-hat of a function output is {worst:.2f}."
    return [found]


def _as_json(results: Results, folder: Path, failed: list[Outcome]) -> dict[str, Any]:
    study = results.study
    return {
        "study": study.name,
        "scale": results.scale,
        "folder": str(folder),
        "missing": results.missing,
        "failed": [{"arm": o.cell.arm, "x": o.cell.x, "error": o.error} for o in failed],
        "points": {
            metric: [vars(point) for point in results.points(metric)]
            for metric in study.metrics
            if metric in results.table
        },
    }


def _list(*, json: bool) -> int:
    studies = [load_study(name) for name in study_names()]
    if json:
        print_json([{"name": s.name, "title": s.title, "question": s.question} for s in studies])
    else:
        rows = [(s.name, f"{s.title}. {s.question}") for s in studies]
        print(table(("STUDY", "WHAT IT ASKS"), rows))
    return 0


COMMAND = Command(
    "study",
    "run a study, a table of recipes, or list them",
    run_study_command,
    (
        Argument(
            "study",
            "a name of `bayesnn study --list`, or a .toml file [default: list them]",
            "STUDY",
            default=None,
        ),
    ),
    {"How it is run": ("settings", StudySettings), CLUSTER: ("workers", ClusterSettings)},
)
