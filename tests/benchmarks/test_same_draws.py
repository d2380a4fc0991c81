"""The record of draws: equal where nothing changed, and told where something did."""

import numpy as np
import pytest

from benchmarks import same_draws


@pytest.fixture(scope="module")
def recorded():
    problem = same_draws.kernels()["ParallelTempering"]
    return {
        seed: same_draws.outcome(lambda seed=seed: same_draws.sampled(problem, draws=3, seed=seed))
        for seed in (3, 4)
    }


def test_another_seed_is_a_difference(recorded):
    """In float64 too, where the kernel's counts were of another type than at its start."""
    assert "error" not in recorded[3] and "statistic n_steps" in recorded[3]
    assert same_draws.differences({"a": recorded[3]}, {"a": recorded[3]}) == []
    (line,) = same_draws.differences({"a": recorded[3]}, {"a": recorded[4]})
    assert line.startswith("a, ") and "became" in line


def test_what_is_gone_or_fails_is_told():
    def fails():
        raise ValueError("no such kernel")

    assert same_draws.differences({"a": {"x": ["1", 0.0]}}, {}) == ["a: there is none any more"]
    outcome = same_draws.outcome(fails)
    assert outcome == {"error": "ValueError: no such kernel"}
    assert len(same_draws.differences({"a": {"x": ["1", 0.0]}}, {"a": outcome})) == 1


def test_one_bit_is_a_difference():
    array = np.ones(3)
    one, same, other = (
        same_draws.outcome(lambda a=a: {"x": a})
        for a in (array, array.copy(), np.nextafter(array, 2))
    )
    assert one == same and one["x"][0] != other["x"][0]


def test_a_kernel_without_a_problem_is_named(monkeypatch):
    assert same_draws.uncovered() == []
    known = same_draws.kernels()
    monkeypatch.setattr(
        same_draws,
        "kernels",
        lambda: {n: k for n, k in known.items() if n != "MALA" and n != "MALA fixed"},
    )
    assert same_draws.uncovered() == ["MALA"]
