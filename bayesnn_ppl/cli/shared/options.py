"""Commands of settings: an adapter from `settings.declaring` to cyclopts."""

import contextvars
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.completion import CompletionContext

from bayesnn_ppl.settings.declaring import Setting, declared, flag, setting, switch

__all__ = ["TYPED", "Argument", "Command", "Output", "command_app", "model_file"]

TYPED = contextvars.ContextVar("typed", default="bayesnn")  # the command line, as it was typed


@dataclass(frozen=True)
class Output:
    """What is printed."""

    json: bool = switch("print the result as JSON")
    traceback: bool = switch("show where an error comes from")
    no_compilation_cache: bool = switch(
        "compile everything again; compiled programs are otherwise kept in the user's cache "
        "folder, up to 512 MiB, and draws are the same"
    )


@dataclass(frozen=True)
class Argument:
    """A value that is given by its place.

    Attributes:
        name: of the argument of the command's function.
        text: what it is.
        metavar: stands for it in the help.
        default: its value where it is not given; it must be, where there is none.
        many: whether there may be several.
        read: as of `setting`; None leaves the text as it is.
    """

    name: str
    text: str
    metavar: str
    default: Any = inspect.Parameter.empty
    many: bool = False
    read: Callable[[str], Any] | None = None


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        name: of it.
        text: what it is for.
        run: takes the arguments and an instance of each group by name, and returns the exit
            status.
        arguments: given by their places.
        groups: title of a section of the help -> (name, dataclass of settings). The options of a
            dataclass with `AS_WRITTEN` are its unchanged names, with underscores.
    """

    name: str
    text: str
    run: Callable[..., int]
    arguments: tuple[Argument, ...] = ()
    groups: Mapping[str, tuple[str, type]] = dataclasses.field(default_factory=dict)

    def options(self) -> list[str]:
        """All options, such as `--chains`."""
        groups = [group for _, group in self.groups.values()]
        return [_option(group, name) for group in (*groups, Output) for name in declared(group)]

    def function(self) -> Callable[..., int]:
        """What cyclopts calls: `run` with a signature made of arguments and groups."""
        parameters = [_positional(argument) for argument in self.arguments]
        for place, (title, (name, group)) in enumerate(
            {**self.groups, "Output": ("output", Output)}.items()
        ):
            kind: Any = _with_options(group, Group(title, sort_key=place))
            annotation = Annotated[kind, Parameter(name="*")]
            parameters.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=kind()
                )
            )
        names = [argument.name for argument in self.arguments]
        defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        many = bool(self.arguments) and self.arguments[-1].many

        def call(*given: Any, **groups: Any) -> int:
            values = dict(zip(names, given, strict=False))
            if many:
                values[names[-1]] = given[len(names) - 1 :]
            return self.run(**values, **defaults | groups)

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        return call


def command_app(command: Command, *, listed_only: bool = False) -> App:
    """A command for cyclopts; `listed_only` has no options, for a list of commands."""
    app = App(name=command.name, help=command.text, help_format="plaintext", version_flags=[])
    if not listed_only:
        app.default(command.function())
    return app


def _positional(argument: Argument) -> inspect.Parameter:
    known: dict[str, Any] = {"help": argument.text, "metavar": argument.metavar}
    known |= {"show_default": False, "show_choices": False}
    read = argument.read
    if read is not None:
        known["converter"] = lambda _, tokens: read(tokens[-1].value)
        known["choices"] = getattr(read, "choices", ())
    else:
        known["completer"] = _completer(argument.metavar)
    if argument.many:
        kind, place = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.empty
        known["required"] = True
        return inspect.Parameter(
            argument.name, kind, annotation=Annotated[str, Parameter(**known)], default=place
        )
    return inspect.Parameter(
        argument.name,
        inspect.Parameter.POSITIONAL_ONLY,
        annotation=Annotated[str | None, Parameter(**known)],
        default=argument.default,
    )


def _option(group: type, name: str) -> str:
    return f"--{name}" if getattr(group, "AS_WRITTEN", False) else flag(name)


def _with_options(group: type, section: Group) -> type:
    """A subclass of the group whose fields are annotated for cyclopts."""
    settings, made = declared(group), []
    for field in dataclasses.fields(group):
        what = settings[field.name]
        annotation = _annotation(what, _option(group, field.name), section, field.default)
        again = dataclasses.field(default=field.default, metadata=field.metadata)
        made.append((field.name, annotation, again))
    return dataclasses.make_dataclass(group.__name__, made, bases=(group,), frozen=True)


def _annotation(what: Setting, name: str, section: Group, default: Any) -> Any:
    known: dict[str, Any] = {"name": name, "group": section, "help": what.help}
    known |= {"show_default": False, "show_choices": False, "allow_repeating": True}
    if what.read is None:
        if default is False:
            known["negative"] = ""
        return Annotated[bool | None, Parameter(**known)]
    known |= {"converter": lambda _, tokens: _value(what, tokens), "n_tokens": 1}
    known["negative"] = ""
    if what.choices:
        known["choices"] = what.choices
    else:
        known["completer"] = _completer(what.metavar)
    known["allow_leading_hyphen"] = what.metavar == "FILE"  # `-` is standard output
    return Annotated[Any, Parameter(metavar=what.metavar, **known)]


def _value(what: Setting, tokens: Any) -> Any:
    assert what.read is not None
    if what.many:
        return tuple(what.read(token.value) for token in tokens)
    return what.read(tokens[-1].value)  # the last one counts


def _names(of: Callable[[], Any]) -> Callable[[CompletionContext], list[str]]:
    """Completes names, and paths as well."""
    return lambda context: [*of(), *_paths(context)]


def _paths(context: CompletionContext) -> list[str]:
    """Completes paths; folders end in a slash."""
    found = Path().glob(f"{context.incomplete}*")
    return [f"{path}/" if path.is_dir() else str(path) for path in found]


def _models() -> Any:
    import bayesnn_ppl as bnn

    return bnn.models.__all__


def _data() -> Any:
    import bayesnn_ppl as bnn

    return bnn.data.names()


def _recipes() -> Any:
    from bayesnn_ppl.experiments import recipe_names

    return recipe_names()


def _studies() -> Any:
    from bayesnn_ppl.experiments import study_names

    return study_names()


_NAMED = {"MODEL": _models, "NAME|FILE.csv": _data, "RECIPE": _recipes, "STUDY": _studies}
_PATHS = ("FI", "FOLDER", "OUT", "RUN")  # FILE and FIGURE have their ending


def _completer(metavar: str) -> Callable[[CompletionContext], list[str]] | None:
    """The values that a shell may complete in place of a metavar."""
    if metavar in _NAMED:
        return _names(_NAMED[metavar])
    if metavar.endswith(",RUN}"):
        return _names(lambda: metavar[1:-1].split(",")[:-1])
    return _paths if metavar.startswith(_PATHS) else None


def calibration_table(effect: str) -> Any:
    """The setting `conformal` of commands that calibrate: rows with targets, and what they add."""
    return setting(
        f"rows with targets that trained nothing: {effect}",
        metavar="NAME|FILE.csv",
        unit="name or path",
    )


def model_file(shown: str = "none") -> Any:
    """The setting `model` of commands for runs that are there."""
    return setting(
        "the .py file of the run's model, if it has one: code is never run from a stored path",
        metavar="FILE.py",
        unit="path",
        shown=shown,
    )
