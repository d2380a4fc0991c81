"""Nested R-hat against ArviZ, variable by variable, and against what it is for."""

import arviz as az
import numpy as np
import pytest
from scipy.signal import lfilter

import bayesnn_ppl.diagnostics.convergence.measures as module
from bayesnn_ppl.diagnostics import nested_rhat, rhat


def cases():
    """Name -> (draws, superchains)."""
    rng = np.random.default_rng(5)
    apart = rng.normal(size=(12, 20, 3))
    apart[:3] += 1.0
    wide = rng.normal(size=(12, 20, 3))
    wide[4:8] *= 3.0
    slow = lfilter([1.0], [1.0, -0.9], rng.normal(size=(16, 40, 4)), axis=1)
    return {
        "stationary": (rng.normal(size=(16, 10, 5)), np.repeat(np.arange(4), 4)),
        "interleaved": (rng.normal(size=(16, 10, 5)), np.tile(np.arange(4), 4)),
        "shuffled": (slow, rng.permutation(np.repeat(np.arange(8), 2))),
        "one superchain apart": (apart, np.repeat(np.arange(4), 3)),
        "one superchain wide": (wide, np.repeat(np.arange(3), 4)),
        "one chain each": (rng.normal(size=(4, 50, 3)), np.arange(4)),
        "odd draws": (rng.normal(size=(6, 9, 3)), np.repeat(np.arange(2), 3)),
        "4 draws": (rng.normal(size=(8, 4, 3)), np.repeat(np.arange(2), 4)),
        "two points": ((rng.random((8, 30, 4)) < 0.3).astype(float), np.repeat(np.arange(4), 2)),
        "ties": (np.round(rng.normal(size=(8, 30, 4)), 1), np.repeat(np.arange(4), 2)),
        "float32": (rng.normal(size=(8, 30, 2, 2)).astype("f4"), np.repeat(np.arange(4), 2)),
    }


def by_arviz(draws, superchains, method="rank"):
    flat = draws.reshape(*draws.shape[:2], -1)
    values = [
        az.rhat_nested(flat[:, :, i], superchain_ids=superchains, method=method)
        for i in range(flat.shape[2])
    ]
    return np.reshape(values, draws.shape[2:])


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("block", [1, 2**17])
def test_equals_arviz(name, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    draws, superchains = cases()[name]
    found = nested_rhat(draws, superchains)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, by_arviz(draws, superchains), rtol=1e-6)


def test_tells_other_definitions_apart():
    """Negative control: without ranks, without folding, or with other superchains it differs."""
    draws, superchains = cases()["one superchain wide"]
    found = nested_rhat(draws, superchains)
    for method in ("split", "z_scale"):
        assert np.max(np.abs(found / by_arviz(draws, superchains, method) - 1)) > 1e-2
    assert np.max(np.abs(found / nested_rhat(draws, np.tile(np.arange(3), 4)) - 1)) > 1e-2


def test_many_short_chains_converge_where_single_chains_seem_not_to():
    """10 draws of a slow chain cannot tell where it is going; 64 such chains can."""
    noise = np.random.default_rng(0).normal(size=(256, 60, 40))
    draws = lfilter([1.0], [1.0, -0.9], noise, axis=1)[:, 50:]
    superchains = np.repeat(np.arange(4), 64)
    assert np.min(rhat(draws)) > 1.3
    assert np.max(nested_rhat(draws, superchains)) < 1.05
    # The negative control: superchains that remember where they started.
    remembered = draws + 3.0 * superchains[:, None, None]
    assert np.min(nested_rhat(remembered, superchains)) > 1.2


def test_constants_and_values_that_are_not_finite():
    draws = np.random.default_rng(0).normal(size=(8, 10, 4))
    superchains = np.repeat(np.arange(4), 2)
    clean = nested_rhat(draws, superchains)
    draws[3, 2, 1] = np.nan
    draws[0, 0, 2] = -np.inf
    draws[..., 3] = 0.1
    found = nested_rhat(draws, superchains)
    assert np.isnan(found).tolist() == [False, True, True, True]
    assert found[0] == clean[0]
    frozen = np.broadcast_to(0.1 * superchains[:, None], (8, 10))
    assert nested_rhat(frozen, superchains) == np.inf
    assert np.isnan(nested_rhat(draws[:, :3], superchains)).all()


def test_bad_arguments():
    draws = np.zeros((4, 10))
    with pytest.raises(ValueError, match=r"leading axes \(chain, draw\)"):
        nested_rhat(np.zeros(10), [0])
    with pytest.raises(TypeError, match="complex128.*real"):
        nested_rhat(draws.astype(complex), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="shape \\(3,\\), but the draws have 4 chains"):
        nested_rhat(draws, [0, 0, 1])
    with pytest.raises(ValueError, match="there are 1. Start the chains at two or more points"):
        nested_rhat(draws, [7, 7, 7, 7])
    with pytest.raises(ValueError, match="one size, but .* a: 3, b: 1. Leave out"):
        nested_rhat(draws, ["a", "a", "a", "b"])
