"""The record of draws: equal where nothing changed, and told where something did."""

import pytest

from benchmarks.faults import same_draw_problems as problems
from benchmarks.faults import same_draws

pytestmark = pytest.mark.check


@pytest.fixture(scope="module")
def recorded():
    problem = problems.kernels()["ParallelTempering"]
    return {
        seed: same_draws.outcome(lambda seed=seed: problems.sampled(problem, draws=3, seed=seed))
        for seed in (3, 4)
    }


def test_another_seed_is_a_difference(recorded):
    """In float64 too, where the kernel's counts were of another type than at its start."""
    assert "error" not in recorded[3] and "statistic n_steps" in recorded[3]
    assert same_draws.differences({"a": recorded[3]}, {"a": recorded[3]}) == []
    (line,) = same_draws.differences({"a": recorded[3]}, {"a": recorded[4]})
    assert line.startswith("a, ") and "became" in line


def test_every_kernel_has_a_problem():
    assert problems.uncovered() == []
