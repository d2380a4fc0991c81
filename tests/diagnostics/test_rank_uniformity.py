"""Tests of uniform ranks: their false alarms, what they find, and the size that they report."""

import numpy as np
import pytest

from bayesnn_ppl.diagnostics.rank_uniformity import ecdf_band, holm, rank_test, smallest_effects


def ranks(seed, shift=0.0, spread=1.0, *, replications=200, draws=31):
    """Of N(0, 1) truths among draws of N(shift, spread²)."""
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=replications)
    drawn = shift + spread * generator.normal(size=(replications, draws))
    return (drawn < truth[:, None]).sum(axis=1)


@pytest.mark.parametrize("draws", [7, 31, 127])
def test_uniform_ranks_are_rarely_called_wrong(draws):
    generator = np.random.default_rng(0)
    found = [rank_test(generator.integers(0, draws + 1, 200), draws).p_value for _ in range(1000)]
    # Bonferroni over three tests: at most 5 %, within three binomial errors.
    assert np.mean(np.array(found) < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    assert np.mean(np.array(found) < 0.05) > 0.01, "a test that never fails says nothing"


@pytest.mark.parametrize(("shift", "spread"), [(0.3, 1.0), (-0.5, 1.0), (0.0, 0.75), (0.0, 1.4)])
def test_shift_and_spread_are_those_of_the_draws(shift, spread):
    found = rank_test(ranks(1, shift, spread, replications=4000), 31)
    assert found.p_value < 1e-6
    assert found.shift == pytest.approx(shift, abs=0.08)
    assert found.spread == pytest.approx(spread, abs=0.1)
    assert found.spread_range[0] < found.spread < found.spread_range[1]


def test_the_smallest_effects_are_found_with_the_probability_that_is_said():
    shift, spread = smallest_effects(200, 31, 0.001)
    power = [
        np.mean([rank_test(ranks(seed, *wrong), 31).p_value < 0.001 for seed in range(200)])
        for wrong in ((shift, 1.0), (0.0, spread))
    ]
    assert power == pytest.approx([0.8, 0.8], abs=0.12)


def test_the_band_holds_everywhere_together():
    z, lower, upper = ecdf_band(200, 31, false_alarm=0.05)
    left = 0
    for seed in range(1000):
        r = np.random.default_rng(seed).integers(0, 32, 200)
        share = np.array([(r < j).mean() for j in range(1, 32)])
        left += bool(((share < lower) | (share > upper)).any())
    assert z[0] == pytest.approx(1 / 32)
    assert 0.02 < left / 1000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9]) == pytest.approx([0.9])


def test_refusals():
    with pytest.raises(ValueError, match="two or more integers"):
        rank_test([0.5, 1.0], 3)
    with pytest.raises(ValueError, match="between 0 and 3"):
        rank_test([1, 4], 3)
