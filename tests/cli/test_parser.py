"""The command line: help that is complete and quick, and what the shell's words become."""

import subprocess
import sys
from pathlib import Path

import pytest

from bayesnn_ppl import __version__
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.app import COMMANDS, METHODS, app_for
from bayesnn_ppl.core.wording import program_name
from tests.cli.conftest import parsed, sample_job

HEAVY = ("jax", "numpyro", "numpy", "flax", "matplotlib", "pandas", "arviz", "sklearn")


def test_help_loads_nothing_heavy():
    code = (
        "import sys, time; began = time.process_time()\n"
        "from bayesnn_ppl.cli import main\n"
        "assert main(['--help']) == 0\n"
        "print(time.process_time() - began, file=sys.stderr)\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    seconds, heavy = done.stderr.splitlines()
    assert heavy == "[]"
    assert float(seconds) < 1
    assert "bayesnn demo" in done.stdout and all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_its_unit_and_default(name, capsys):
    words = [name]
    if name in METHODS:
        assert main([name, "--help"]) == 0
        assert METHODS[name] in capsys.readouterr().out
        words += ["hmc" if name != "fit" else "laplace"]
    assert main([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    options = app_for(words)[2]
    assert "--json" in options
    assert all(option[:20] in shown for option in options), "Long names are folded."
    assert shown.count("default:") >= len(options)


def test_a_kernel_shows_its_own_options(capsys):
    assert main(["sample", "hmc", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--num-leapfrogs N" in shown and "--max-tree-depth" not in shown
    assert "L ≥ 1, whatever the step size" in shown, "The text is that of the class."


def test_no_arguments_show_the_help(capsys):
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bayesnn {__version__}\n"


def test_values():
    job = sample_job("linear --hidden 8,4 --noise-scale 0.5 --chains 3 --likelihood gaussian")
    assert job.zoo.hidden == (8, 4) and job.zoo.noise_scale == 0.5 and job.run.chains == 3
    assert (job.kernel, job.model) == ("nuts", "linear")
    assert sample_job("--hidden none").zoo.hidden == ()
    assert sample_job("").model == "mlp" and sample_job("hmc").kernel == "hmc"
    assert sample_job("--chains 3 --chains=5").run.chains == 5, "The last one counts."
    _, found = parsed("predict run --quantiles 0.1,0.9")
    assert found["run"] == "run" and found["settings"].quantiles == (0.1, 0.9)
    _, found = parsed("compare a b c --out f.png")
    assert found["runs"] == ("a", "b", "c")


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
