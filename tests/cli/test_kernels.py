"""`--kernel` and its options: what reaches which kernel, what is refused, and what is stored."""

import inspect
import json
import math
from types import SimpleNamespace

import numpy as np
import numpyro.infer
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import build_parser
from bayesnn_ppl.cli.kernel_tables import KERNELS, OPTIONS
from bayesnn_ppl.cli.kernels import check_kernel, chosen_kernel, make_kernel
from bayesnn_ppl.cli.methods import apply_method
from bayesnn_ppl.core.identity import identity_key

MODEL = bnn.models.linear()


def parsed(line):
    arguments = build_parser()[0].parse_args(["sample", *line.split()])
    apply_method(arguments)
    return vars(arguments)


def made(line):
    """The kernel of the options, by way of `run.json`."""
    options = parsed(line)
    check_kernel(options)
    return make_kernel(MODEL, json.loads(json.dumps(chosen_kernel(options))))


def class_of(kernel):
    where = numpyro.infer if kernel == "nuts" else bnn.kernels
    return getattr(where, KERNELS[kernel].name)


CASES = {
    "": ("nuts", {}),
    "--step-size 0.1 --target-accept 0.9 --max-tree-depth 4": (
        "nuts",
        {"step_size": 0.1, "target_accept_prob": 0.9, "max_tree_depth": 4},
    ),
    "--kernel hmc": ("hmc", {"mass": "diagonal", "trajectory_length": math.pi / 2}),
    "--kernel hmc --trajectory-length 2 --mass identity --jitter 0": (
        "hmc",
        {"trajectory_length": 2.0, "mass": "identity", "jitter": 0.0},
    ),
    "--kernel hmc --num-steps 7": ("hmc", {"mass": "diagonal", "num_leapfrogs": 7}),
    "--kernel hmc --trajectory-prior-variance 0.2": ("hmc", {"prior_variance": 0.2}),
    "--kernel chees --jitter 0.5 --trajectory-length 3": (
        "chees",
        {"jitter": 0.5, "trajectory_length": 3.0},
    ),
    "--kernel chees --jitter 0": ("chees", {"jitter": 0.0}),
    "--kernel chees --jitter 1 --mass identity": ("chees", {"jitter": 1.0, "mass": "identity"}),
    "--kernel mala --step-size 0.01": ("mala", {"step_size": 0.01}),
    "--kernel random-walk --target-accept 0.3": ("random-walk", {"target_accept": 0.3}),
    "--kernel parallel-tempering --temperatures 1,2.5 --num-steps 4": (
        "parallel-tempering",
        {"temperatures": (1.0, 2.5), "num_leapfrogs": 4},
    ),
    "--kernel mclmc --steps-per-draw 3 --preconditioning identity": (
        "mclmc",
        {"steps_per_draw": 3, "preconditioning": "identity"},
    ),
    "--kernel mclmc --energy-variance-end 5e-4 --trajectory-length 9": (
        "mclmc",
        {"energy_variance_end": 5e-4, "length": 9.0},
    ),
    "--kernel adjusted-mclmc --trajectory-length 3 --target-accept 0.8": (
        "adjusted-mclmc",
        {"length": 3.0, "target_accept": 0.8},
    ),
    "--kernel sgld --step-size 1e-4 --batch-size 8 --steps-per-draw 5": (
        "sgld",
        {"step_size": 1e-4, "batch_size": 8, "steps_per_draw": 5},
    ),
    "--kernel sghmc --step-size 1e-4 --batch-size 8 --momentum-decay 0.5 --minibatches epoch": (
        "sghmc",
        {"step_size": 1e-4, "batch_size": 8, "momentum_decay": 0.5, "minibatches": "epoch"},
    ),
    "--kernel langevin --step-size 1e-4 --batch-size 8 --integrator OBABO": (
        "langevin",
        {"step_size": 1e-4, "batch_size": 8, "integrator": "OBABO"},
    ),
    "--kernel sgnht --step-size 1e-4 --batch-size 8": (
        "sgnht",
        {"step_size": 1e-4, "batch_size": 8},
    ),
}


def needed(kernel):
    """The options without which a kernel cannot be."""
    return "".join(f" --{name.replace('_', '-')} 1" for name in KERNELS[kernel].needs)


@pytest.mark.parametrize("line", CASES)
def test_options_reach_the_kernel(line):
    kernel, settings = CASES[line]
    expected = class_of(kernel)(MODEL, **settings)
    assert type(made(line)) is type(expected)
    assert identity_key(made(line)) == identity_key(expected)
    assert (
        not settings
        or identity_key(expected) != identity_key(made(f"--kernel {kernel}{needed(kernel)}"))
        or (line == "--kernel hmc")
    ), "Options without effect would pass too."


def test_the_rule_of_the_prior_counts_the_temperature():
    kernel = chosen_kernel(parsed("--kernel hmc --trajectory-prior-variance 0.2"))
    assert make_kernel(bnn.cold(MODEL, 0.25), kernel).trajectory_length == pytest.approx(
        bnn.kernels.izmailov_trajectory(0.2, 0.25)
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_help_tells_the_defaults_of_the_classes(kernel):
    parameters = {}
    for this in reversed(class_of(kernel).__mro__[:-1]):  # `**common` are those of its bases
        parameters |= inspect.signature(this.__init__).parameters
    for name, argument in KERNELS[kernel].takes.items():
        assert argument in parameters
        default, shown = parameters[argument].default, OPTIONS[name].shown
        if name in KERNELS[kernel].needs:
            assert default in (inspect.Parameter.empty, None) and "none" in shown
        elif name in ("step_size", "target_accept"):
            assert f"{kernel} {default:g}" in shown
        elif name == "steps_per_draw":
            assert f"{kernel} {default}" in shown or f"others {default}" in shown
        elif name == "jitter":
            assert f"{kernel} {default:g}" in shown
        elif name == "energy_variance_end":
            assert shown == f"{default:g}, or 0.01 for --method mile"
        elif name == "temperatures":
            assert shown == ",".join(f"{value:g}" for value in default)
        elif name in ("max_tree_depth", "preconditioning", "minibatches", "integrator"):
            assert shown == str(default)
        elif name == "num_steps" and kernel == "parallel-tempering":
            assert f"{kernel} {default}" in shown
        elif name == "mass" and kernel == "chees":
            assert default == "diagonal" and shown.startswith("diagonal")


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_another_kernel_are_refused(name):
    values = {
        "temperatures": "1,2",
        "mass": "diagonal",
        "preconditioning": "diagonal",
        "minibatches": "epoch",
        "integrator": "OBABO",
        "adapt_step_size": "no",
        "preconditioner": "rmsprop",
        "final_step_size": "0.5 --schedule burn-in",
        "schedule": "cyclical",
        "steps_per_cycle": "2 --schedule cyclical",
    }
    flag = f"--{name.replace('_', '-')}"
    having = [kernel for kernel, this in KERNELS.items() if name in this.takes]
    assert having
    for kernel in KERNELS:
        options = parsed(
            f"--kernel {kernel}{needed(kernel)} {flag} {values.get(name, '0.5')}".replace(
                "0.5", "1" if OPTIONS[name].metavar in "NDB" else "0.5"
            )
        )
        if kernel in having:
            check_kernel(options)
            continue
        with pytest.raises(
            ValueError, match=f"The kernel {kernel} has no option {flag}; "
        ) as error:
            check_kernel(options)
        assert all(name in str(error.value) for name in having)


@pytest.mark.parametrize("kernel", ["sgld", "sghmc", "langevin", "sgnht"])
def test_what_a_kernel_needs_must_be_given(kernel):
    with pytest.raises(ValueError, match=f"{kernel} needs --step-size and --batch-size: .*auto"):
        check_kernel(parsed(f"--kernel {kernel}"))
    with pytest.raises(ValueError, match=f"{kernel} needs --batch-size."):
        check_kernel(parsed(f"--kernel {kernel} --step-size 1e-4"))


def test_only_kernels_that_do_not_adapt_look_for_their_step():
    with pytest.raises(ValueError, match="kernel hmc adapts the step size by itself"):
        check_kernel(parsed("--kernel hmc --step-size auto"))
    with pytest.raises(SystemExit):
        parsed("--kernel sgld --step-size automatic")


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
    line = "sample linear --kernel sghmc --step-size auto --batch-size 199 --steps-per-draw 5"
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


def test_runs_of_before_go_on_with_the_kernels_of_then():
    """Their `run.json` holds options, and hmc was that of NumPyro."""
    old = {"kernel": "hmc", "step_size": None, "target_accept": None, "max_tree_depth": None}
    steps = make_kernel(MODEL, {**old, "trajectory_length": None, "num_steps": 3})
    expected = numpyro.infer.HMC(MODEL, num_steps=3, trajectory_length=None)
    assert type(steps) is numpyro.infer.HMC and identity_key(steps) == identity_key(expected)
    length = make_kernel(MODEL, {**old, "trajectory_length": 2.0})
    assert identity_key(length) == identity_key(numpyro.infer.HMC(MODEL, trajectory_length=2.0))
    nuts = make_kernel(MODEL, {"kernel": "nuts", "target_accept": 0.9})
    expected = numpyro.infer.NUTS(MODEL, target_accept_prob=0.9)
    assert identity_key(nuts) == identity_key(expected) != identity_key(numpyro.infer.NUTS(MODEL))
