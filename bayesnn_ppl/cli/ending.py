"""When a run ends before its draws: `--until-rhat`, `--until-ess`, `--max-time`."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesnn_ppl.cli.output import program_name
from bayesnn_ppl.cli.parser import Parser, duration, number, option

__all__ = ["add_ending", "ended", "interrupt_told", "time_in_warmup", "until"]

# Option -> name in the `until` of `sample`.
_NAMES = {"until_rhat": "function_rhat", "until_ess": "ess", "max_time": "max_time"}


def add_ending(parser: Parser) -> None:
    """What ends a run before it has all its draws."""
    group = parser.add_argument_group("end early")
    option(
        group,
        "--until-rhat",
        "end once R-hat of every function value at the probe is below this; with --until-ess, "
        "once both hold",
        type=number(above=1),
        metavar="R",
        unit="ratio, 1.01 is usual",
        shown="all draws are made",
    )
    option(
        group,
        "--until-ess",
        "end once every function value at the probe has this effective sample size, bulk and tail",
        type=number(),
        metavar="N",
        unit="independent draws of all chains together",
        shown="400 with --until-rhat, else all draws are made",
    )
    option(
        group,
        "--max-time",
        "end at the first block of draws after this time, compilation and warm-up included; "
        "`bayesnn resume` goes on",
        type=duration,
        metavar="TIME",
        unit="such as 90s, 10m, 1h30m, or seconds",
        shown="no limit",
    )


def until(arguments: argparse.Namespace, *, probe: bool) -> dict[str, Any] | None:
    """The `until` of the arguments, or None where nothing is asked.

    Args:
        arguments: the parsed ones.
        probe: whether the run keeps function values at a probe.

    Raises:
        ValueError: function values are to be watched, and there are none.
    """
    given = {name: getattr(arguments, flag) for flag, name in _NAMES.items()}
    given = {name: value for name, value in given.items() if value is not None}
    flags = {"function_rhat": "--until-rhat", "ess": "--until-ess"}
    asked = [flag for name, flag in flags.items() if name in given]
    if asked and not probe:
        raise ValueError(
            f"{' and '.join(asked)} would watch the function values that a run keeps at its probe, "
            "and this one keeps none (--probe-rows 0). Use --max-time, or sample with a probe."
        )
    return given or None


@contextmanager
def time_in_warmup(folder: Path) -> Iterator[None]:
    """Say in the shell's words that --max-time has ended a run in its warm-up.

    Raises:
        RuntimeError: it has.
    """
    try:
        yield
    except RuntimeError as error:
        if "by its max_time" not in str(error):
            raise
        raise RuntimeError(
            "The time of --max-time was up in the warm-up, so there is no draw yet. All is saved: "
            f"`{program_name()} resume {folder}` goes on from there."
        ) from error


@contextmanager
def interrupt_told(folder: Path | None) -> Iterator[None]:
    """Say in the shell's words what Ctrl-C has left of a run.

    Raises:
        InterruptedError: it came before there was a draw.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        said = str(error) or "Interrupted before the job was done."
        if folder is not None:
            said = said.replace("`resume`", f"`{program_name()} resume {folder}`")
        raise InterruptedError(said) from None


def ended(posterior: Any, asked: dict[str, Any] | None) -> str:
    """What ended the run, as a sentence; "" where it was to end by its draws, and did.

    Args:
        posterior: of the run.
        asked: of `until`.
    """
    draws = posterior.provenance["draws"]
    end = posterior.provenance.get("ended", {"by": "draws"})
    made = f"after {draws} draws per chain"
    if end["by"] == "convergence":
        return (
            f"Ended by convergence {made}: largest R-hat of the functions "
            f"{end['function_rhat']:.4f}, smallest effective sample size {end['ess']:.0f}."
        )
    if end["by"] == "max_time":
        return f"Ended by its time, {end['max_seconds']:g} s, {made}."
    if end["by"] == "stopped":
        return f"Ended {made}, since all chains had stopped."
    if end["by"] == "interrupt":
        return f"Ended by Ctrl-C {made}."
    if asked is None:
        return ""
    return f"Ended by its number of draws, {draws} per chain: no other limit came first."
