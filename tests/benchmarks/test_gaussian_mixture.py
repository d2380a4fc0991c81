"""The toy of 25 modes: its density, how modes are counted, and that cycles find them."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from bayesnn_ppl.inference.kernels.common.density import Density
from benchmarks.accuracy.gaussian_mixture import (
    CENTRES,
    EXACT,
    NO_DATA,
    VARIANCE,
    Rule,
    cyclical,
    figures_of,
    mixture,
    positions,
)

pytestmark = pytest.mark.check


def test_density():
    z = {"position": jnp.zeros(2)}
    density = Density.at(mixture, NO_DATA, {}, z)
    points = np.random.default_rng(0).uniform(-5, 5, (20, 2)).astype(np.float32)
    squares = ((points[:, None] - CENTRES) ** 2).sum(-1)
    expected = logsumexp(-squares / (2 * VARIANCE), axis=1)
    found = -np.array([density.potential(point) for point in points])
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-4)


def test_cycles_find_what_a_constant_step_does_not():
    """One union of four chains; 30 others found 23 modes or more, and 4 or fewer."""
    cycles = figures_of(positions(cyclical(0.065, 50_000), steps=50_000, chains=4, seed=0))
    constant = figures_of(positions(Rule(0.005), steps=50_000, chains=4, seed=0))
    assert cycles["union_of_4"][0] >= 18
    assert constant["union_of_4"][0] <= 8
    assert abs(cycles["inside"] - EXACT) < 0.07 and abs(constant["inside"] - EXACT) < 0.07
