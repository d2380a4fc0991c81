"""Settings from a class's constructor: its arguments, their annotations and its docstring.

An argument becomes a setting where its annotation is a number, a word, a switch or a few numbers;
its text is that of the docstring.
"""

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.value_kinds import choice, number, numbers, one_or_more, whole

__all__ = ["argument_settings", "arguments_of", "as_arguments", "takes_schedule", "word_of"]


_WORDS = {"ChEES": "chees"}  # where the rule of `word_of` does not find it


def word_of(kind: type) -> str:
    """A class's name as it is typed."""
    name = kind.__name__
    return _WORDS.get(name, re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower())


def arguments_of(kind: type) -> dict[str, tuple[inspect.Parameter, Any]]:
    """Name -> argument and its annotation, those of `**settings` of its bases among them."""
    found: dict[str, tuple[inspect.Parameter, Any]] = {}
    for this in kind.__mro__[:-1]:
        if "__init__" not in vars(this):
            continue
        own = inspect.signature(vars(this)["__init__"]).parameters
        hints = typing.get_type_hints(vars(this)["__init__"])
        for name, parameter in own.items():
            if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                found.setdefault(name, (parameter, hints.get(name, Any)))
        if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in own.values()):
            break
    return found


def takes_schedule(kind: type, name: str) -> bool:
    """Whether an argument of a class may be a schedule."""
    from bayesnn_ppl.inference.schedules.base import Schedule

    return Schedule in typing.get_args(arguments_of(kind)[name][1])


def _texts(kind: type) -> dict[str, str]:
    """Argument -> what the docstrings of a class and its bases say of it."""
    from docstring_parser import parse

    found: dict[str, str] = {}
    for this in kind.__mro__[:-1]:
        for entry in parse(inspect.getdoc(this) or "").params if this.__doc__ else ():
            text = " ".join((entry.description or "").split()).rstrip(".")
            text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "`")
            for name in entry.arg_name.split(","):
                found.setdefault(name.strip().strip("*"), text)
    return found


def argument_settings(
    kind: type,
    leave_out: Iterable[str],
    *,
    only: Iterable[str] | None = None,
    renamed: Mapping[str, str] = types.MappingProxyType({}),
    defaults: Mapping[str, Any] = types.MappingProxyType({}),
) -> dict[str, Any]:
    """Setting -> dataclass field, for each argument of a class that can be typed.

    Args:
        kind: the class; its annotations say what kind of value an argument is.
        leave_out: arguments that are not settings.
        only: those that are, of a class with others.
        renamed: argument -> setting, where they differ.
        defaults: setting -> default in place of the class's.
    """
    texts, found = _texts(kind), {}
    for argument, (parameter, annotation) in arguments_of(kind).items():
        if argument in leave_out or (only is not None and argument not in only):
            continue
        name = renamed.get(argument, argument)
        default = defaults.get(name, parameter.default)
        made = _field(annotation, texts.get(argument, ""), default)
        if made is not None:
            found[name] = made
    return found


def _field(annotation: Any, text: str, default: Any) -> Any:
    """A field for values of the annotation, or None where nobody could type one."""
    if isinstance(annotation, typing.TypeAliasType):
        annotation = annotation.__value__
    if annotation is Any:  # NumPyro's classes have no annotations
        annotation = type(default)
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    parts = typing.get_args(annotation) if union else (annotation,)
    needed = default is inspect.Parameter.empty
    optional = type(None) in parts
    shown = "none: it must be given" if needed else _shown(default)
    if bool in parts:
        return switch(text, default=None, shown="on" if default else "off")
    words = [part for part in parts if typing.get_origin(part) is Literal]
    if words:
        read: Callable[[str], Any] = choice(*typing.get_args(words[0]))
        return setting(text, read=read, unit="word", shown=shown)
    several = any(typing.get_origin(p) is Sequence and typing.get_args(p) == (int,) for p in parts)
    if int in parts:
        read = functools.partial(one_or_more, read=whole()) if several else whole()
        return setting(
            text, read=_or_none(read, optional), unit="integer", metavar="N", shown=shown
        )
    if float in parts:
        read = _or_none(number(above=-math.inf), optional)
        return setting(text, read=read, unit="number", metavar="X", shown=shown)
    if any(typing.get_args(part)[:1] == (float,) for part in parts):
        return setting(text, read=numbers, unit="numbers", metavar="X,X", shown=shown)
    if str in parts:
        return setting(text, read=str, unit="word", metavar="WORD", shown=shown)
    if any(getattr(part, "__name__", "") == "Preconditioner" for part in parts):
        return setting(
            "a mass for each weight: rmsprop, by the size of its gradients, and gradient-noise, by "
            "their variance, are learned in the warm-up and then fixed; rmsprop-plain moves at "
            "every step, which is biased, as in bnn_hmc",
            read=choice("none", "rmsprop", "rmsprop-plain", "gradient-noise"),
            unit="word",
            shown="none",
        )
    return None


def _or_none(read: Callable[[str], Any], optional: bool) -> Callable[[str], Any]:
    """`read`, or the word none where the argument may be None."""
    return (lambda text: text if text == "none" else read(text)) if optional else read


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return ",".join(f"{value:g}" for value in default)
    return f"{default:g}" if isinstance(default, float) else str(default).lower()


def as_arguments(kind: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values as a class takes them: tuples for lists, and None for none where it may be."""
    found = {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}
    known = arguments_of(kind)
    for name, value in found.items():
        if value == "none" and name in known and type(None) in typing.get_args(known[name][1]):
            found[name] = None
    return found
