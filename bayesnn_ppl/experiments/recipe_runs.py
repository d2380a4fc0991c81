"""Run a recipe in a folder, and compare its scores with the published figures."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesnn_ppl import storage
from bayesnn_ppl.experiments.beginnings import with_beginning
from bayesnn_ppl.experiments.execution import Made, make_run, prepare
from bayesnn_ppl.experiments.judging import Judged, judge_run
from bayesnn_ppl.experiments.recipe import Published, Recipe, load_recipe
from bayesnn_ppl.settings.jobs import job_from, line_of
from bayesnn_ppl.settings.saved.opening import open_run
from bayesnn_ppl.settings.saved.run_file import default_folder, require_new
from bayesnn_ppl.storage.files import write_json

__all__ = ["RecipeRun", "compared", "recorded", "run_recipe"]

_RECORD = "recipe.json"


@dataclass(frozen=True)
class RecipeRun:
    """A recipe that was run.

    Attributes:
        made: the run.
        judged: its diagnosis and scores; None where SIGTERM ended it.
        record: which recipe it is, and each published figure with the run's.
    """

    made: Made
    judged: Judged | None
    record: dict[str, Any]


def run_recipe(
    recipe: Recipe | str,
    scale: str = "tiny",
    overrides: Mapping[str, Any] | None = None,
    *,
    out: str | None = None,
    say: Callable[[str], None] | None = None,
    progress: bool = False,
    diagnose: bool = True,
    made: Callable[[Made], None] | None = None,
) -> RecipeRun:
    """Run a recipe, judge it, and compare its scores with the published figures.

    Args:
        recipe: its name, the path of a .toml file, or one that was loaded.
        scale: "tiny", "cpu", "overnight" or "full".
        overrides: settings that replace those of the recipe, or are added to them.
        out: folder, new or empty; None chooses one in `runs/`.
        say: told what happens, a line at a time.
        progress: whether a progress bar is shown.
        diagnose: whether convergence is judged.
        made: told of the run when it is saved, before it is judged.

    Raises:
        ValueError: a setting that there is not, or a value that it cannot take.
        FileExistsError: the folder holds something.

    Example:
        >>> from bayesnn_ppl.experiments import run_recipe
        >>> found = run_recipe("uci-nuts", out="runs/mine")  # doctest: +SKIP
        >>> found.record["published"][0]["here"]  # doctest: +SKIP
    """
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    where = f"The recipe `{recipe.name}` at the scale {scale}"
    prepare(job_from(recipe.command, recipe.at(scale, overrides), where))
    folder = str(default_folder(Path(recipe.name).stem, scale)) if out is None else out
    place = storage.working_copy(folder)
    require_new(place)  # before hours of a run that this one begins at
    settings = with_beginning(recipe, scale, overrides or {}, place, say=say, progress=progress)
    job = job_from(recipe.command, settings, where)
    run = make_run(
        job, folder, command=line_of(recipe.command, settings), say=say, progress=progress
    )
    if made is not None and run.posterior is not None:
        made(run)
    judged = None if run.stopped else judge_run(run, diagnose=diagnose)
    record = recorded(recipe, scale, overrides or {}, run.folder)
    storage.send(run.folder)
    return RecipeRun(run, judged, record)


def recorded(
    recipe: Recipe, scale: str, overrides: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """Write `recipe.json` into the folder of a run: which recipe it is, and the figures."""
    record = {
        "recipe": recipe.name,
        "scale": scale,
        "overrides": dict(overrides),
        "note": recipe.scales[scale].note,
        "data": open_run(folder).data_label,
        "published": compared(recipe, folder),
    }
    write_json(folder / _RECORD, record)
    return record


def compared(recipe: Recipe, folder: Path) -> list[dict[str, Any]]:
    """Each published figure, and that of the run in the folder, null where it has none."""
    path = folder / "metrics.json"
    measured = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    scale = open_run(folder).standardisation["y_scale"]
    return [
        {
            "metric": figure.metric,
            "published": figure.value,
            "error": figure.error,
            "source": figure.source,
            "here": _in_units(figure, measured.get(figure.metric), scale),
        }
        for figure in recipe.published
    ]


def _in_units(figure: Published, measured: float | None, y_scale: float) -> float | None:
    """A score in the units of the published figure: log densities shift, errors scale."""
    if measured is None or not figure.standardised:
        return measured
    if figure.metric.startswith("nll"):
        return measured - math.log(y_scale)
    return measured / y_scale
