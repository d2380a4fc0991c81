"""`bayesnn study`: many recipes as one table; and what runs a cell of it."""

import argparse
import contextlib
import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

from bayesnn_ppl.cli.output import note, paragraph, print_json, table
from bayesnn_ppl.cli.protocols import active_learning_rows, bandit_rows, check_images, shift_rows
from bayesnn_ppl.cli.recipe_words import arguments_of
from bayesnn_ppl.cli.recipes import recorded
from bayesnn_ppl.experiments import (
    ActiveLearning,
    Bandit,
    Cell,
    Outcome,
    Results,
    Shift,
    load_recipe,
    load_study,
    read_results,
    run_study,
    study_names,
)

__all__ = ["run_cell", "run_study_command"]


def run_study_command(arguments: argparse.Namespace) -> int:
    """Run what a study has no result of yet, and show what there is."""
    if arguments.list or arguments.study is None:
        return _list(arguments)
    study, scale = load_study(arguments.study), arguments.scale
    folder = Path(arguments.out or f"runs/study-{Path(study.name).stem}-{scale}")
    talk = not (arguments.quiet or arguments.json)
    for cell in study.cells(scale):  # every setting is checked before the first run
        arguments_of(*_command(cell))
    if talk:
        note(f"{study.title}. {study.question}")
        note(f"Scale {scale}: {study.scales[scale]['note']}")

    def report(outcome: Outcome, done: int, total: int) -> None:
        if talk or outcome.error is not None:
            note(f"[{done}/{total}] {_told(outcome)}")

    try:
        outcomes = run_study(
            study,
            scale,
            folder,
            run_cell,
            jobs=arguments.jobs,
            engine=arguments.engine,
            scheduler=arguments.scheduler,
            report=report,
        )
    except KeyboardInterrupt:
        raise InterruptedError(
            f"Interrupted. What is done is in {folder}; the same command goes on from there."
        ) from None
    results = read_results(study, scale, folder)
    written = results.write(folder)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if arguments.json:
        print_json(_as_json(results, folder, failed))
    else:
        print(_shown(results))
        print(f"\nSaved: {', '.join(map(str, written))}")
        if failed:
            note(f"{len(failed)} cells failed; the same command tries them again.")
    return 1 if failed else 0


def run_cell(cell: Cell, folder: Path) -> dict[str, Any]:
    """Run a cell, or go on with what an ended process left of it; its scores and verdict.

    Under a protocol its scores are rows, and the folder is a run for a shift alone: the trainings
    of active learning and of a bandit are many, and are not kept.

    Raises:
        KeyboardInterrupt: it was ended from outside before it had all its draws.
        RuntimeError: the run failed.
    """
    try:
        match cell.protocol:
            case ActiveLearning() as protocol:
                rows = active_learning_rows(
                    protocol, arguments_of(*_command(cell)), folder, cell.seed
                )
                return {"places": rows}
            case Bandit() as protocol:
                rows = bandit_rows(protocol, arguments_of(*_command(cell)), folder, cell.seed)
                return {"places": rows}
            case Shift() as protocol:
                check_images(protocol, arguments_of(*_command(cell)))
    except InterruptedError as error:
        raise KeyboardInterrupt from error
    scores, found = _held_out(cell, folder)
    if isinstance(cell.protocol, Shift):
        return found | {"places": shift_rows(cell.protocol, folder, cell.seed)}
    return scores | found


def _held_out(cell: Cell, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scores of a run on held-out rows, and what else there is to say of it."""
    command, settings, where = _command(cell)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            if (folder / "run.json").is_file() and (folder / "commit.json").is_file():
                status = _resumed(folder, settings.get("max_time"))
            else:
                if folder.exists():  # it was ended before there was anything to go on from
                    shutil.rmtree(folder)
                words = [f"--out={folder}", "--quiet"]
                made = arguments_of(command, settings, where, words)
                status = made.run(made)
    except InterruptedError as error:
        raise KeyboardInterrupt from error
    record = _read(folder / "commit.json")
    config = _read(folder / "config.json")
    whole = record["complete"] or config.get("ended", {}).get("by") == "max_time"
    if status or not whole:
        raise KeyboardInterrupt
    recorded(load_recipe(cell.recipe), cell.scale, cell.overrides, folder)
    diagnosis = folder / "diagnosis.json"
    scores = _read(folder / "metrics.json")
    scores.pop("by_class", None)  # a line of a study's table is flat
    return scores, {
        **_convergence(_read(diagnosis) if diagnosis.is_file() else {}),
        "chains": config["chains"],
        "draws": config["draws"],
    }


def _convergence(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """The verdict, and the worst of the function outputs, null where a run has none."""
    functions = diagnosis.get("functions", {}).values()
    rhats = [one["rhat_max"] for one in functions if one["rhat_max"] is not None]
    sizes = [one["ess_bulk_min"] for one in functions if one["ess_bulk_min"] is not None]
    return {
        "verdict": diagnosis.get("status"),
        "rhat_max": max(rhats, default=None),
        "ess_bulk_min": min(sizes, default=None),
    }


def _command(cell: Cell) -> tuple[str, dict[str, Any], str]:
    recipe = load_recipe(cell.recipe)
    where = f"The arm `{cell.arm}`, recipe `{cell.recipe}` at the scale {cell.scale}"
    return recipe.command, recipe.at(cell.scale, cell.overrides), where


def _resumed(folder: Path, max_time: str | None) -> int:
    from bayesnn_ppl.cli.commands import build_parser

    line = ["resume", str(folder), "--quiet"]
    line += [] if max_time is None else [f"--max-time={max_time}"]
    arguments = build_parser()[0].parse_args(line)
    return arguments.run(arguments)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


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


def _list(arguments: argparse.Namespace) -> int:
    studies = [load_study(name) for name in study_names()]
    if arguments.json:
        print_json([{"name": s.name, "title": s.title, "question": s.question} for s in studies])
    else:
        rows = [(s.name, f"{s.title}. {s.question}") for s in studies]
        print(table(("STUDY", "WHAT IT ASKS"), rows))
    return 0
