"""Schedules and preconditioners of the command line, by way of `run.json`."""

import inspect
import json

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.core.identity import identity_key
from bayesnn_ppl.inference.kernels.stochastic_gradient.settings import StochasticGradientSettings
from bayesnn_ppl.settings.methods.kernels import chosen_kernel, make_kernel
from bayesnn_ppl.settings.methods.step_schedules import _STEPS_PER_DRAW
from tests.cli.conftest import sample_job

MODEL = bnn.models.linear()
PLAIN = "sghmc --step-size 1e-4 --batch-size 8 --warmup 3 "
SCHEDULES, RMSPROP = bnn.schedules, bnn.preconditioners.RMSProp
CASES = {
    "--schedule constant": {"step_size": 1e-4},
    "--schedule burn-in --steps-per-draw 5": {
        "step_size": SCHEDULES.CosineBurnIn(1e-4, 1e-4, 15),
        "steps_per_draw": 5,
    },
    "--schedule burn-in --final-step-size 1e-5": {
        "step_size": SCHEDULES.CosineBurnIn(1e-4, 1e-5, 300)
    },
    "--schedule cyclical": {
        "step_size": SCHEDULES.Delayed(SCHEDULES.Cyclical(1e-4, 100, power=2.0), 300)
    },
    "--schedule cyclical-step --steps-per-draw 5 --steps-per-cycle 20": {
        "step_size": SCHEDULES.Delayed(SCHEDULES.Cyclical(1e-4, 20, power=1.0), 15),
        "steps_per_draw": 5,
    },
    "--schedule cyclical --warmup 0": {"step_size": SCHEDULES.Cyclical(1e-4, 100)},
    "--preconditioner none": {"step_size": 1e-4},
    "--preconditioner rmsprop": {"step_size": 1e-4, "preconditioner": RMSPROP()},
    "--preconditioner gradient-noise": {
        "step_size": 1e-4,
        "preconditioner": bnn.preconditioners.GradientNoise(),
    },
    "--preconditioner rmsprop-plain --sub-batches 2": {
        "step_size": 1e-4,
        "preconditioner": RMSPROP(mode="plain"),
        "sub_batches": 2,
    },
}


def made(line):
    """The kernel of the words, by way of `run.json`."""
    job = sample_job(line)
    chosen = chosen_kernel(job.kernel, job.settings, warmup=job.run.warmup)
    return make_kernel(MODEL, json.loads(json.dumps(chosen)))


@pytest.mark.parametrize("line", CASES)
def test_words_reach_the_kernel(line):
    expected = bnn.kernels.SGHMC(MODEL, batch_size=8, **CASES[line])
    assert identity_key(made(PLAIN + line)) == identity_key(expected)


def test_the_default_length_of_a_draw_is_that_of_the_kernels():
    parameters = inspect.signature(StochasticGradientSettings.__init__).parameters
    assert parameters["steps_per_draw"].default == _STEPS_PER_DRAW


def test_hmc_may_keep_its_step():
    found = made("hmc --num-leapfrogs 3 --step-size 0.1 --no-adapt-step-size")
    expected = bnn.kernels.HMC(
        MODEL, step_size=0.1, num_leapfrogs=3, mass="diagonal", adapt_step_size=False
    )
    assert identity_key(found) == identity_key(expected)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--final-step-size 1e-5", "is where `--schedule burn-in` ends, and the schedule is const"),
        ("--steps-per-cycle 5 --schedule burn-in", "is the length of a cycle"),
        ("--schedule burn-in --warmup 0", "--warmup is 0"),
        ("--schedule cyclical --step-size auto", "looks for a step size that stays"),
    ],
)
def test_options_of_another_schedule_are_refused(line, sentence):
    with pytest.raises(ValueError, match=sentence):
        sample_job(PLAIN + line)
