"""What runs a cell of a study, and checks the settings of all before the first."""

import json
from pathlib import Path
from typing import Any

from bayesnn_ppl.experiments.beginnings import begin_or_continue, with_beginning
from bayesnn_ppl.experiments.execution import prepare
from bayesnn_ppl.experiments.judging import judge_run
from bayesnn_ppl.experiments.protocols.cells import (
    active_learning_rows,
    bandit_rows,
    check_images,
    shift_rows,
)
from bayesnn_ppl.experiments.protocols.kinds import ActiveLearning, Bandit, Shift
from bayesnn_ppl.experiments.recipe import load_recipe
from bayesnn_ppl.experiments.recipe_runs import recorded
from bayesnn_ppl.experiments.study import Cell
from bayesnn_ppl.settings.jobs import Fit, Sample, job_from, line_of

__all__ = ["job_of", "run_cell"]


def job_of(cell: Cell) -> Sample | Fit:
    """The settings of a cell.

    Raises:
        ValueError: one that there is not, or a value that it cannot take.
    """
    recipe = load_recipe(cell.recipe)
    where = f"The arm `{cell.arm}`, recipe `{cell.recipe}` at the scale {cell.scale}"
    return job_from(recipe.command, recipe.at(cell.scale, cell.overrides), where)


def run_cell(cell: Cell, folder: Path) -> dict[str, Any]:
    """Run a cell, or continue what an ended process left of it; its scores and verdict.

    Under a protocol its scores are rows, and the folder is a run for a shift alone: the trainings
    of active learning and of a bandit are many, and are not kept.

    Raises:
        KeyboardInterrupt: it was ended from outside before it had all its draws.
        RuntimeError: the run failed.
    """
    job = job_of(cell)
    try:
        match cell.protocol:
            case ActiveLearning() as protocol:
                return {"places": active_learning_rows(protocol, job, folder, cell.seed)}
            case Bandit() as protocol:
                return {"places": bandit_rows(protocol, job, folder, cell.seed)}
            case Shift() as protocol:
                check_images(protocol, job)
        scores, found = _held_out(cell, job, folder)
    except InterruptedError as error:
        raise KeyboardInterrupt from error
    if isinstance(cell.protocol, Shift):
        return found | {"places": shift_rows(cell.protocol, folder, cell.seed)}
    return scores | found


def _held_out(cell: Cell, job: Sample | Fit, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scores of a run on held-out rows, and what else there is to say of it."""
    recipe = load_recipe(cell.recipe)
    prepare(job)
    settings = recipe.at(cell.scale, cell.overrides)
    if not (folder / "commit.json").is_file():
        settings = with_beginning(recipe, cell.scale, cell.overrides, folder)
        job = job_from(recipe.command, settings, f"The recipe `{recipe.name}`")
    made = begin_or_continue(job, folder, command=line_of(recipe.command, settings))
    record, config = _read(folder / "commit.json"), _read(folder / "config.json")
    whole = record["complete"] or config.get("ended", {}).get("by") == "max_time"
    if made.stopped or not whole:
        raise KeyboardInterrupt
    judge_run(made)
    recorded(recipe, cell.scale, cell.overrides, folder)
    diagnosis, scores = folder / "diagnosis.json", _read(folder / "metrics.json")
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


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
