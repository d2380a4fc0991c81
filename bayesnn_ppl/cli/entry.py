"""From the arguments of the shell to an exit status: 0 done, 1 failed, 2 wrong usage."""

import gc
import os
import shlex
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from bayesnn_ppl.cli.app import COMMANDS, METHODS, app_for
from bayesnn_ppl.cli.shared.output import note, print_error, standard_output
from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.compilation_cache import is_about_an_entry, keep_compiled_programs

__all__ = ["main"]

_COMPILING = "bayesnn-compiles"  # inference.runtime.program_cache.COMPILING, without importing JAX
_EXPECTED = (ValueError, TypeError, RuntimeError, OSError, ImportError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; by default those of the process.

    Returns:
        0 when the command did its job, 1 when it could not, 2 when it was called wrongly.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if "--distributed" in given:  # as in `distributed.initialize`; options may import JAX first
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        call, output = _parse(given)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    own = argv is None  # a process of its own, whose settings are nobody else's
    if output is None:  # help, or the version
        call()
        return 0
    if own and not output.no_compilation_cache:
        keep_compiled_programs()
    # The place of a warning inside the library says nothing to a user of the shell.
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            status = _run(call, output)
    finally:
        if own:  # the process ends: its last collection takes 0.7 s
            gc.freeze()
    if own and any(thread.name == _COMPILING for thread in threading.enumerate()):
        _leave(status)
    return status


def _leave(status: int) -> NoReturn:
    """End at once, while a thread still compiles.

    Where the interpreter takes itself apart under such a thread, the process can end by SIGSEGV.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _parse(given: list[str]) -> tuple[Callable[[], Any], Any]:
    """What to call, and the options of its output; None in their place for a help page.

    Raises:
        SystemExit: what was typed cannot be understood, and that was said.
    """
    from cyclopts import CycloptsError

    if given[:1] == ["__complete"]:  # a shell asks what may stand here
        app, words, _ = app_for(given[1:])
        return lambda: app(["__complete", *words]), None
    first = given[0] if given else "--help"
    if first.startswith("-"):
        if first not in ("--help", "-h", "--version"):
            name = first.split("=")[0]
            _refuse("", f"`{name}` must come after a command: `bayesnn COMMAND {name}`")
    elif first not in COMMANDS:
        _refuse("", f"There is no command `{first}`. {near_misses(first, COMMANDS)}")
    app, words, options = app_for(given)
    try:
        call, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        from bayesnn_ppl.cli.shared.usage_errors import as_sentence

        _refuse(_command(words), as_sentence(error, options, words))
    # A run remembers what was typed, so that its report can say how to have it again.
    if "output" not in bound.signature.parameters:
        return lambda: call(*bound.args, **bound.kwargs), None
    from bayesnn_ppl.cli.shared.options import TYPED, Output

    TYPED.set(shlex.join(["bayesnn", *words]))
    output = bound.arguments.get("output", Output())
    return lambda: call(*bound.args, **bound.kwargs), output


def _command(words: list[str]) -> str:
    """The words of the command, such as `sample hmc`."""
    return " ".join(words[:2] if words[0] in METHODS else words[:1])


def _refuse(command: str, sentence: str) -> NoReturn:
    """Say what is wrong in one line, and leave with status 2."""
    if not sentence.endswith((".", "?")):
        sentence += "."
    where = f"bayesnn {command}".strip()
    note(f"{where}: error: {sentence} See `{where} --help`.")
    raise SystemExit(2)


def _run(call: Callable[[], int], output: Any) -> int:
    full = output.traceback or os.environ.get("BAYESNN_TRACEBACK", "") not in ("", "0")
    try:
        status = call()
        with standard_output():  # here a full disk is one line; at the interpreter's end it is not
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print_error("Interrupted before the job was done.")
    except BrokenPipeError:
        # The reader, such as `head`, has left: not even the interpreter's last flush may fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except _EXPECTED as error:
        _report(error, full)
        print_error(_sentence(error))
    except Exception as error:
        _report(error, full)
        print_error(
            f"{type(error).__name__}: {error}. This looks like a bug in bayesnn_ppl. "
            "Run the same command with --traceback, and report what it shows."
        )
    return 1


def _report(error: Exception, full: bool) -> None:
    if full:
        traceback.print_exception(error)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"The file `{error.filename}` cannot be used: {error.strerror}."
    return str(error) or f"{type(error).__name__}, without a message."


def _show_warning(message: Any, category: type[Warning], *place: Any) -> None:
    if not is_about_an_entry(str(message)):
        print_error(str(message), kind="warning")
