"""`bayesnn run`: a recipe, as a run like any other, with the published figures beside its own."""

import argparse
import contextlib
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesnn_ppl import storage
from bayesnn_ppl.cli.output import note, paragraph, print_json, table
from bayesnn_ppl.cli.readme_flags import settings_of_flags
from bayesnn_ppl.cli.recipe_words import arguments_of, line_of, words_as_settings
from bayesnn_ppl.cli.runs import default_folder, open_run
from bayesnn_ppl.experiments import Published, Recipe, load_recipe, recipe_names
from bayesnn_ppl.storage.files import write_json

__all__ = ["compared", "recorded", "run_recipe"]

_RECORD = "recipe.json"


def run_recipe(arguments: argparse.Namespace) -> int:
    """Run a recipe, and set the published figures beside what came of it."""
    if arguments.list or arguments.recipe is None:
        return _list(arguments)
    recipe = load_recipe(arguments.recipe)
    scale, where = arguments.scale, f"The recipe `{recipe.name}` at the scale {arguments.scale}"
    overrides = words_as_settings(arguments.set or [])
    from_flags, folder, answers = settings_of_flags(arguments, recipe, recipe.at(scale, overrides))
    for key in from_flags:
        if key in overrides:
            raise ValueError(
                f"`{key}` is set twice, by --set and by a flag of bnn_hmc. Leave one of them out."
            )
    settings = recipe.at(scale, overrides | from_flags)
    out = arguments.out or folder
    folder = str(default_folder(Path(recipe.name).stem, scale)) if out is None else out
    more = [f"--out={folder}"]
    more += [flag for flag in ("--quiet", "--no-diagnose", "--json") if _given(arguments, flag)]
    command = arguments_of(recipe.command, settings, where, more)
    command.command = line_of(recipe.command, settings, where)
    if not (arguments.quiet or arguments.json):
        note(f"{recipe.title} ({recipe.source})")
        note(f"Scale {scale}: {recipe.scales[scale].note}")
        note(f"In a shell: {line_of(recipe.command, settings, where)}")
    for answer in answers:
        note(answer)
    with contextlib.redirect_stdout(io.StringIO()) if arguments.json else _as_it_is() as said:
        status = command.run(command)
    place = storage.working_copy(folder)
    if not place.is_dir():
        return status
    record = recorded(recipe, scale, overrides | from_flags, place)
    storage.send(place)
    if arguments.json:
        text = said.getvalue() if said is not None else ""
        print_json(record | {"result": json.loads(text) if text.strip() else None})
    elif not status:
        print(f"\n{_comparison(recipe, record)}")
    return status


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


def _comparison(recipe: Recipe, record: dict[str, Any]) -> str:
    differs = f"What differs from what was published: {record['note']}"
    if not recipe.published:
        return paragraph(f"No published figure of this setting is at hand. {differs}")
    rows = []
    for one in record["published"]:
        error = "" if one["error"] is None else f" ± {one['error']:g}"
        here = "not measured" if one["here"] is None else f"{one['here']:.4f}"
        rows.append((one["metric"], f"{one['published']:g}{error}", here, one["source"]))
    head = ("METRIC", "PUBLISHED", f"HERE, {record['data']}", "SOURCE")
    return f"{table(head, rows)}\n{paragraph(differs)}"


def _given(arguments: argparse.Namespace, flag: str) -> bool:
    return bool(getattr(arguments, flag.removeprefix("--").replace("-", "_")))


@contextlib.contextmanager
def _as_it_is() -> Any:
    yield None


def _list(arguments: argparse.Namespace) -> int:
    recipes = [load_recipe(name) for name in recipe_names()]
    if arguments.json:
        print_json([{"name": r.name, "title": r.title, "source": r.source} for r in recipes])
    else:
        print(table(("RECIPE", "WHAT IT IS"), [(r.name, r.title) for r in recipes]))
    return 0
