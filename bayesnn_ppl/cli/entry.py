"""From the arguments of the shell to an exit status: 0 done, 1 failed, 2 wrong usage."""

import argparse
import gc
import os
import shlex
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from bayesnn_ppl.cli.commands import build_parser
from bayesnn_ppl.cli.compilation_cache import is_about_an_entry, keep_compiled_programs
from bayesnn_ppl.cli.output import complain
from bayesnn_ppl.cli.parser import Parser

__all__ = ["main"]

_COMPILING = "bayesnn-compiles"  # inference.program_cache.COMPILING, without importing JAX
_EXPECTED = (ValueError, TypeError, RuntimeError, OSError, ImportError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; by default those of the process.

    Returns:
        0 when the command did its job, 1 when it could not, 2 when it was called wrongly.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parse(given)
    except SystemExit as leaving:  # argparse leaves on --help (0) and on an error (2)
        return int(leaving.code or 0)
    if arguments is None:
        return 0
    own = argv is None  # a process of its own, whose settings are nobody else's
    if own and not arguments.no_compilation_cache:
        keep_compiled_programs()
    # The place of a warning inside the library says nothing to a user of the shell.
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            status = _run(arguments)
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


def _parse(given: list[str]) -> argparse.Namespace | None:
    parser, commands = build_parser()
    if not given:
        parser.print_help()
        return None
    parser.check_command(given[0], commands)
    arguments, unknown = parser.parse_known_args(given)
    command: Parser = arguments.parser
    command.refuse_unknown(unknown)
    # A run remembers what was typed, so that its report can say how to have it again.
    arguments.command = shlex.join(["bayesnn", *given])
    return arguments


def _run(arguments: argparse.Namespace) -> int:
    full = arguments.traceback or os.environ.get("BAYESNN_TRACEBACK", "") not in ("", "0")
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        complain("Interrupted before the job was done.")
    except BrokenPipeError:
        # The reader, such as `head`, has left: not even the interpreter's last flush may fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except _EXPECTED as error:
        _report(error, full)
        complain(_sentence(error))
    except Exception as error:
        _report(error, full)
        complain(
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
        complain(str(message), kind="warning")
