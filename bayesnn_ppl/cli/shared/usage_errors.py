"""What was typed wrongly, as a sentence that says what to type instead."""

from typing import Any

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from bayesnn_ppl.core.arguments import near_misses, series
from bayesnn_ppl.settings.declaring import declared, flag

__all__ = ["as_sentence"]

# What a file is given by, for one that was typed without its option.
_FILES = {
    ".csv": "--data",
    ".parquet": "--data",
    ".pq": "--data",
    ".npz": "--data",
    ".py": "--model",
}


def as_sentence(error: CycloptsError, options: list[str], words: list[str]) -> str:
    """The message for what could not be parsed.

    Args:
        error: what cyclopts says.
        options: those of the command.
        words: what was typed.
    """
    if isinstance(error, UnknownOptionError) and error.token is not None:
        name = str(error.token.value or error.token.keyword).split("=")[0]
        return _unknown(name, options, words)
    if isinstance(error, UnusedCliTokensError):
        wrong = (error.unused_tokens or [""])[0]
        if wrong.startswith("-"):
            return _unknown(wrong.split("=")[0], options, words)
        meant = next((o for end, o in _FILES.items() if wrong.lower().endswith(end)), None)
        much = f"`{wrong}` is one argument too many."
        return f"{much} Did you mean `{meant} {wrong}`?" if meant in options else much
    argument = error.argument
    name = "" if argument is None else _name(argument)
    if isinstance(error, CoercionError):
        inner = error.__cause__ or error.__context__
        return f"{name}: {inner}" if isinstance(inner, ValueError) else str(error)
    if isinstance(error, MissingArgumentError):
        if name.startswith("-"):
            return f"{name} needs a value"
        return f"{name} is missing"
    return str(error)


def _name(argument: Any) -> str:
    if argument.field_info.is_positional:
        return str(argument.parameter.metavar or argument.name)
    return str(argument.name)


def _unknown(name: str, options: list[str], words: list[str]) -> str:
    if words[0] == "sample":
        from bayesnn_ppl.settings.methods.kernels import kernel_group, kernels_with

        kernel, having = words[1], kernels_with(name.removeprefix("--").replace("-", "_"))
        if having:
            own = series(map(flag, declared(kernel_group(kernel))))
            verb = "has" if len(having) == 1 else "have"
            whose = f"{series(having)} {verb}"
            return f"The kernel {kernel} has no option {name}; {whose}. It has {own}."
        if name == "--kernel":
            return "The kernel is the word after `sample`: `bayesnn sample hmc mlp`"
    if words[0] == "fit" and name == "--approximation":
        return "The approximation is the word after `fit`: `bayesnn fit laplace mlp`"
    return f"The option `{name}` is unknown. {near_misses(name, options)}"
