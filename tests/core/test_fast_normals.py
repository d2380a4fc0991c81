"""Hashed normals against the normal distribution, and against numbers that lack independence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesnn_ppl.core.fast_normals import hashed_bits, inverse_cdf, standard_normal

SIZE, STEPS, CHAINS = 3051, 400, 2
LIMIT = 5.2  # standard errors: one false alarm in five million, over some hundred comparisons


@pytest.fixture(scope="module")
def noise():
    """Normals as the kernels make them, (chain, step, element)."""
    seeds = jax.random.bits(jax.random.key(3), (CHAINS * STEPS, 2), jnp.uint32)
    make = jax.jit(jax.vmap(lambda seed: standard_normal(seed, SIZE, jnp.float32)))
    return np.asarray(make(seeds), np.float64).reshape(CHAINS, STEPS, SIZE)


def test_the_quantile_function():
    """The whole range of words, and both ends of it."""
    words = np.concatenate([np.arange(0, 2**31, 104_729), [1, 2, 3, 2**31 - 1]]).astype(np.uint32)
    size = np.asarray(inverse_cdf(words), np.float64)
    expected = -stats.norm.ppf((words + 0.5) / 2**32)
    np.testing.assert_allclose(size, expected, atol=5e-6)
    np.testing.assert_array_equal(inverse_cdf(words | np.uint32(2**31)), -inverse_cdf(words))


def test_distribution(noise):
    flat = noise.ravel()
    assert stats.kstest(flat[::2], "norm").pvalue > 1e-5
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        error = np.sqrt(variance / flat.size)
        assert abs(np.mean(flat**power) - expected) < LIMIT * error, f"moment {power}"
    for level in (3.0, 3.5, 4.0, 4.5):
        wanted = 2 * stats.norm.sf(level) * flat.size
        assert abs((np.abs(flat) > level).sum() - wanted) < LIMIT * np.sqrt(wanted) + 1
    # Every step and every element has the distribution too, not only all of them together.
    for axis in ((0, 1), (2,)):
        count = noise.size / np.prod([n for i, n in enumerate(noise.shape) if i not in axis])
        squares = (noise**2 - 1).sum(axis) / np.sqrt(2 * count)
        assert np.abs(squares).max() < LIMIT + 1


def correlations(noise):
    """Names and values, in standard errors, of correlations that must vanish."""
    chain, steps, size = noise.shape
    found = {}
    for lag in (1, 2, 3, 7, 8, 16, 64, 256, 1024):
        pairs = noise[..., lag:] * noise[..., :-lag]
        found[f"element {lag}"] = pairs.sum() / np.sqrt(pairs.size)
    for lag in (1, 2, 10):
        pairs = noise[:, lag:] * noise[:, :-lag]
        found[f"step {lag}"] = pairs.sum() / np.sqrt(pairs.size)
        shifted = noise[:, lag:, 1:] * noise[:, :-lag, :-1]
        found[f"step {lag}, element 1"] = shifted.sum() / np.sqrt(shifted.size)
        squares = (noise[:, lag:] ** 2 - 1) * (noise[:, :-lag] ** 2 - 1)
        found[f"squares, step {lag}"] = squares.sum() / np.sqrt(4 * squares.size)
    across = noise[0] * noise[1]
    found["chains"] = across.sum() / np.sqrt(across.size)
    return found


@pytest.mark.check
def test_independence(noise):
    far = {name: value for name, value in correlations(noise).items() if abs(value) > LIMIT}
    assert not far


@pytest.mark.check
def test_consecutive_seeds_and_streams_are_unrelated():
    """Seeds come from threefry; even counters in their place do not show."""
    count = np.arange(STEPS, dtype=np.uint32)
    make = jax.jit(jax.vmap(lambda seed: standard_normal(seed, SIZE, jnp.float32)))
    for seeds in (np.stack([count, 0 * count], 1), np.stack([0 * count, count], 1)):
        noise = np.asarray(make(seeds), np.float64).reshape(1, STEPS, SIZE)
        found = correlations(np.concatenate([noise, noise[:, ::-1]]))
        del found["chains"]  # the same twice, in another order
        assert max(map(abs, found.values())) < LIMIT * np.sqrt(2)
    seed = np.array([1, 2], np.uint32)
    one, two = (np.asarray(standard_normal(seed, SIZE, jnp.float32, k), float) for k in (0, 1))
    assert abs((one * two).sum()) < LIMIT * np.sqrt(SIZE)


@pytest.mark.check
def test_a_single_round_would_be_noticed():
    """The negative control: seeds that are only added to the counter shift one vector."""
    seeds = np.arange(STEPS, dtype=np.uint32)
    counter = np.arange(SIZE, dtype=np.uint32)
    words = np.asarray(hashed_bits(np.zeros(2, np.uint32), SIZE + STEPS))
    shifted = np.asarray(inverse_cdf(words[counter[None] + seeds[:, None]]), np.float64)
    found = correlations(np.stack([shifted, shifted]))
    assert max(map(abs, found.values())) > 100
