"""Recipes and studies as TOML: which there are, and reading one with errors that name the place."""

import tomllib
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from bayesnn_ppl.core.arguments import near_misses

__all__ = ["Entry", "check_keys", "expect", "names", "read"]

_WORDS = {
    str: "a text in quotes",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "a list in brackets",
    dict: "a table",
}


class Entry:
    """A table of a file, and how a sentence calls its place."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The value of a key, of that kind; `default` where it is not there."""
        if key not in self.values:
            return default
        return expect(self.values[key], kind, f"`{key}` in {self.where}")

    def need(self, key: str, kind: type) -> Any:
        """The value of a key that must be there."""
        if key not in self.values:
            raise ValueError(f"{self.where} lacks `{key}`, {_WORDS[kind]}.")
        return self.get(key, kind)


def names(kind: str) -> list[str]:
    """The names of the files that come with the library, of "recipes" or "studies"."""
    found = files(f"bayesnn_ppl.experiments.{kind}").iterdir()
    return sorted(Path(f.name).stem for f in found if f.name.endswith(".toml"))


def read(kind: str, name: str) -> Entry:
    """One of the files that come with the library, or one's own by its path, `my.toml`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no such name, or the file is not TOML; the sentence has the place.
    """
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise FileNotFoundError(
                f"There is no file `{name}`. Give the path of a .toml file, or a name of "
                f"{kind}: {', '.join(names(kind))}."
            )
        text, where = path.read_text(encoding="utf-8"), f"the file `{name}`"
    else:
        if name not in (known := names(kind)):
            one = {"recipes": "recipe", "studies": "study"}[kind]
            raise ValueError(f"There is no {one} `{name}`. {near_misses(name, known)}")
        text = files(f"bayesnn_ppl.experiments.{kind}").joinpath(f"{name}.toml").read_text("utf-8")
        where = f"the file `{kind}/{name}.toml`"
    try:
        return Entry(tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(
            f"{where[0].upper()}{where[1:]} cannot be read as TOML: {error}. Texts are in "
            "quotes, tables begin with [name], lists are in brackets."
        ) from error


def check_keys(entry: Entry, known: Collection[str]) -> None:
    """Refuse a key that means nothing there.

    Raises:
        ValueError: there is one; the sentence has the nearest that would.
    """
    for key in entry.values:
        if key not in known:
            raise ValueError(
                f"`{key}` in {entry.where} means nothing there. {near_misses(key, known)}"
            )


def expect(value: Any, kind: type, what: str) -> Any:
    """`value`, where it is of the kind; an int will do for a float.

    Raises:
        ValueError: it is not.
    """
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{what} must be {_WORDS[kind]}, not {value!r}.")
    return value
