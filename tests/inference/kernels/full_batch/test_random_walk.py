"""Random-walk Metropolis: its target, its adaptation, its refusals."""

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.full_batch.random_walk import RandomWalk
from tests.inference.kernels.known_moments import (
    LINEAR,
)


def test_adaptation_aims_at_the_target(regression):
    kernel = RandomWalk(LINEAR, step_size=30.0, target_accept=0.4)
    posterior = bnn.sample(kernel, *regression, warmup=800, draws=800, progress=False)
    assert abs(posterior.statistics["acceptance_rate"].mean() - 0.4) < 0.06


def test_a_draw_repeats_as_often_as_it_is_rejected(regression):
    kernel = RandomWalk(LINEAR, step_size=0.02, adapt_step_size=False)
    posterior = bnn.sample(kernel, *regression, warmup=100, draws=3000, progress=False)
    bias = posterior.draws["net.Dense_0.bias"][..., 0]
    repeated = (bias[:, 1:] == bias[:, :-1]).mean()
    rate = posterior.statistics["acceptance_rate"].mean()
    assert repeated == pytest.approx(1 - rate, abs=0.02)
    assert rate > 0.6, "nothing was adapted"
