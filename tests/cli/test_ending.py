"""`--until-rhat`, `--until-ess` and `--max-time`: what ends a run, and what is said of it."""

import json

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.settings.sampling import until
from tests.cli.conftest import TINY, sample_job

SAMPLE = ["sample", "hmc", "linear", "--quiet", "--no-diagnose", *TINY, "--warmup", "200"]


def test_each_limit_ends_a_run_and_is_named(tmp_path, capsys):
    """One run through all of them, so that it is compiled once."""
    run = tmp_path / "run"
    resumed = [str(run), "--quiet", "--no-diagnose"]

    assert main([*SAMPLE, "--max-time", "0.001", "--out", str(run)]) == 1
    assert json.loads((run / "commit.json").read_text())["phase"] == "warmup"
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "--max-time was up in the warm-up" in said[0]
    assert f"resume {run}` continues" in said[0]
    assert main(["extend", *resumed, "--draws", "5", "--max-time", "0.001"]) == 1
    assert "--max-time was up in the warm-up" in capsys.readouterr().err

    draws = 25
    assert main(["resume", *resumed, "--max-time", "1h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ended"] == {"by": "draws"}
    assert main(["resume", *resumed, "--max-time", "1h"]) == 0
    assert f"\nEnded after {draws} draws per chain, as requested" in capsys.readouterr().out
    assert main(["resume", *resumed]) == 0
    assert "Ended" not in capsys.readouterr().out, "Nothing else could have ended it."

    loud = [str(run), "--no-diagnose"]
    assert main(["extend", *loud, "--draws", "100000", "--max-time", "0.001"]) == 0
    shown = capsys.readouterr().out
    assert f"What to type next\n  bayesnn resume {run}\n" in shown
    made = bnn.load(run).provenance["draws"]
    assert draws < made < draws + 100_000
    assert f"\nEnded by its time, 0.001 s, after {made} draws per chain.\n" in shown
    assert max(map(len, shown.splitlines())) <= len(str(run)) + 60

    assert main(["resume", *resumed, "--until-rhat", "1.5", "--until-ess", "100", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ended"]["by"] == "convergence"
    assert result["ended"]["function_rhat"] < 1.5 and result["ended"]["ess"] >= 100
    assert made < result["draws"] < draws + 100_000
    assert main(["resume", *resumed]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Ended by convergence after {result['draws']} draws per chain" in shown


def test_a_run_without_a_probe_is_not_watched(tmp_path, capsys):
    run = tmp_path / "run"
    assert main([*SAMPLE, "--probe-rows", "0", "--max-time", "0.001", "--out", str(run)]) == 1
    capsys.readouterr()
    assert main(["resume", str(run), "--until-rhat", "1.01", "--until-ess", "9"]) == 1
    assert "--until-rhat and --until-ess cannot be checked" in capsys.readouterr().err


def test_what_reaches_the_library():
    def parsed(line):
        return until(sample_job(line).ending, probe=True)

    assert parsed("") is None
    assert parsed("--until-rhat 1.02 --max-time 1h30m") == {
        "function_rhat": 1.02,
        "max_time": 5400.0,
    }
    assert parsed("--until-ess 50 --max-time 90") == {"ess": 50.0, "max_time": 90.0}
    assert parsed("--max-time 1.5m") == {"max_time": 90.0}
