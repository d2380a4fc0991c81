"""Kernels run cycles: draws come at their ends, and csgmcmc's settings are accepted as they are."""

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.schedules.simple import Cyclical, Delayed

MODEL = bnn.models.mlp(hidden=(4,), likelihood=bnn.likelihoods.gaussian(0.5))


def run(kernel, regression, draws):
    return bnn.sample(
        kernel, *regression, warmup=0, draws=draws, chains=2, seed=0, progress=False
    ).statistics


def test_draws_come_at_the_end_of_a_cycle(regression):
    """Of each draw the statistics hold the step size of its last step, and its number of steps."""
    cycle = Cyclical(1e-3, steps_per_cycle=20)
    kernel = SGLD(
        MODEL,
        step_size=cycle,
        noise=cycle.noise_at_end(0.5),
        batch_size=10,
        steps_per_draw=cycle.draws(3, apart=4),
    )
    statistics = run(kernel, regression, draws=6)
    steps = np.asarray(cycle(np.array([11, 15, 19, 31, 35, 39])))
    np.testing.assert_allclose(statistics["step_size"], np.tile(steps, (2, 1)), rtol=1e-6)
    assert statistics["step_size"][0, 2] < 1e-4 * cycle.peak
    np.testing.assert_array_equal(statistics["n_steps"], [[12, 4, 4, 12, 4, 4]] * 2)


def test_a_delay_is_of_whole_cycles(regression):
    """Draws of a cycle count from step 0, so those of a delayed one would be in its middle."""
    cycle = Cyclical(1e-3, steps_per_cycle=20)

    def kernel(delay, steps_per_draw):
        noise = Delayed(cycle.noise_at_end(0.5), delay)
        delayed = Delayed(cycle, delay)
        return SGLD(
            MODEL, step_size=delayed, noise=noise, batch_size=10, steps_per_draw=steps_per_draw
        )

    for draws in (cycle.draws(3, apart=4), cycle.draws()):
        with pytest.raises(ValueError, match="SGLD is delayed by 50 steps.* come 10 steps after"):
            kernel(50, draws)
    statistics = run(kernel(40, cycle.draws(3, apart=4)), regression, draws=9)
    assert (statistics["step_size"][:, 8] < 1e-4 * cycle.peak).all()
    np.testing.assert_allclose(statistics["step_size"][:, :6], cycle.peak)
    assert kernel(50, 5).steps_per_draw == 5  # no draws of a cycle, so no place in it


def test_a_run_cut_within_a_cycle_resumes_bit_for_bit(regression, tmp_path):
    """A cycle has three draws of unequal length; the run is cut after the first of a cycle."""
    cycle = Cyclical(1e-3, steps_per_cycle=20)
    kernel = SGLD(
        MODEL,
        step_size=cycle,
        noise=cycle.noise_at_end(0.5),
        batch_size=10,
        steps_per_draw=cycle.draws(3, apart=4),
    )
    settings = dict(warmup=0, chains=2, seed=0, progress=False)
    whole = bnn.sample(kernel, *regression, draws=303, **settings)
    cut = bnn.sample(
        kernel,
        *regression,
        draws=303,
        out=tmp_path / "run",
        callback=lambda progress: progress.done % 3 == 1,
        **settings,
    )
    assert 0 < cut.provenance["draws"] < 303 and cut.provenance["draws"] % 3 == 1
    assert cut.statistics["n_steps"][0, -1] == 12
    resumed = bnn.resume(tmp_path / "run", kernel, *regression, progress=False)
    assert resumed.statistics["n_steps"].shape == (2, 303)
    for name in ("n_steps", "step_size"):
        np.testing.assert_array_equal(resumed.statistics[name], whole.statistics[name])
    for name, values in whole.draws.items():
        np.testing.assert_array_equal(resumed.draws[name], values)
    # Draws of equal length are another kernel.
    other = SGLD(MODEL, step_size=cycle, noise=cycle.noise_at_end(0.5), batch_size=10)
    with pytest.raises(ValueError, match="made with other settings of the kernel"):
        bnn.resume(tmp_path / "run", other, *regression)


def test_a_delayed_schedule_stays_and_then_begins():
    cycle = Cyclical(1e-3, steps_per_cycle=4, power=1)
    delayed = Delayed(cycle, 3)
    values = [float(delayed(step)) for step in range(9)]
    expected = [1e-3] * 3 + [float(cycle(step)) for step in range(6)]
    np.testing.assert_allclose(values, expected)
    assert values[5] < values[4] < values[3] and (delayed.reference, delayed.first) == (1e-3, 1e-3)
    with pytest.raises(TypeError, match="one of `schedules`"):
        Delayed(1e-3, 3)
    with pytest.raises(ValueError, match="at least 1"):
        Delayed(cycle, 0)
