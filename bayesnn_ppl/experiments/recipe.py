"""Recipes: a run with its published settings and figures, at up to four scales."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bayesnn_ppl.experiments.toml_files import Entry, check_keys, expect, names, read

__all__ = [
    "OPTIONAL",
    "SCALES",
    "Published",
    "Recipe",
    "Scale",
    "check_scale",
    "load_recipe",
    "recipe_names",
]

# Seconds on bundled data; at most half an hour on two cores; at most six hours there; as published.
SCALES = ("tiny", "cpu", "overnight", "full")
OPTIONAL = "overnight"
_COMMANDS = ("sample", "fit")
_KEYS = ("title", "source", "command", "extends", "settings", "published", *SCALES)
_SETTINGS = (str, bool, int, float, list)


@dataclass(frozen=True)
class Published:
    """A figure that was published for the full scale.

    Attributes:
        metric: its name in `metrics.json`.
        value: in the units of that metric, shares and not per cent.
        error: its published error, or None.
        source: where.
        standardised: whether it is for targets of standard deviation 1; `metrics.json` has the
            data's units.
    """

    metric: str
    value: float
    error: float | None
    source: str
    standardised: bool = False


@dataclass(frozen=True)
class Scale:
    """What a scale changes.

    Attributes:
        note: what differs from what was published, and which data it uses.
        settings: replace those of the recipe, or are added to them.
        begins_at: the recipe whose run, at this scale and of the same seed, chains or an
            approximation begin at, as by `init=` or `mode=`; None for a run of its own.
    """

    note: str
    settings: Mapping[str, Any]
    begins_at: str | None = None


@dataclass(frozen=True)
class Recipe:
    """A run of `bayesnn sample` or `bayesnn fit` with all its settings.

    Attributes:
        name: of its file.
        title, source: what it is, and who published it.
        command: "sample" or "fit".
        settings: of all scales: options of the command by their long names, `_` for `-`, and, for
            "fit", settings of the approximation.
        scales: name -> `Scale`; not every recipe has "overnight".
        published: the figures to compare with.
    """

    name: str
    title: str
    source: str
    command: str
    settings: Mapping[str, Any]
    scales: Mapping[str, Scale]
    published: tuple[Published, ...]

    def at(self, scale: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All settings at a scale; one that is "" is left out, as an extending recipe may want.

        Args:
            scale: one of `SCALES`.
            overrides: settings that come last.

        Raises:
            ValueError: there is no such scale.
        """
        check_scale(scale, self.scales, f"the recipe `{self.name}`")
        settings = {**self.settings, **self.scales[scale].settings, **(overrides or {})}
        return {key: value for key, value in settings.items() if value != ""}


def check_scale(scale: str, has: Collection[str], what: str) -> str:
    """`scale`, or ValueError if it is not one of `SCALES`, or none that `what` has."""
    if scale not in SCALES:
        raise ValueError(f"The scale `{scale}` is unknown: there are {', '.join(SCALES)}.")
    if scale not in has:
        raise ValueError(f"There is no scale `{scale}` of {what}: it has {', '.join(has)}.")
    return scale


def recipe_names() -> list[str]:
    """The recipes that come with the library."""
    return names("recipes")


def load_recipe(name: str) -> Recipe:
    """A recipe by its name, or one's own by the path of its .toml file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there is no such recipe, or its file is not what it must be.

    Example:
        >>> from bayesnn_ppl.experiments import load_recipe
        >>> load_recipe("hmc-imdb").at("full")["trajectory_length"]
        0.24
    """
    values = _merged(name, ())
    entry = Entry(values, f"the recipe `{name}`")
    command = entry.need("command", str)
    if command not in _COMMANDS:
        raise ValueError(
            f"`command` in {entry.where} must be {' or '.join(_COMMANDS)}, not `{command}`."
        )
    settings = _settings(entry.get("settings", dict, {}), f"[settings] of {entry.where}")
    scales = {
        scale: _scale(Entry(entry.need(scale, dict), f"[{scale}] of {entry.where}"), entry)
        for scale in SCALES
        if scale != OPTIONAL or scale in entry.values
    }
    published = tuple(
        _published(Entry(expect(one, dict, f"An entry of `published` in {entry.where}"), where))
        for number, one in enumerate(entry.get("published", list, []), start=1)
        for where in (f"[[published]] number {number} of {entry.where}",)
    )
    return Recipe(
        name=name,
        title=entry.need("title", str),
        source=entry.need("source", str),
        command=command,
        settings=settings,
        scales=scales,
        published=published,
    )


def _merged(name: str, below: tuple[str, ...]) -> dict[str, Any]:
    """The tables of a file over those of the recipe that it extends."""
    entry = read("recipes", name)
    check_keys(entry, _KEYS)
    parent = entry.get("extends", str)
    own = {key: value for key, value in entry.values.items() if key != "extends"}
    if parent is None:
        return own
    if parent in (*below, name):
        raise ValueError(f"{entry.where} extends `{parent}`, which extends it in turn.")
    merged = _merged(parent, (*below, name))
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merged[key] | value if both else value
    return merged


def _scale(table: Entry, entry: Entry) -> Scale:
    """A scale, over the settings of the one that it is `like`."""
    like, begins_at = table.get("like", str), table.get("begins_at", str)
    if like is not None and like not in set(SCALES) - {OPTIONAL}:
        raise ValueError(f"`like` in {table.where} is `{like}`, which is no other scale.")
    under = {} if like is None else entry.need(like, dict)
    own = {**under, **table.values}
    words = ("note", "like", "begins_at")
    return Scale(
        note=table.need("note", str),
        settings=_settings({k: v for k, v in own.items() if k not in words}, table.where),
        begins_at=begins_at or None,
    )


def _settings(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    for key, value in values.items():
        if not isinstance(value, _SETTINGS):
            raise ValueError(
                f"`{key}` in {where} must be a text, a number, true, false or a list, not "
                f"{value!r}."
            )
    return dict(values)


def _published(entry: Entry) -> Published:
    check_keys(entry, ("metric", "value", "error", "source", "standardised"))
    return Published(
        metric=entry.need("metric", str),
        value=entry.need("value", float),
        error=entry.get("error", float),
        source=entry.need("source", str),
        standardised=entry.get("standardised", bool, False),
    )
