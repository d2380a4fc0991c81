"""Studies by name, with options from `main`; functions and scripts in their own processes."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import near_misses

_PACKAGE = Path(__file__).parents[1]
_CALL = """
import importlib, json, sys
module, function, arguments = json.loads(sys.argv[1])
print(json.dumps(getattr(importlib.import_module(module), function)(*arguments)))
"""


def studies() -> dict[str, Path]:
    """Name of each study -> its file; a study is a module with a function `main`."""
    files = sorted(_PACKAGE.glob("*/*.py"))
    return {f.stem: f for f in files if re.search(r"^def main\(", f.read_text(), re.MULTILINE)}


def run(words: Sequence[str]) -> Any:
    """Run the study that the first word names with the options after it; list all without one.

    Returns:
        What `main` of the study returns, its exit status.
    """
    found = studies()
    if not words or words[0] in ("-h", "--help"):
        _list(found)
        return None
    name, *options = words
    if name not in found:
        raise SystemExit(f"There is no study `{name}`. {near_misses(name, found)}")
    return app_of(name)(options)


def app_of(name: str) -> Any:
    """The command of a study; its options are the arguments of `main`."""
    from cyclopts import App, Parameter

    module = importlib.import_module(f"benchmarks.{studies()[name].parent.name}.{name}")
    app = App(
        name=f"python -m benchmarks {name}",
        help=module.__doc__,
        help_format="plaintext",
        version_flags=(),
        default_parameter=Parameter(negative=(), consume_multiple=True),
        result_action="return_value",
    )
    app.default(module.main)
    return app


def _list(found: dict[str, Path]) -> None:
    print("python -m benchmarks NAME [options]; NAME --help says more")
    for folder in sorted({file.parent for file in found.values()}):
        print(f"\n{_summary(folder / '__init__.py')}")
        for name, file in found.items():
            if file.parent == folder:
                print(f"  {name:<23}{_summary(file)}")


def _summary(file: Path) -> str:
    """The first line of a module's docstring, which is not imported."""
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of a module returns in a process of its own; all of it goes as JSON."""
    call = json.dumps([function.__module__, function.__name__, arguments])
    done = subprocess.run([sys.executable, "-c", _CALL, call], stdout=subprocess.PIPE, text=True)
    if done.returncode:  # it has said why
        raise SystemExit(f"`{function.__module__}.{function.__name__}` failed with {arguments}.")
    return json.loads(done.stdout.splitlines()[-1])


def run_peer(python: str, script: str, *words: object) -> str:
    """What a script of `benchmarks/peers` prints, run by the interpreter of another environment."""
    path = _PACKAGE / "peers" / script
    # A module in the script's folder must not hide the library of that name.
    done = subprocess.run(
        [python, str(path), *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )
    if done.returncode:
        raise RuntimeError(f"`{script}` failed under {python}: {done.stderr[-2000:]}")
    return done.stdout


def peer(
    python: str, script: str, given: Mapping[str, Any], options: dict[str, Any], *words: object
) -> dict[str, np.ndarray]:
    """The arrays that a script of `benchmarks/peers` makes of those that it is given.

    Args:
        python: the interpreter that has the other library.
        script: takes the files given and made, the options, and the words.
        given: arrays by name, of a regression `x`, `y` and the inputs `test`.
        options: of the library's sampler or estimator.
    """
    with tempfile.TemporaryDirectory() as folder:
        inputs, made = Path(folder) / "given.npz", Path(folder) / "made.npz"
        np.savez(inputs, **{name: np.asarray(array) for name, array in given.items()})
        run_peer(python, script, inputs, made, json.dumps(options), *words)
        with np.load(made) as file:
            return dict(file)
