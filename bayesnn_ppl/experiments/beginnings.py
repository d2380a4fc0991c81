"""Runs that other runs begin at: found next to them, or made there first."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bayesnn_ppl.experiments.execution import Made, make_run, resume_run
from bayesnn_ppl.experiments.recipe import Recipe, load_recipe
from bayesnn_ppl.settings.datasets import DataSettings
from bayesnn_ppl.settings.jobs import Fit, Sample, job_from, line_of
from bayesnn_ppl.settings.sampling import EndingSettings

__all__ = ["begin_or_continue", "with_beginning"]

# What the other run shares: the rows, and what the network is.
_SHARED = ("model", "hidden", "activation", "seed", *(field.name for field in fields(DataSettings)))


def with_beginning(
    recipe: Recipe,
    scale: str,
    overrides: Mapping[str, Any],
    folder: Path,
    *,
    say: Callable[[str], None] | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """The settings of a recipe, with the run that it begins at.

    That is one of the recipe `begins_at`, of the same rows, network and seed. A run with these
    settings next to `folder` is taken; else it is made there, or continued if it was ended early.

    Args:
        recipe, scale, overrides: which settings; where an override says where to begin, by `init`,
            `mode` or a setting of the network of `mode`, that decides.
        folder: of the run that begins.
        say: told what happens, a line at a time.
        progress: whether a progress bar is shown.

    Raises:
        InterruptedError, KeyboardInterrupt: the run to begin at was ended from outside.
    """
    settings = recipe.at(scale, overrides)
    begins_at, word = recipe.scales[scale].begins_at, _word(recipe)
    if begins_at is None or any(key == word or key.startswith("mode_") for key in overrides):
        return settings
    other = load_recipe(begins_at)
    # "" leaves out what the other recipe has and this one has not.
    shared = {key: settings.get(key, "") for key in _SHARED}
    wanted = other.at(scale, shared)
    found = _made(other, scale, wanted, folder, say, progress)
    own = {key: value for key, value in settings.items() if not key.startswith("mode_")}
    return own | {word: str(found)}


def begin_or_continue(job: Sample | Fit, folder: Path, **more: Any) -> Made:
    """The run of a job in a folder, continued if an ended process left something to continue.

    Args:
        job: its settings.
        folder: of the run, new or begun with these settings.
        **more: `command`, `say` and `progress` of `make_run`.
    """
    if (folder / "run.json").is_file() and (folder / "commit.json").is_file():
        ending = EndingSettings(max_time=job.ending.max_time) if isinstance(job, Sample) else None
        return resume_run(folder, ending=ending, progress=more.get("progress", False))
    if folder.exists():  # it was ended before there was anything to continue from
        shutil.rmtree(folder)
    return make_run(job, str(folder), **more)


def _word(recipe: Recipe) -> str:
    return "init" if recipe.command == "sample" else "mode"


def _made(
    recipe: Recipe,
    scale: str,
    settings: dict[str, Any],
    folder: Path,
    say: Callable[[str], None] | None,
    progress: bool,
) -> Path:
    """The folder of a complete run with these settings."""
    line, beside = line_of(recipe.command, settings), folder.parent
    # A cell of a study has its run in a folder of its own.
    if folder.name == "run":
        beside = beside.parent
    for path in sorted([*beside.glob("*/run.json"), *beside.glob("*/run/run.json")]):
        if _read(path).get("command") == line and _complete(path.parent):
            return path.parent
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    place = beside / f"{Path(recipe.name).stem}-{scale}-{key}"
    if say is not None:
        say(f"This begins at a run of `{recipe.name}`, which is made first in {place}.")
    job = job_from(recipe.command, settings, f"The recipe `{recipe.name}` at the scale {scale}")
    made = begin_or_continue(job, place, command=line, say=say, progress=progress)
    if made.stopped or not _complete(place):
        raise KeyboardInterrupt
    return place


def _complete(folder: Path) -> bool:
    commit = folder / "commit.json"
    return commit.is_file() and bool(_read(commit)["complete"])


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
