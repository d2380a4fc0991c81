"""`--method`: the recipe of `bnn.mile`, and nothing that contradicts it."""

import argparse
import inspect

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import build_parser
from bayesnn_ppl.cli.methods import apply_method
from bayesnn_ppl.inference.microcanonical_ensembles import _KERNEL


def parsed(*words):
    arguments = build_parser()[0].parse_args(["sample", "mlp", *words])
    apply_method(arguments)
    return arguments


def test_mile_has_the_defaults_of_the_function():
    defaults = {n: p.default for n, p in inspect.signature(bnn.mile).parameters.items()}
    found = parsed("--method", "mile")
    assert (found.kernel, found.init) == ("mclmc", "ensemble")
    assert found.chains == defaults["chains"] and found.draws == defaults["draws"]
    assert found.warmup * defaults["steps_per_draw"] == defaults["warmup_steps"]
    mclmc = inspect.signature(bnn.kernels.MCLMC).parameters
    assert mclmc["steps_per_draw"].default == defaults["steps_per_draw"]
    assert found.energy_variance_end == _KERNEL["energy_variance_end"] == 0.01
    given = parsed("--method", "mile", "--chains", "3", "--energy-variance-end", "0.1")
    assert (given.chains, given.energy_variance_end) == (3, 0.1)


def test_without_a_method_a_run_is_plain():
    found = parsed()
    assert (found.kernel, found.init, found.warmup, found.draws) == ("nuts", "prior", 500, 500)


def test_what_contradicts_the_method_is_refused(capsys):
    with pytest.raises(ValueError, match="--method mile is --kernel mclmc, and --kernel hmc"):
        apply_method(argparse.Namespace(**vars(parsed()) | {"method": "mile", "kernel": "hmc"}))
    assert main(["sample", "mlp", "--method", "mile", "--init", "prior"]) == 1
    assert "Leave one of the two out" in capsys.readouterr().err


def test_it_runs_and_goes_on(tmp_path):
    run = tmp_path / "run"
    line = f"sample linear --method mile --chains 2 --warmup 60 --draws 20 --quiet --out {run}"
    assert main(line.split()) == 0
    assert main(["extend", str(run), "--draws", "5", "--quiet", "--no-diagnose"]) == 0
    posterior = bnn.load(run)
    assert posterior.provenance["kernel"] == "MCLMC" and posterior.provenance["draws"] == 25
    assert posterior.provenance["start"]["method"] == "Ensemble"
    assert np.isfinite(posterior.draws["noise_scale"]).all()
