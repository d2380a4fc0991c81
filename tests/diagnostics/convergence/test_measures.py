"""The vectorised convergence measures against ArviZ, variable by variable, and known values."""

import arviz as az
import numpy as np
import pytest
import xarray as xr
import zarr
from scipy.signal import lfilter

import bayesnn_ppl.diagnostics.convergence.measures as module
from bayesnn_ppl.diagnostics import (
    convergence_by_block,
    convergence_summary,
    ebfmi,
    ess_bulk,
    ess_tail,
    mcse_mean,
    rhat,
)


def autoregressive(rng, coefficient, shape):
    noise = rng.normal(size=shape)
    return lfilter([1.0], [1.0, -coefficient], noise, axis=1)


def cases():
    rng = np.random.default_rng(7)
    shifted = rng.normal(size=(4, 120, 3))
    shifted[2] += 3.0
    wide = rng.normal(size=(4, 120, 3))
    wide[1] *= 4.0
    half_stuck = rng.normal(size=(4, 120, 2))
    half_stuck[0, 60:] = half_stuck[0, 60]
    return {
        "iid": rng.normal(size=(4, 200, 5)),
        "autoregressive": autoregressive(rng, 0.9, (4, 300, 5)),
        "nearly a random walk": autoregressive(rng, 0.999, (3, 250, 4)),
        "antithetic": autoregressive(rng, -0.9, (4, 300, 5)),
        "shifted chain": shifted,
        "wide chain": wide,
        "half stuck": half_stuck,
        "odd draws": rng.normal(size=(3, 101, 4)),
        "single chain": autoregressive(rng, 0.5, (1, 150, 4)),
        "two points": (rng.random((4, 100, 4)) < 0.3).astype(float),
        "rounded": np.round(rng.normal(size=(4, 150, 4)), 1),
        "counts, odd": rng.poisson(1.5, size=(4, 77, 4)),
        "float32": rng.normal(size=(4, 100, 4)).astype(np.float32),
        "heavy tails": rng.standard_cauchy(size=(4, 200, 4)),
        "large offset": 1e6 + rng.normal(size=(4, 100, 3)),
        "4 draws": rng.normal(size=(4, 4, 6)),
        "5 draws": rng.normal(size=(4, 5, 6)),
        "6 draws": rng.normal(size=(2, 6, 6)),
        "7 draws": rng.normal(size=(2, 7, 6)),
        "9 draws": autoregressive(rng, 0.9, (2, 9, 6)),
        "matrix of variables": rng.normal(size=(2, 60, 3, 2)),
    }


def by_arviz(draws):
    def each(function, **options):
        flat = draws.reshape(*draws.shape[:2], -1)
        values = [function(flat[:, :, i], **options) for i in range(flat.shape[2])]
        return np.reshape(values, draws.shape[2:])

    return {
        "rhat": each(az.rhat, method="rank") if draws.shape[0] > 1 else None,
        "ess_bulk": each(az.ess, method="bulk"),
        "ess_tail": each(az.ess, method="tail", prob=(0.05, 0.95)),
        "mcse_mean": each(az.mcse, method="mean"),
    }


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("block", [1, 2**17])
def test_equals_arviz(name, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    draws = cases()[name]
    expected, found = by_arviz(draws), convergence_summary(draws)
    for field in ("ess_bulk", "ess_tail", "mcse_mean"):
        np.testing.assert_allclose(
            getattr(found, field), expected[field], rtol=1e-6, err_msg=f"{name}: {field}"
        )
    if expected["rhat"] is None:
        assert np.isnan(found.rhat).all()
    else:
        np.testing.assert_allclose(found.rhat, expected["rhat"], rtol=1e-6, err_msg=name)
        assert np.isfinite(found.rhat).all()
    wide = draws.astype(float)
    np.testing.assert_allclose(found.mean, wide.mean(axis=(0, 1)), rtol=1e-9)
    np.testing.assert_allclose(found.sd, wide.std(axis=(0, 1), ddof=1), rtol=1e-9)


def test_tells_a_wrong_definition_apart():
    """Negative control: the plain split R-hat and the mean's ESS differ by far more than 1e-6."""
    draws = cases()["heavy tails"]
    plain = [az.rhat(draws[..., i], method="split") for i in range(4)]
    raw = [az.ess(draws[..., i], method="mean") for i in range(4)]
    assert np.max(np.abs(rhat(draws) / plain - 1)) > 1e-3
    assert np.max(np.abs(ess_bulk(draws) / raw - 1)) > 1e-2


def test_effective_sample_size_of_a_known_process():
    """AR(1) with coefficient a has ESS = S (1 - a) / (1 + a)."""
    draws = autoregressive(np.random.default_rng(3), 0.6, (4, 4000, 20))
    assert np.median(ess_bulk(draws)) == pytest.approx(4 * 4000 * 0.4 / 1.6, rel=0.08)
    assert np.max(rhat(draws)) < 1.01


def test_constant():
    """0.1 is not a binary fraction, so its mean and variance carry rounding."""
    found = convergence_summary(np.full((4, 51, 2), 0.1))
    assert np.isnan(found.rhat).all()
    np.testing.assert_array_equal(found.ess_bulk, 200.0)
    np.testing.assert_array_equal(found.ess_tail, 200.0)
    np.testing.assert_array_equal(found.sd, 0.0)
    np.testing.assert_array_equal(found.mcse_mean, 0.0)
    np.testing.assert_array_equal(found.mean, 0.1)


def test_chains_frozen_at_different_places_have_infinite_rhat():
    draws = np.broadcast_to(np.array([0.1, 0.2, 0.3, 0.7])[:, None], (4, 50))
    assert rhat(draws) == np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_draws_spoil_their_own_variable_only(bad):
    draws = np.random.default_rng(0).normal(size=(4, 60, 5))
    clean = convergence_summary(draws)
    draws[1, 7, 3] = bad
    found = convergence_summary(draws)
    for field in found._fields:
        spoiled, before = getattr(found, field), getattr(clean, field)
        assert np.isnan(spoiled[3])
        np.testing.assert_array_equal(np.delete(spoiled, 3), np.delete(before, 3))


def test_fewer_than_four_draws_are_nan():
    found = convergence_summary(np.random.default_rng(0).normal(size=(4, 3, 2)))
    assert all(np.isnan(field).all() for field in found)


def test_shapes():
    assert np.shape(rhat(np.random.default_rng(0).normal(size=(2, 10)))) == ()
    assert rhat(np.zeros((2, 10, 0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match=r"leading axes \(chain, draw\)"):
        rhat(np.zeros(10))
    with pytest.raises(TypeError, match="complex128"):
        rhat(np.zeros((2, 10), dtype=complex))


@pytest.mark.parametrize("measure", [rhat, ess_bulk, ess_tail, mcse_mean, convergence_summary])
def test_chains_of_unlike_lengths_are_told_and_cut(measure):
    whole = np.random.default_rng(0).normal(size=(3, 60, 2))
    chains = [whole[0], whole[1, :41], whole[2]]
    ragged = np.empty(3, dtype=object)
    ragged[:] = chains
    sentence = (
        r"different numbers of draws, 60, 41, 60, .*shortest: \[chain\[:41\] for chain in draws"
    )
    for given in (chains, tuple(chains), ragged, [chain[:, 0].tolist() for chain in chains]):
        with pytest.raises(ValueError, match=sentence):
            measure(given)
    cut = measure([chain[:41] for chain in chains])
    np.testing.assert_array_equal(np.asarray(cut), np.asarray(measure(whole[:, :41])))
    with pytest.raises(ValueError, match="parts have different shapes"):
        measure([whole[0], whole[1, :, :1]])


def test_the_tails_are_those_of_arviz_with_given_probabilities():
    """`az.summary` takes them of a setting, by default 11 % and 89 %."""
    draws = autoregressive(np.random.default_rng(3), 0.8, (4, 500))
    tree = az.from_dict({"posterior": {"x": draws}})
    ours = ess_tail(draws)
    given = az.ess(tree, method="tail", prob=(0.05, 0.95))["x"].item()
    assert ours == pytest.approx(given, rel=1e-6)

    def shown():
        return az.summary(tree, round_to="none")["ess_tail"].item()

    usual = az.ess(tree, method="tail", prob=(0.11, 0.89))["x"].item()
    assert shown() == pytest.approx(usual) and abs(shown() / ours - 1) > 1e-3
    with az.rc_context({"stats.ci_prob": 0.95}):
        assert shown() == pytest.approx(ours, rel=1e-6)


def test_ebfmi():
    rng = np.random.default_rng(1)
    energy = autoregressive(rng, 0.5, (4, 100))
    np.testing.assert_allclose(ebfmi(energy), az.bfmi(energy), rtol=1e-9)
    independent = ebfmi(rng.normal(size=(4, 4000)))
    np.testing.assert_allclose(independent, 2.0, rtol=0.1)
    assert (ebfmi(autoregressive(rng, 0.98, (4, 4000))) < 0.3).all()
    energy[2, 5] = np.nan
    assert np.isnan(ebfmi(energy)).tolist() == [False, False, True, False]
    assert np.isnan(ebfmi(np.ones((2, 50)))).all()
    with pytest.raises(ValueError, match="chain, draw"):
        ebfmi(energy[0])
    with pytest.raises(ValueError, match="chains of `energy` have different numbers"):
        ebfmi([energy[0, :9], energy[1, :8]])


class Counting:
    """An array that is read by slices only, and counts the bytes of its largest slice."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.largest = self.reads = 0

    def __getitem__(self, index):
        part = self.values[index]
        self.reads += 1
        self.largest = max(self.largest, part.nbytes)
        return part


@pytest.mark.parametrize("trailing", [(), (37,), (5, 7), (2, 1, 3, 6), (0, 4), (3, 1)])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("memory", [1, 30_000, 2**28])
def test_by_block_equals_the_summary_of_the_whole(trailing, workers, memory):
    draws = np.random.default_rng(0).normal(size=(4, 100, *trailing)).astype(np.float32)
    draws[0] += 0.3
    source = Counting(draws)
    found, whole = (
        convergence_by_block(source, memory=memory, workers=workers),
        convergence_summary(draws),
    )
    for field in whole._fields:
        assert np.shape(getattr(found, field)) == trailing
        np.testing.assert_array_equal(getattr(found, field), getattr(whole, field))
    single = 4 * 100 * 4
    assert source.largest <= max(single, memory // workers)
    if memory == 2**28 and draws.size:
        assert source.reads == 1
    if memory == 30_000 and workers == 1:
        # 18 variables fit: a (2, 1, 3, 6) array is read by halves and not by 36 columns.
        assert source.reads == {(37,): 3, (5, 7): 3, (2, 1, 3, 6): 2}.get(trailing, source.reads)


def test_by_block_reads_files(tmp_path):
    draws = np.random.default_rng(1).normal(size=(3, 60, 11, 2))
    whole = convergence_summary(draws)
    on_disk = np.lib.format.open_memmap(
        tmp_path / "draws.npy", mode="w+", dtype=draws.dtype, shape=draws.shape
    )
    on_disk[:] = draws
    store = zarr.create_array(
        str(tmp_path / "draws.zarr"), shape=draws.shape, dtype=draws.dtype, chunks=(3, 25, 11, 2)
    )
    store[:] = draws
    xr.Dataset({"w": (["chain", "draw", "a", "b"], draws)}).to_zarr(
        tmp_path / "tree.zarr", consolidated=False
    )
    with xr.open_zarr(tmp_path / "tree.zarr", chunks=None, consolidated=False) as opened:
        for source in (on_disk, store, opened["w"]):
            for workers in (1, 2):
                found = convergence_by_block(source, memory=8 * 180 * 5, workers=workers)
                for ours, expected in zip(found, whole, strict=True):
                    np.testing.assert_array_equal(ours, expected)


def test_by_block_refuses_before_reading():
    source = Counting(np.zeros((2, 10, 3)))
    for option in ("memory", "workers"):
        with pytest.raises(ValueError, match=f"`{option}` is 0"):
            convergence_by_block(source, **{option: 0})
    with pytest.raises(TypeError, match="is a list, but must have `shape`"):
        convergence_by_block([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"shape \(10,\).*\(chain, draw\)"):
        convergence_by_block(np.zeros(10))
    assert source.reads == 0
    with pytest.raises(TypeError, match="complex128"):
        convergence_by_block(np.zeros((2, 10, 3), dtype=complex), workers=2)
    assert all(np.isnan(field).all() for field in convergence_by_block(np.zeros((2, 3, 5))))
