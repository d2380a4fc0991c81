"""`bayesnn completion`: what bash offers after what was typed, and that no option was forgotten."""

import contextlib
import io
import json
import re
import subprocess

import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import build_parser
from bayesnn_ppl.cli.completion import _commands


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The script for bash, in a file beside an empty folder and a program."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "my_model.py").touch()
    (folder / "my_run").mkdir()
    (folder / "bayesnn.bash").write_text(printed("bash"))
    return folder / "bayesnn.bash"


def printed(shell):
    """What the command prints, with the shell's name beside it."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["completion", shell, "--json"]) == 0
    said = json.loads(said.getvalue())
    assert said["shell"] == shell
    return said["script"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sam", {"sample"}),
        ("sample --ker", {"--kernel"}),
        ("sample sg", {"sgld", "sghmc", "sgnht"}),
        ("sample m", {"mlp", "mlp_regression", "my_model.py"}),
        ("sample mlp --data dia", {"diabetes"}),
        ("fit mlp --approximation la", {"laplace", "last-layer"}),
        ("run uci", {"uci-hmc"}),
        ("study cold", {"cold-posterior"}),
        ("report my", {"my_run"}),
        ("predict my_run --model my", {"my_model.py"}),
        ("completion z", {"zsh"}),
    ],
)
def test_bash_offers(script, typed, offered):
    words = ["bayesnn", *typed.split(" ")]
    said = subprocess.run(
        ["bash", "-c", f'. {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_bayesnn; '
         'printf "%s\\n" "${COMPREPLY[@]}"', "bash", *words],
        cwd=script.parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stderr == ""
    found = set(said.stdout.split())
    assert offered <= found
    assert all(word.startswith(words[-1]) for word in found)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_commands_and_values(shell):
    script = printed(shell)
    assert "sgnht" in script
    for command in _commands(build_parser()[0]):
        assert command.prog.removeprefix("bayesnn ") in script


def test_every_path_is_completed(script):
    """An option whose unit is a path has a rule."""
    text, paths = script.read_text(), 0
    for command in _commands(build_parser()[0]):
        for action in command._actions:
            if re.search(r"\[(name or )?path;", action.help or ""):
                name = f"{command.prog} {action.option_strings[0]}"
                assert f"_shtab_{re.sub(r'\W', '_', name)}_COMPGEN=" in text, name
                paths += 1
    assert paths > 20


def test_an_unknown_shell_is_refused(capsys):
    assert main(["completion", "bsh"]) == 2
    assert "`bsh` is unknown. Did you mean `bash`" in capsys.readouterr().err
