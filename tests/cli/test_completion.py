"""`bayesnn completion`: what bash offers after what was typed, and that no option was forgotten."""

import contextlib
import io
import json
import subprocess

import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.app import COMMANDS


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The script for bash, in a file beside an empty folder and a model."""
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
        ("sample sg", {"sgld", "sghmc", "sgmclmc", "sgnht"}),
        ("sample hmc --num-l", {"--num-leapfrogs"}),
        ("sample hmc --mass d", {"diagonal"}),
        ("fit la", {"laplace", "last-layer"}),
        ("sample hmc m", {"mlp", "mlp_regression", "my_model.py"}),
        ("sample hmc mlp --data dia", {"diabetes"}),
        ("run uci", {"uci-hmc"}),
        ("study cold", {"cold-posterior"}),
        ("report my", {"my_run/"}),
        ("predict my_run --model my", {"my_model.py"}),
        ("completion z", {"zsh"}),
    ],
)
def test_bash_offers(script, typed, offered):
    words = ["bayesnn", *typed.split(" ")]
    said = subprocess.run(
        ["bash", "-c", f'. {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bayesnn; '
         'printf "%s\\n" "${COMPREPLY[@]}"', "bash", *words],
        cwd=script.parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = set(said.stdout.split())
    assert offered <= found, (found, said.stderr)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_commands_and_values(shell):
    script = printed(shell)
    assert "sgnht" in script and "num-leapfrogs" in script
    assert all(name in script for name in COMMANDS)


def test_an_unknown_shell_is_refused(capsys):
    assert main(["completion", "bsh"]) == 2
    assert 'Did you mean "bash"' in capsys.readouterr().err
