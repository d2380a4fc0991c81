"""The parser: help that is complete and quick, and what the shell's words become."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bayesnn_ppl import __version__
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import build_parser
from bayesnn_ppl.cli.output import program_name

HEAVY = ("jax", "numpyro", "numpy", "flax", "matplotlib", "pandas", "arviz", "rich", "sklearn")


def commands():
    parser, _ = build_parser()
    found = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return found.choices


def test_help_loads_nothing_heavy():
    code = (
        "import sys, time; began = time.perf_counter()\n"
        "from bayesnn_ppl.cli import main\n"
        "assert main(['--help']) == 0 and main(['sample', '--help']) == 0\n"
        "print(time.perf_counter() - began, file=sys.stderr)\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    seconds, heavy = done.stderr.splitlines()
    assert heavy == "[]"
    assert float(seconds) < 1
    assert "bayesnn demo" in done.stdout and "--target-accept" in done.stdout


@pytest.mark.parametrize("name", commands())
def test_every_option_says_its_unit_and_default(name, capsys):
    assert main([name, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for action in commands()[name]._actions:
        if action.dest == "help":
            continue
        if action.option_strings:
            assert action.option_strings[0] in shown
            assert re.search(r"\[.+; default: .+\]$", action.help), action.option_strings
        else:
            assert action.help and action.metavar in shown


def test_no_arguments_show_the_help(capsys):
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bayesnn {__version__}\n"


def test_values():
    parser = commands()["sample"]
    line = "linear --hidden 8,4 --noise-scale 0.5 --chains 3 --likelihood gaussian"
    parsed = parser.parse_args(line.split())
    assert parsed.hidden == (8, 4)
    assert parsed.noise_scale == 0.5
    assert parsed.chains == 3
    assert parser.parse_args(["--hidden", "none"]).hidden == ()
    assert parser.parse_args([]).model == "mlp"
    assert commands()["predict"].parse_args(["run", "--quantiles", "0.1,0.9"]).quantiles == (
        0.1,
        0.9,
    )


def test_the_process_leaves_with_the_status():
    code = "import sys; from bayesnn_ppl.cli import main; sys.exit(main(['sampel']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_the_program_is_named_by_its_path_where_path_has_it_not(monkeypatch):
    """After `make demo` it is in .venv/bin, and nothing has put that on PATH."""
    assert program_name() == "bayesnn"
    monkeypatch.setenv("PATH", "/nowhere")
    beside = Path(sys.executable).with_name("bayesnn")
    monkeypatch.chdir(beside.parents[2])
    assert program_name() == str(beside.relative_to(beside.parents[2]))
