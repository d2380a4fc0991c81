"""The toy of 25 modes: its density, how modes are counted, and that cycles find them."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from bayesnn_ppl.inference.kernels.common.density import Density
from benchmarks.gaussian_mixture import (
    CENTRES,
    EXACT,
    NO_DATA,
    VARIANCE,
    Rule,
    best,
    counts,
    cyclical,
    figures_of,
    mixture,
    positions,
)


def test_density():
    z = {"position": jnp.zeros(2)}
    density = Density.at(mixture, NO_DATA, {}, z)
    points = np.random.default_rng(0).uniform(-5, 5, (20, 2)).astype(np.float32)
    squares = ((points[:, None] - CENTRES) ** 2).sum(-1)
    expected = logsumexp(-squares / (2 * VARIANCE), axis=1)
    found = -np.array([density.potential(point) for point in points])
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-4)


def test_counts():
    points = np.array([[-4, -4.2], [4.1, 4.1], [4, 4], [1, 1], [0.2, 0.2], [9, 4.0]])
    found = counts(np.stack([points, points + 0.01]))
    assert found.shape == (2, 25)
    for row in found:
        assert row[0] == 1 and row[24] == 2 and row.sum() == 3


def test_exact_share_near_a_mode():
    """By drawing from the density, 40 000 times: standard error 0.0024."""
    generator = np.random.default_rng(0)
    draws = CENTRES[generator.integers(25, size=40_000)]
    draws = draws + VARIANCE**0.5 * generator.normal(size=draws.shape)
    assert abs(counts(draws).sum() / 40_000 - EXACT) < 0.01


def test_the_choice_of_a_step_size():
    def row(step_size, union, inside):
        return dict(step_size=step_size, union_of_4=[union], inside=inside)

    rows = [row(0.01, 3, 0.64), row(0.02, 5, 0.62), row(0.03, 5, 0.6), row(0.05, 25, 0.2)]
    assert best(rows) == 0.02
    assert best(rows, faithful=False) == 0.05
    with pytest.raises(ValueError, match="add smaller ones"):
        best(rows[3:])


def test_cycles_find_what_a_constant_step_does_not():
    """One union of four chains; 30 others found 23 modes or more, and 4 or fewer."""
    cycles = figures_of(positions(cyclical(0.065, 50_000), steps=50_000, chains=4, seed=0))
    constant = figures_of(positions(Rule(0.005), steps=50_000, chains=4, seed=0))
    assert cycles["union_of_4"][0] >= 18
    assert constant["union_of_4"][0] <= 8
    assert abs(cycles["inside"] - EXACT) < 0.07 and abs(constant["inside"] - EXACT) < 0.07
