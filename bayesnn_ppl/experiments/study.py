"""Studies: tables of runs, each a cell that a recipe with a few other settings makes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesnn_ppl.experiments.protocols.kinds import Protocol, as_table, protocol_of
from bayesnn_ppl.experiments.recipe import OPTIONAL, SCALES, Recipe, check_scale, load_recipe
from bayesnn_ppl.experiments.toml_files import Entry, check_keys, expect, names, read

__all__ = ["Arm", "Cell", "Study", "load_study", "study_names"]

_KEYS = (
    "title",
    "question",
    "x",
    "logarithmic",
    "metrics",
    "settings",
    "protocol",
    "arms",
    *SCALES,
)
_POSITIONS = ("value", "length", "first")


@dataclass(frozen=True)
class Arm:
    """A curve of a study: one recipe, and what moves along it.

    Attributes:
        name: in tables and figures.
        recipe: whose runs these are.
        sweep: the setting that moves, perhaps with others; None for a single point.
        position: the place of a point on the x axis: at the "value" of that setting, at the
            "length" of a list, or at its "first" entry.
        settings: of all its cells.
        protocol: settings of the study's protocol, for this arm.
        scales: scale -> settings there, over `settings`.
    """

    name: str
    recipe: str
    sweep: str | None
    position: str
    settings: Mapping[str, Any]
    protocol: Mapping[str, Any]
    scales: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        arm, recipe, scale, seed: which.
        x: its place on the x axis; None for an arm of a single point.
        overrides: settings over those of the recipe at the scale, the seed among them.
        key: a hash of all settings: a cell that is changed is another cell.
        protocol: what is done with the method; None to score it on held-out rows.
    """

    arm: str
    recipe: str
    scale: str
    seed: int
    x: float | None
    overrides: Mapping[str, Any]
    key: str
    protocol: Protocol | None = None


@dataclass(frozen=True)
class Study:
    """A question, and the runs that answer it.

    Attributes:
        name: of its file.
        title, question: what it is for.
        x: label of the x axis.
        logarithmic: whether that axis is.
        metrics: those that are drawn, by their names in `metrics.json`; the first matters most.
        arms: its curves.
        scales: name -> "note", "seeds", "values" (setting -> those it moves through), "settings",
            "protocol".
        settings: of all cells.
        protocol: its name and settings, see `protocols`; empty to score on held-out rows. Those of
            a scale come over these, and those of an arm last.
    """

    name: str
    title: str
    question: str
    x: str
    logarithmic: bool
    metrics: tuple[str, ...]
    arms: tuple[Arm, ...]
    scales: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    protocol: Mapping[str, Any]

    def cells(self, scale: str) -> list[Cell]:
        """All cells at a scale, in the order of arms, values and seeds.

        Raises:
            ValueError: there is no such scale, an arm has no values there, or two cells are one.
        """
        at = self.scales[check_scale(scale, self.scales, f"the study `{self.name}`")]
        found: list[Cell] = []
        for arm in self.arms:
            recipe = load_recipe(arm.recipe)
            common = {**self.settings, **at["settings"], **arm.settings, **arm.scales[scale]}
            protocol = protocol_of(
                {**self.protocol, **at["protocol"], **arm.protocol},
                f"the protocol of the arm `{arm.name}` of the study `{self.name}` at {scale}",
            )
            if arm.sweep is not None and arm.sweep not in at["values"]:
                raise ValueError(
                    f"The arm `{arm.name}` of the study `{self.name}` moves `{arm.sweep}`, and "
                    f"[{scale}.values] has none of it."
                )
            for value in [None] if arm.sweep is None else at["values"][arm.sweep]:
                moved = _moved(arm, value)
                for seed in at["seeds"]:
                    own = {**common, **moved, "seed": seed}
                    found.append(
                        Cell(
                            arm=arm.name,
                            recipe=arm.recipe,
                            scale=scale,
                            seed=seed,
                            x=None if arm.sweep is None else _position(arm, moved[arm.sweep]),
                            overrides=own,
                            key=_key(arm.name, recipe, scale, own, protocol),
                            protocol=protocol,
                        )
                    )
        if len({cell.key for cell in found}) < len(found):
            raise ValueError(
                f"Two cells of the study `{self.name}` have the same settings: a value or a seed "
                "is there twice."
            )
        return found


def study_names() -> list[str]:
    """The studies that come with the library."""
    return names("studies")


def load_study(name: str) -> Study:
    """A study by its name, or one's own by the path of its .toml file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there is no such study, or its file is not what it must be.
    """
    entry = read("studies", name)
    check_keys(entry, _KEYS)
    arms = tuple(
        _arm(Entry(expect(one, dict, f"An entry of `arms` in {entry.where}"), where))
        for number, one in enumerate(entry.need("arms", list), start=1)
        for where in (f"[[arms]] number {number} of {entry.where}",)
    )
    if len({arm.name for arm in arms}) < len(arms) or not arms:
        raise ValueError(f"`arms` in {entry.where} needs one arm or more, each of its own name.")
    metrics = tuple(entry.need("metrics", list))
    return Study(
        name=name,
        title=entry.need("title", str),
        question=entry.need("question", str),
        x=entry.get("x", str, ""),
        logarithmic=entry.get("logarithmic", bool, False),
        metrics=tuple(expect(m, str, f"Each of `metrics` in {entry.where}") for m in metrics),
        arms=arms,
        scales={
            scale: _scale(Entry(entry.need(scale, dict), f"[{scale}] of {entry.where}"), arms)
            for scale in SCALES
            if scale != OPTIONAL or scale in entry.values
        },
        settings=entry.get("settings", dict, {}),
        protocol=entry.get("protocol", dict, {}),
    )


def _arm(entry: Entry) -> Arm:
    check_keys(entry, ("name", "recipe", "sweep", "position", "settings", "protocol", *SCALES))
    position = entry.get("position", str, "value")
    if position not in _POSITIONS:
        raise ValueError(
            f"`position` in {entry.where} must be one of {', '.join(_POSITIONS)}, not `{position}`."
        )
    return Arm(
        name=entry.need("name", str),
        recipe=entry.need("recipe", str),
        sweep=entry.get("sweep", str),
        position=position,
        settings=entry.get("settings", dict, {}),
        protocol=entry.get("protocol", dict, {}),
        scales={scale: entry.get(scale, dict, {}) for scale in SCALES},
    )


def _scale(entry: Entry, arms: tuple[Arm, ...]) -> dict[str, Any]:
    check_keys(entry, ("note", "seeds", "values", "settings", "protocol"))
    values = Entry(entry.get("values", dict, {}), f"the values of {entry.where}")
    check_keys(values, [arm.sweep for arm in arms if arm.sweep is not None])
    seeds = [expect(s, int, f"Each seed in {entry.where}") for s in entry.need("seeds", list)]
    if not seeds:
        raise ValueError(f"`seeds` in {entry.where} is empty, so there is nothing to run.")
    return {
        "note": entry.need("note", str),
        "seeds": seeds,
        "values": {key: values.need(key, list) for key in values.values},
        "settings": entry.get("settings", dict, {}),
        "protocol": entry.get("protocol", dict, {}),
    }


def _moved(arm: Arm, value: Any) -> dict[str, Any]:
    """The settings at one place of an arm; a table moves other settings along."""
    if arm.sweep is None:
        return {}
    if not isinstance(value, dict):
        return {arm.sweep: value}
    if arm.sweep not in value:
        raise ValueError(
            f"The arm `{arm.name}` moves `{arm.sweep}`, and the place {value!r} does not have it."
        )
    return value


def _position(arm: Arm, value: Any) -> float:
    if arm.position == "value" and isinstance(value, int | float):
        return float(value)
    if arm.position != "value" and isinstance(value, list) and value:
        return float(len(value) if arm.position == "length" else value[0])
    wanted = "a number" if arm.position == "value" else "a list of numbers"
    raise ValueError(
        f"The arm `{arm.name}` is placed on the x axis at the {arm.position} of `{arm.sweep}`, "
        f"which must be {wanted}, not {value!r}."
    )


def _key(arm: str, recipe: Recipe, scale: str, own: Any, protocol: Protocol | None) -> str:
    settings, begins_at = recipe.at(scale, own), recipe.scales[scale].begins_at
    more: list[Any] = [] if protocol is None else [as_table(protocol)]
    more += [] if begins_at is None else [begins_at]
    text = json.dumps([recipe.command, arm, settings, *more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
