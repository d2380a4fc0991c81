"""A model from a user's `.py` file."""

import hashlib
import importlib.util
import inspect
import sys
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.wording import as_sentence

__all__ = [
    "failures_named",
    "load_model",
    "name_of",
    "source_hash",
    "split_name",
]

DEFAULT_NAME = "model"


def split_name(model: str) -> tuple[Path, str]:
    """`path.py:NAME` as path and name; the name is `model` where none is given."""
    path, _, name = model.rpartition(":")
    if path.endswith(".py"):
        return Path(path), name
    return Path(model), DEFAULT_NAME


def source_hash(path: Path) -> str:
    """SHA-256 of the file's bytes, line ends apart."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def load_model(path: Path, name: str = DEFAULT_NAME) -> Any:
    """Run the file, and return the model `name` that it defines.

    Args:
        path: the file. Its folder is searched first while it is loaded, so that it may import
            its neighbours.
        name: of a callable `model(x, y=None, *, batch_size=None)`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be read as Python, fails while it is loaded, or has no such
            name.
        TypeError: the object of that name is not a model.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file `{path}`. Give the path of the .py file that defines the model "
            f"`{name}(x, y=None, *, batch_size=None)`; relative paths start at `{Path.cwd()}`."
        )
    module = _load(path)
    found = getattr(module, name, None)
    if found is None:
        own = [
            key
            for key, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", None) == module.__name__
        ]
        raise ValueError(
            f"The file `{path}` defines no `{name}`. "
            + (
                f"{near_misses(name, own)} Choose another with `{path}:NAME`."
                if own
                else f"Write the model as `def {name}(x, y=None, *, batch_size=None)`."
            )
        )
    _check_signature(found, path, name)
    return found


def shared_by(cluster: Any, path: Path | None) -> dict[str, Any]:
    """The argument `cluster` of `sample` and `resume`, where there is one.

    What the model's file and its neighbours define is sent as it is, since workers have no such
    file.

    Args:
        cluster: as in `sample`; None for this process alone.
        path: of a model's file; None of one of the zoo, which every worker has.
    """
    if cluster is None:
        return {}
    import cloudpickle

    folder = None if path is None else path.resolve().parent
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve().parent == folder:
            cloudpickle.register_pickle_by_value(module)
    return {"cluster": cluster}


def name_of(path: Path, description: str) -> str | None:
    """The name under which the file defines the model that a run describes so; None if none."""
    from bayesnn_ppl.core.identity import describe

    for name, value in vars(_load(path)).items():
        known = callable(value) and not inspect.isclass(value) and not name.startswith("_")
        if known and describe(value) == description:
            return name
    return None


def _load(path: Path) -> Any:
    # A name that no installed module has, and one for each file.
    module_name = f"_bayesnn_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[module_name]
        raise ValueError(
            f"The file `{path}` is not valid Python: {error.msg}, line {error.lineno}."
        ) from error
    except Exception as error:
        del sys.modules[module_name]
        raise ValueError(
            f"The file `{path}` failed while it was loaded, at line {_line(error, path)}: "
            f"{type(error).__name__}: {as_sentence(error)} Correct it, or run it by "
            f"itself, `python {path}`, to see more."
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def _line(error: Exception, path: Path) -> int | str:
    """The last line of the file itself on the way to the error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).resolve() == path.resolve()]
    return (lines[-1] or "?") if lines else "?"


def _check_signature(model: Any, path: Path, name: str) -> None:
    """Refuse what cannot be called as `model(x, y)` and `model(x)`."""
    contract = f"`{name}(x, y=None, *, batch_size=None)`"
    if inspect.isclass(model) or not callable(model):
        kind = "a class" if inspect.isclass(model) else f"of type {type(model).__name__}"
        raise TypeError(
            f"`{name}` in `{path}` is {kind}, but a NumPyro model is needed: a function {contract}."
        )
    try:
        signature = inspect.signature(model)
        signature.bind(None)
        signature.bind(None, None)
        signature.bind(None, None, batch_size=None)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` in `{path}` cannot be called as {contract}: {as_sentence(error)} "
            "Inputs and targets are handed to it as x and y."
        ) from None


@contextmanager
def failures_named(path: Path | None) -> Iterator[None]:
    """Turn an error that passes through the user's file into one that names file and line.

    Args:
        path: the file, or None where the model is of the zoo and errors pass as they are.

    Raises:
        ValueError: something in the file failed inside the block.
    """
    try:
        yield
    except Exception as error:
        line = "?" if path is None else _line(error, path)
        if line == "?":
            raise
        what = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        message = textwrap.shorten(as_sentence(error), 600, placeholder=" ...")
        raise ValueError(f"The model in `{path}` fails at line {line}: {what}{message}") from error
