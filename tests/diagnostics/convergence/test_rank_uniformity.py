import numpy as np
import pytest
from scipy import stats

from bayesnn_ppl.diagnostics.convergence.rank_uniformity import (
    ecdf_band,
    holm,
    rank_test,
    smallest_effects,
)

DRAWS = 31


def ranks(generator, replications, *, shift=0.0, spread=1.0):
    """Ranks of N(0, 1) among draws of N(shift, spread²)."""
    truth = generator.normal(size=(replications, 1))
    return (shift + spread * generator.normal(size=(replications, DRAWS)) < truth).sum(axis=1)


def test_uniform_ranks_are_called_out_as_often_as_the_level_says():
    generator = np.random.default_rng(0)
    tests = [rank_test(generator.integers(0, DRAWS + 1, 200), DRAWS) for _ in range(1500)]
    for name in ("moments", "chi_square", "ecdf"):
        p = np.array([getattr(t, name) for t in tests])
        assert 0.03 < np.mean(p < 0.05) < 0.07, name
    assert np.mean([t.p_value < 0.05 for t in tests]) < 0.06


@pytest.mark.parametrize(("shift", "spread"), [(0.3, 1.0), (-0.3, 1.0), (0.0, 0.8), (0.0, 1.3)])
def test_shift_and_spread_of_normal_draws_are_found_with_their_size(shift, spread):
    found = rank_test(ranks(np.random.default_rng(1), 4000, shift=shift, spread=spread), DRAWS)
    assert found.p_value < 1e-4
    assert found.shift == pytest.approx(shift, abs=0.06)
    assert found.spread == pytest.approx(spread, abs=0.06)
    low, high = found.spread_range
    assert low < found.spread < high


def test_the_promised_effects_are_found_four_times_in_five():
    generator, level = np.random.default_rng(2), 0.001
    shift, spread = smallest_effects(200, DRAWS, level)
    for effect in ({"shift": shift}, {"spread": spread}):
        tests = [rank_test(ranks(generator, 200, **effect), DRAWS) for _ in range(200)]
        assert 0.65 < np.mean([t.p_value < level for t in tests]) < 0.95


def test_the_band_holds_all_of_the_distribution_function():
    z, lower, upper = ecdf_band(200, DRAWS, false_alarm=0.05)
    generator, outside = np.random.default_rng(3), 0
    for _ in range(2000):
        counts = np.bincount(generator.integers(0, DRAWS + 1, 200), minlength=DRAWS + 1)
        below = np.cumsum(counts)[:-1] / 200
        outside += bool(((below < lower) | (below > upper)).any())
    assert 0.03 < outside / 2000 < 0.07
    assert np.all((lower < z) & (z < upper))


def test_holm_keeps_one_budget():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    generator = np.random.default_rng(4)
    smallest = [holm(generator.uniform(size=8)).min() for _ in range(2000)]
    assert stats.binomtest(sum(p < 0.05 for p in smallest), 2000, 0.05).pvalue > 1e-3


def test_ranks_outside_their_range_are_refused():
    with pytest.raises(ValueError, match="lies between 0 and 31, but `ranks` go from 3 to 40"):
        rank_test([3, 40], DRAWS)
    with pytest.raises(ValueError, match="two or more integers"):
        rank_test([0.5, 0.7], DRAWS)
