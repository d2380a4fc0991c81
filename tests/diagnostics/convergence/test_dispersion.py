"""Whether starts lay wider than the posterior, on starts and draws of known distributions."""

import numpy as np
import pytest

from bayesnn_ppl.diagnostics.convergence.dispersion import dispersion_of_starts

CHAINS, DRAWS, ROWS = 4, 200, 30


def runs(spread, seed=0, rows=ROWS, chains=CHAINS):
    generator = np.random.default_rng(seed)
    starts = spread * generator.normal(size=(chains, rows))
    return starts, generator.normal(size=(chains, DRAWS, rows))


@pytest.mark.parametrize(
    ("spread", "status"),
    [(5.0, "overdispersed"), (1.0, "comparable"), (0.05, "underdispersed")],
)
def test_the_spread_of_the_starts_is_told(spread, status):
    found = dispersion_of_starts(*runs(spread))
    assert found.status == status
    assert found.ratios.shape == (ROWS,)
    assert found.median == pytest.approx(spread**2, rel=0.5)
    assert f"{found.median:.2g} times the posterior's" in found.sentence
    assert (found.share_wider > 0.9) == (status == "overdispersed")


def test_the_ratio_is_the_one_of_the_formula():
    starts = np.array([[0.0, 1.0], [2.0, 1.5]])
    draws = np.array([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 1.0], [2.0, 3.0]]])
    found = dispersion_of_starts(starts, draws)
    np.testing.assert_allclose(found.ratios, [2.0 / 2.0, 0.125 / 1.0])
    assert found.share_wider == 0.0


def test_starts_of_the_posterior_fall_outside_the_bounds_in_a_tenth_of_runs():
    def outside(spread):
        statuses = [dispersion_of_starts(*runs(spread, s, rows=1)).status for s in range(600)]
        return np.mean([status != "comparable" for status in statuses])

    # Standard error 0.012; with one output the distribution of the ratio is exact.
    assert 0.05 < outside(1.0) < 0.15
    # The negative control: starts of twice the standard deviation.
    assert outside(2.0) > 0.3


def test_outputs_that_say_nothing_are_left_out():
    starts, draws = runs(5.0)
    draws[:, :, 0] = 1.0  # no draw moves it
    draws[0, 0, 1] = np.nan
    starts[0, 2] = np.inf
    found = dispersion_of_starts(starts, draws)
    assert np.isnan(found.ratios[:3]).all() and not np.isnan(found.ratios[3:]).any()
    assert found.status == "overdispersed"


def test_nothing_to_judge_by_is_said():
    starts, draws = runs(1.0, chains=1)
    assert dispersion_of_starts(starts, draws).status == "not judged"
    starts, draws = runs(1.0)
    found = dispersion_of_starts(starts, np.zeros_like(draws))
    assert found.status == "not judged" and "no output has finite values" in found.sentence


@pytest.mark.parametrize(
    ("starts", "draws", "message"),
    [
        (np.zeros((4, 3)), np.zeros((4, 10, 5)), r"belong to starts of shape \(4, 5\)"),
        (np.zeros((3, 5)), np.zeros((4, 10, 5)), "the same chains and the same probe inputs"),
        (np.zeros((4, 5)), np.zeros((4, 0, 5)), "at least one draw"),
        (np.zeros((4, 0)), np.zeros((4, 10, 0)), "no function values"),
        (np.zeros(()), np.zeros(3), r"must have shape \(chain, ...\)"),
    ],
)
def test_arrays_that_do_not_belong_together(starts, draws, message):
    with pytest.raises(ValueError, match=message):
        dispersion_of_starts(starts, draws)
