"""`bayesnn run`: a recipe, as a run like any other, compared with the published figures."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesnn_ppl.cli.shared.options import Argument, Command, Output
from bayesnn_ppl.cli.shared.output import note, paragraph, print_json, table
from bayesnn_ppl.cli.shared.run_results import (
    ShowSettings,
    as_json,
    show_judged,
    show_made,
    show_run,
)
from bayesnn_ppl.experiments import SCALES, Recipe, load_recipe, recipe_names, run_recipe
from bayesnn_ppl.experiments.bnn_hmc_flags import FLAGS
from bayesnn_ppl.experiments.flag_translation import settings_of_flags
from bayesnn_ppl.settings.declaring import declared, key_values, setting, switch
from bayesnn_ppl.settings.jobs import job_from, line_of
from bayesnn_ppl.settings.value_kinds import choice

__all__ = ["COMMAND", "SCALE"]

SCALE = setting(
    "tiny: seconds, on bundled data; cpu: two cores, half an hour a run at most; overnight: two "
    "cores, six hours a run at most; full: as published, for an accelerator",
    default="tiny",
    read=choice(*SCALES),
    unit="word",
)


@dataclass(frozen=True)
class RecipeSettings(ShowSettings):
    """What is run."""

    scale: str = SCALE
    set: tuple[str, ...] = setting(
        "a setting of the recipe: an option of `bayesnn sample` or `bayesnn fit` by its long name; "
        "may be given several times",
        default=(),
        many=True,
        metavar="KEY=VALUE",
        unit="number, word or list, as JSON",
        shown="those of the recipe",
    )
    out: str | None = setting(
        "folder of the run, new or empty",
        metavar="FOLDER",
        unit="path",
        shown="runs/RECIPE-SCALE, with -2, -3, ... if it is taken",
    )
    list: bool = switch("list the recipes")


# The flags are typed as that README has them, with underscores.
BnnHmcFlags = dataclasses.make_dataclass(
    "BnnHmcFlags",
    [
        (name, Any, switch(flag.text) if flag.switch else setting(
            flag.text, metavar="VALUE", unit="as there", shown="the recipe's"
        ))
        for name, flag in FLAGS.items()
    ],
    frozen=True,
    namespace={"AS_WRITTEN": True},
)  # fmt: skip


def run_recipe_command(
    recipe: str | None = None,
    *,
    settings: RecipeSettings,
    flags: Any,
    output: Output,
) -> int:
    """Run a recipe, and print the published figures next to its own."""
    if settings.list or recipe is None:
        return _list(json=output.json)
    of, scale = load_recipe(recipe), settings.scale
    overrides = overrides_of(settings.set)
    given = {name: value for name in declared(flags) if (value := getattr(flags, name))}
    from_flags, folder, answers = settings_of_flags(given, of, of.at(scale, overrides))
    for key in from_flags:
        if key in overrides:
            raise ValueError(
                f"`{key}` is set twice, by --set and by a flag of bnn_hmc. Leave one of them out."
            )
    overrides |= from_flags
    # Every setting is checked before a word is said.
    where = f"The recipe `{of.name}` at the scale {scale}"
    job_from(of.command, of.at(scale, overrides), where)
    talk = not (settings.quiet or output.json)
    if talk:
        note(f"{of.title} ({of.source})")
        note(f"Scale {scale}: {of.scales[scale].note}")
        note(f"In a shell: {line_of(of.command, of.at(scale, overrides))}")
    for answer in answers:
        note(answer)
    found = run_recipe(
        of,
        scale,
        overrides,
        out=settings.out or folder,
        say=note if talk else None,
        progress=not settings.quiet,
        diagnose=not settings.no_diagnose,
        made=None if output.json else lambda run: show_made(run, f"Saved in {run.folder}"),
    )
    made, judged = found.made, found.judged
    if judged is None:
        return show_run(made, settings, json=output.json, headline="")
    if output.json:
        result = as_json(made, judged.diagnosis, judged.scores)
        print_json(found.record | {"result": result})
        return 0
    show_judged(judged)
    print(f"\n{_comparison(of, found.record)}")
    return 0


def overrides_of(words: tuple[str, ...]) -> dict[str, Any]:
    """`KEY=VALUE` words as settings; a value is read as JSON, or else as a word.

    Raises:
        ValueError: a word without `=`, or a key given twice.
    """
    return {name: _plain(value) for name, value in key_values(words, "--set", "draws=100").items()}


def _plain(value: str) -> Any:
    try:
        read = json.loads(value)
    except json.JSONDecodeError:
        return value
    return "none" if read is None else value if isinstance(read, Mapping) else read


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


def _list(*, json: bool) -> int:
    recipes = [load_recipe(name) for name in recipe_names()]
    if json:
        print_json([{"name": r.name, "title": r.title, "source": r.source} for r in recipes])
    else:
        print(table(("RECIPE", "WHAT IT IS"), [(r.name, r.title) for r in recipes]))
    return 0


COMMAND = Command(
    "run",
    "run a published recipe, or list them",
    run_recipe_command,
    (
        Argument(
            "recipe",
            "a name of `bayesnn run --list`, or a .toml file [default: list them]",
            "RECIPE",
            default=None,
        ),
    ),
    {
        "What is run": ("settings", RecipeSettings),
        "Flags of bnn_hmc's scripts, as in its README": ("flags", BnnHmcFlags),
    },
)
