"""`bayesnn sample KERNEL`: what reaches which kernel, what is refused, and what is stored."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from cyclopts import UnknownOptionError

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.core.identity import identity_key
from bayesnn_ppl.settings.declaring import declared, flag
from bayesnn_ppl.settings.methods.kernels import (
    METHODS,
    chosen_kernel,
    kernel_group,
    kernel_kinds,
    make_kernel,
)
from tests.cli.conftest import sample_job

MODEL = bnn.models.linear()


def made(line):
    """The kernel of the words, by way of `run.json`."""
    job = sample_job(line)
    chosen = chosen_kernel(job.kernel, job.settings, warmup=job.run.warmup)
    return make_kernel(MODEL, json.loads(json.dumps(chosen)))


CASES = {
    "": ("nuts", {}),
    "--step-size 0.1 --target-accept 0.9 --max-tree-depth 4": (
        "nuts",
        {"step_size": 0.1, "target_accept_prob": 0.9, "max_tree_depth": 4},
    ),
    "hmc": ("hmc", {"mass": "diagonal", "trajectory_length": math.pi / 2}),
    "hmc --trajectory-length 2 --mass identity --jitter 0": (
        "hmc",
        {"trajectory_length": 2.0, "mass": "identity", "jitter": 0.0},
    ),
    "hmc --num-leapfrogs 7": ("hmc", {"mass": "diagonal", "num_leapfrogs": 7}),
    "hmc --trajectory-prior-variance 0.2": ("hmc", {"prior_variance": 0.2}),
    "chees --jitter 0.5 --trajectory-length 3": (
        "chees",
        {"jitter": 0.5, "trajectory_length": 3.0},
    ),
    "chees --jitter 0": ("chees", {"jitter": 0.0}),
    "chees --jitter 1 --mass identity": ("chees", {"jitter": 1.0, "mass": "identity"}),
    "mala --step-size 0.01": ("mala", {"step_size": 0.01}),
    "random-walk --target-accept 0.3": ("random-walk", {"target_accept": 0.3}),
    "parallel-tempering --temperatures 1,2.5 --num-leapfrogs 4": (
        "parallel-tempering",
        {"temperatures": (1.0, 2.5), "num_leapfrogs": 4},
    ),
    "mclmc --steps-per-draw 3 --preconditioning identity": (
        "mclmc",
        {"steps_per_draw": 3, "preconditioning": "identity"},
    ),
    "mclmc --energy-variance-end 5e-4 --trajectory-length 9": (
        "mclmc",
        {"energy_variance_end": 5e-4, "length": 9.0},
    ),
    "adjusted-mclmc --trajectory-length 3 --target-accept 0.8": (
        "adjusted-mclmc",
        {"length": 3.0, "target_accept": 0.8},
    ),
    "sgld --step-size 1e-4 --batch-size 8 --steps-per-draw 5": (
        "sgld",
        {"step_size": 1e-4, "batch_size": 8, "steps_per_draw": 5},
    ),
    "sghmc --step-size 1e-4 --batch-size 8 --momentum-decay 0.5 --minibatches epoch": (
        "sghmc",
        {"step_size": 1e-4, "batch_size": 8, "momentum_decay": 0.5, "minibatches": "epoch"},
    ),
    "langevin --step-size 1e-4 --batch-size 8 --integrator OBABO": (
        "langevin",
        {"step_size": 1e-4, "batch_size": 8, "integrator": "OBABO"},
    ),
    "sgmclmc --step-size 1e-4 --batch-size 8 --max-angle 0.5 --momentum-decay 0.5": (
        "sgmclmc",
        {"step_size": 1e-4, "batch_size": 8, "max_angle": 0.5, "momentum_decay": 0.5},
    ),
    "sgnht --step-size 1e-4 --batch-size 8": (
        "sgnht",
        {"step_size": 1e-4, "batch_size": 8},
    ),
}


def needed(kernel):
    """The settings without which a kernel cannot be."""
    if "batch_size" not in declared(kernel_group(kernel)):
        return ""
    return " --step-size 1 --batch-size 1"


@pytest.mark.parametrize("line", CASES)
def test_settings_reach_the_kernel(line):
    kernel, settings = CASES[line]
    expected = kernel_kinds()[kernel](MODEL, **settings)
    assert type(made(line)) is type(expected)
    assert identity_key(made(line)) == identity_key(expected)
    assert (
        not settings
        or identity_key(expected) != identity_key(made(f"{kernel}{needed(kernel)}"))
        or (line == "hmc")
    ), "Settings without effect would pass too."


def test_every_kernel_has_a_word():
    """Those that are wrong on purpose are for teaching."""
    named = {kind.__name__ for kind in kernel_kinds().values()}
    assert named - {"NUTS"} == set(bnn.kernels.__all__) - {
        "BiasedMinibatchHMC",
        "BiasedMinibatchMetropolis",
        "izmailov_trajectory",
    }
    assert list(kernel_kinds())[0] == "nuts" and "adjusted-mclmc" in kernel_kinds()


def test_the_rule_of_the_prior_counts_the_temperature():
    job = sample_job("hmc --trajectory-prior-variance 0.2")
    kernel = chosen_kernel("hmc", job.settings, warmup=500)
    assert make_kernel(bnn.cold(MODEL, 0.25), kernel).trajectory_length == pytest.approx(
        bnn.kernels.izmailov_trajectory(0.2, 0.25)
    )


@pytest.mark.parametrize("kernel", [*kernel_kinds(), *METHODS])
def test_every_setting_says_what_it_is(kernel):
    for name, what in declared(kernel_group(kernel)).items():
        assert len(what.text) > 3, name
        assert what.shown


def test_the_help_tells_the_defaults_of_the_classes():
    def shown(kernel, name):
        return declared(kernel_group(kernel))[name].shown

    assert shown("nuts", "target_accept") == "0.8" and shown("chees", "target_accept") == "0.651"
    assert shown("mclmc", "energy_variance_end") == "0.1"
    assert shown("mile", "energy_variance_end") == "0.01"
    assert shown("parallel-tempering", "temperatures") == "1,1.6,2.5,4,6.4,10"
    assert shown("hmc", "adapt_step_size") == "on" and shown("nuts", "dense_mass") == "off"
    assert shown("sgld", "batch_size").startswith("none")


def test_settings_of_another_kernel_are_refused():
    kinds = list(kernel_kinds())
    refused = 0
    for kernel, other in zip(kinds, kinds[1:] + kinds[:1], strict=True):
        foreign = set(declared(kernel_group(other))) - set(declared(kernel_group(kernel)))
        for name in sorted(foreign)[:1]:
            with pytest.raises(UnknownOptionError):
                sample_job(f"{kernel} {flag(name)}")
            refused += 1
    assert refused > len(kinds) / 2


@pytest.mark.parametrize("kernel", ["sgld", "sghmc", "sgmclmc", "langevin", "sgnht", "atmc"])
def test_what_a_kernel_needs_must_be_given(kernel):
    with pytest.raises(ValueError, match=f"{kernel} needs --step-size and --batch-size: .*auto"):
        sample_job(kernel)
    with pytest.raises(ValueError, match=f"{kernel} needs --batch-size."):
        sample_job(f"{kernel} --step-size 1e-4")


def test_only_kernels_that_do_not_adapt_look_for_their_step(capsys):
    assert main("sample hmc --step-size auto".split()) == 2
    assert "--step-size: must be a number, not `auto`" in capsys.readouterr().err
    assert main("sample sgld --step-size automatic".split()) == 2
    assert "or `auto`" in capsys.readouterr().err


def test_the_step_that_is_found_is_that_of_the_run(tmp_path, capsys, monkeypatch):
    """The search itself is tested where `find_step_size` is."""
    searched = []

    def search(kernel, x, y, *, chains, seed, report):
        searched.append((kernel, len(x), len(y), chains, seed))
        report("step size 3.00e-05: right")
        last = SimpleNamespace(step_size=1e-9, status="too hot")
        return SimpleNamespace(step_size=None if seed else 3e-5, ladder=[last, last])

    monkeypatch.setattr(bnn, "find_step_size", search)
    run = tmp_path / "run"
    line = "sample sghmc linear --step-size auto --batch-size 199 --steps-per-draw 5"
    line += f" --chains 2 --warmup 10 --draws 20 --out {run}"
    assert main([*line.split(), "--seed", "1"]) == 1
    said = capsys.readouterr().err
    assert "`--step-size auto` found none: of 2 step sizes down to 1.00e-09" in said
    assert "larger --batch-size" in said and "`draws`" not in said
    assert main(line.split()) == 0
    assert "step size 3.00e-05: right" in capsys.readouterr().err
    stored = json.loads((run / "run.json").read_text())["kernel"]["settings"]
    assert stored == {"step_size": 3e-5, "batch_size": 199, "steps_per_draw": 5}
    kernel, *given = searched[1]
    assert isinstance(kernel, bnn.kernels.SGHMC) and given == [398, 398, 2, 0]
    posterior = bnn.load(run)
    np.testing.assert_allclose(posterior.statistics["step_size"], 3e-5, rtol=1e-6)
