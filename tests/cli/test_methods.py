"""`bayesnn sample mile`: the recipe of `bnn.mile`, and nothing that contradicts it."""

import inspect

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.inference.microcanonical_ensembles import _KERNEL
from bayesnn_ppl.settings.methods.kernels import chosen_kernel
from tests.cli.conftest import sample_job


def test_mile_has_the_defaults_of_the_function():
    defaults = {n: p.default for n, p in inspect.signature(bnn.mile).parameters.items()}
    job = sample_job("mile mlp")
    found, kernel = job.run, chosen_kernel("mile", job.settings, warmup=5000)
    assert (kernel["kernel"], found.init) == ("mclmc", "ensemble")
    assert found.chains == defaults["chains"] and found.draws == defaults["draws"]
    assert found.warmup * defaults["steps_per_draw"] == defaults["warmup_steps"]
    mclmc = inspect.signature(bnn.kernels.MCLMC).parameters
    assert mclmc["steps_per_draw"].default == defaults["steps_per_draw"]
    assert kernel["settings"] == _KERNEL == {"energy_variance_end": 0.01}
    given = sample_job("mile mlp --chains 3 --energy-variance-end 0.1")
    assert (given.run.chains, given.settings.energy_variance_end) == (3, 0.1)


def test_without_a_method_a_run_is_plain():
    job = sample_job("mlp")
    found = (job.kernel, job.run.init, job.run.warmup, job.run.draws, job.run.chains)
    assert found == ("nuts", "prior", 500, 500, 4)


def test_what_contradicts_the_method_is_refused(capsys):
    assert main(["sample", "mile", "mlp", "--init", "prior"]) == 1
    assert "mile starts at --init ensemble" in capsys.readouterr().err


def test_it_runs_and_resumes(tmp_path):
    run = tmp_path / "run"
    line = f"sample mile linear --chains 2 --warmup 60 --draws 20 --quiet --out {run}"
    assert main(line.split()) == 0
    assert main(["extend", str(run), "--draws", "5", "--quiet", "--no-diagnose"]) == 0
    posterior = bnn.load(run)
    assert posterior.provenance["kernel"] == "MCLMC" and posterior.provenance["draws"] == 25
    assert posterior.provenance["start"]["method"] == "Ensemble"
    assert np.isfinite(posterior.draws["noise_scale"]).all()
