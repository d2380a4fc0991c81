"""How a setting is declared, and how a text or a plain value becomes one.

A group of settings is a frozen dataclass whose fields are made by `setting` or `switch`. The
command line's options, the keys of a recipe and what a run remembers all follow from the fields.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayesnn_ppl.core.arguments import near_misses

__all__ = [
    "Setting",
    "declared",
    "flag",
    "from_plain",
    "given",
    "key_values",
    "setting",
    "switch",
    "unknown_setting",
    "words",
]


@dataclass(frozen=True)
class Setting:
    """What a field of a group of settings is.

    Attributes:
        text: what it is for.
        read: from what was typed to the value; None for a switch.
        metavar: stands for the value in the help.
        unit: the unit, or the kind of value.
        shown: the default in words.
        choices: the words it can be, where there are few.
        many: whether it may be given several times; its value is then a tuple.
    """

    text: str
    read: Callable[[str], Any] | None
    metavar: str
    unit: str
    shown: str
    choices: tuple[str, ...] = ()
    many: bool = False

    @property
    def help(self) -> str:
        """The text with unit and default."""
        unit = f"{self.unit}; " if self.unit else ""
        return f"{self.text} [{unit}default: {self.shown}]"


def setting(
    text: str,
    *,
    unit: str,
    default: Any = None,
    read: Callable[[str], Any] = str,
    metavar: str = "",
    shown: str | None = None,
    many: bool = False,
) -> Any:
    """A field with a value.

    Args:
        text: what it is for.
        unit: the unit, or the kind of value.
        default: its value where it is not given.
        read: raises ValueError for a text that it cannot be.
        metavar: stands for the value in the help; by default the words of a `choice`.
        shown: the default in words, where the value does not say it.
        many: as of `Setting`.
    """
    choices = getattr(read, "choices", ())
    metavar = metavar or "{" + ",".join(choices) + "}"
    words = str(default) if shown is None else shown
    what = Setting(text, read, metavar, unit, words, choices, many)
    return dataclasses.field(default=default, metadata={"setting": what})


def switch(text: str, *, default: bool | None = False, shown: str = "off") -> Any:
    """A field that is on or off."""
    what = Setting(text, None, "", "switch", shown)
    return dataclasses.field(default=default, metadata={"setting": what})


def declared(group: Any) -> dict[str, Setting]:
    """Name -> setting of a group, or of its class."""
    fields = dataclasses.fields(group)
    return {f.name: f.metadata["setting"] for f in fields if "setting" in f.metadata}


def given(group: Any) -> dict[str, Any]:
    """The settings of a group that differ from their defaults."""
    return {
        field.name: value
        for field in dataclasses.fields(group)
        if "setting" in field.metadata and (value := getattr(group, field.name)) != field.default
    }


def flag(name: str) -> str:
    """A setting as it is typed."""
    return f"--{name.replace('_', '-')}"


def from_plain[T](group: type[T], values: Mapping[str, Any], where: str) -> T:
    """A group from plain values, each checked as if it were typed.

    Args:
        group: its class.
        values: name -> text, number, boolean or list; other names are left alone.
        where: how messages call the place of the values.

    Raises:
        ValueError: a value that a setting cannot take.
    """
    made = {}
    for name, what in declared(group).items():
        if name not in values:
            continue
        value = values[name]
        if what.read is None:
            if not isinstance(value, bool):
                raise ValueError(f"{where}: `{name}` is true or false, not {value!r}.")
            made[name] = value
            continue
        try:
            made[name] = what.read(_typed(value))
        except ValueError as error:
            raise ValueError(f"{where}: {flag(name)}: {error}") from None
    return group(**made)


def words(values: Mapping[str, Any]) -> list[str]:
    """Plain values as they are typed."""
    return [
        (flag(name) if value else f"--no-{flag(name)[2:]}")
        if isinstance(value, bool)
        else f"{flag(name)}={_typed(value)}"
        for name, value in values.items()
    ]


def unknown_setting(name: str, known: Iterable[str], where: str) -> ValueError:
    """The error for a name that nothing has."""
    return ValueError(f"{where} has no setting `{name}`. {near_misses(name, list(known))}")


def key_values(texts: Iterable[str], option: str, example: str) -> dict[str, str]:
    """`NAME=VALUE` texts as a dictionary; `-` in a name is `_`.

    Raises:
        ValueError: a text without `=`, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise ValueError(
                f"{option} takes NAME=VALUE, such as `{option} {example}`, not `{text}`."
            )
        if name in found:
            raise ValueError(f"{option} {name} is given twice. Leave one of the two out.")
        found[name] = value
    return found


def _typed(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    return str(value)
