"""The gallery's targets and runs: of the right distribution, and packed as they are."""

import functools
import json
import re

import jax
import numpy as np
import pytest

from bayesnn_ppl.report.gallery import gallery_page
from bayesnn_ppl.report.gallery.packing import (
    PER_UNIT,
    UNKNOWN,
    as_numbers,
    packed_arrays,
    unpacked,
)
from bayesnn_ppl.report.gallery.results import STARTS
from bayesnn_ppl.report.gallery.running import FACTORS, TEMPERATURES, run_all
from bayesnn_ppl.report.gallery.samplers import SAMPLERS
from bayesnn_ppl.report.gallery.targets import REACH, TARGETS, marginals

ALL = tuple(TARGETS)
EXACT = [name for name, sampler in SAMPLERS.items() if sampler.exact]
TREES = [name for name in EXACT if SAMPLERS[name].tree]
# One that compiles quickly everywhere; the others where checks are wanted.
QUICK = ("HMC", "random walk")


def samplers(names):
    """A table of samplers, of which the slower ones are checks."""
    return [pytest.param(n, marks=[] if n in QUICK else pytest.mark.check) for n in names]


@functools.cache
def runs_of(name):
    return run_all(name, ALL, 240, 0)


def before(draws):
    """Where each draw of the first chain began."""
    starts = np.broadcast_to(STARTS[0], draws[..., :1, :].shape)
    return np.concatenate([starts, draws[..., :-1, :]], axis=-2)


@pytest.mark.parametrize("name", TARGETS)
def test_targets_lie_within_the_picture(name):
    along = np.linspace(-3 * REACH, 3 * REACH, 400)
    a, b = np.meshgrid(along, along)
    values = np.asarray(jax.vmap(TARGETS[name])(a.ravel(), b.ravel()), np.float64)
    mass = np.exp(values - values.max())
    inside = (np.abs(a) <= REACH).ravel() & (np.abs(b) <= REACH).ravel()
    assert mass[inside].sum() / mass.sum() > 0.95


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_exact_marginals_are_those_of_closed_form(temperature):
    root = np.sqrt(temperature)
    for name in ("standard", "correlated"):
        found = marginals(name, temperature)
        assert found.mean == pytest.approx([0, 0], abs=1e-3)
        assert found.sd == pytest.approx([root, root], rel=1e-3)
        normal = np.exp(-0.5 / temperature) / np.sqrt(2 * np.pi * temperature)
        assert found.at(np.array([1.0])) == pytest.approx(np.full((2, 1), normal), rel=1e-3)
    # b = a² - 1 + noise, with a ~ N(0, T) and noise ~ N(0, T/4).
    found = marginals("banana", temperature)
    variances = [temperature, 2 * temperature**2 + temperature / 4]
    assert found.mean == pytest.approx([0, temperature - 1], abs=1e-3)
    assert found.sd**2 == pytest.approx(variances, rel=2e-3)
    assert marginals("funnel", 1.0).sd[1] == pytest.approx(1.5, rel=2e-3)


def misses(runs, temperature_of):
    """Runs of the middle step whose moments are not those of a temperature, and all that count.

    A run counts where it has converged; then mean and standard deviation have known errors. The
    heavy tails of the funnel's first coordinate are left out.
    """
    wrong, counted = [], []
    for i, target in enumerate(ALL):
        for j, temperature in enumerate(TEMPERATURES):
            ess = runs.ess[i, 1, j, -1]
            if not (ess > 100 and runs.rhat[i, 1, j, -1] < 1.05):
                continue
            counted.append((target, temperature))
            exact = marginals(target, temperature_of(temperature))
            draws = runs.draws[i, 1, j].reshape(-1, 2).astype(np.float64)
            kept = slice(1, 2) if target == "funnel" else slice(0, 2)
            # Of squares there are fewer effective draws than of values that alternate.
            error = 1 / np.sqrt(min(ess, len(draws) / 4))
            mean = np.abs(draws.mean(0) - exact.mean) / exact.sd
            spread = np.abs(draws.std(0) / exact.sd - 1)
            if (mean > 5 * error)[kept].any() or (spread > 4 * error)[kept].any():
                wrong.append((target, temperature))
    return wrong, counted


@pytest.mark.parametrize("name", samplers(EXACT))
def test_exact_samplers_draw_from_the_exact_marginals(name):
    wrong, counted = misses(runs_of(name), lambda temperature: temperature)
    assert wrong == [] and len(counted) >= {"HMC": 8, "NUTS": 8, "WALNUTS": 8}.get(name, 1)


def test_another_temperature_would_be_seen():
    wrong, counted = misses(runs_of("HMC"), lambda temperature: 4 * temperature)
    # A ring and two modes are wide at every temperature.
    plain = [run for run in counted if run[0] not in ("donut", "two modes")]
    assert len(plain) >= 6 and set(plain) <= set(wrong)


@pytest.mark.parametrize("name", samplers([n for n in EXACT if n not in TREES]))
def test_paths_end_at_the_proposal(name):
    runs = runs_of(name)
    draws = runs.draws[..., 0, :, :]
    place = (runs.counts - 1)[..., None, None]
    ends = np.take_along_axis(runs.points, place, axis=-2)[..., 0, :]
    away = np.abs(ends - draws).max(-1)
    assert away[runs.moved].max() < 0.01, "an accepted proposal is the draw"
    assert (before(draws)[~runs.moved] == draws[~runs.moved]).all()
    # Paths that leave the picture may overflow, and are no number at their end.
    near = away[~runs.moved] <= 0.01
    assert near.mean() < 0.05, "a rejected one lies elsewhere"
    # The share of accepted moves of the first chain is the mean acceptance of all.
    easy = runs.moved.mean(-1)[:, 1, 1], runs.accepted[:, 1, 1, -1]
    assert easy[0] == pytest.approx(easy[1], abs=0.2)


@pytest.mark.check
@pytest.mark.parametrize("name", TREES)
def test_draws_are_points_of_their_tree(name):
    runs = runs_of(name)
    draws = runs.draws[..., 0, :, :]
    made = np.arange(runs.points.shape[-2]) < runs.counts[..., None]
    leaves = np.where(made[..., None], runs.points, np.inf)
    leaves = np.concatenate([leaves, before(draws)[..., None, :]], axis=-2)

    def distance(of):
        return np.abs(leaves - of[..., None, :]).max(-1).min(-1)

    assert distance(draws).max() < 0.01
    assert (distance(np.roll(draws, 7, axis=-2)) > 0.01).mean() > 0.8, "those of another draw"


@pytest.mark.check
def test_minibatch_noise_is_that_of_eight_of_32_rows():
    for name in ("SGLD", "SGHMC"):
        runs = runs_of(name)
        at = ALL.index("standard"), 0, 1  # a short step at temperature 1
        assert runs.noise[at].std(0) == pytest.approx([1, 1], rel=0.2)
        assert runs.noise[at].mean(0) == pytest.approx([0, 0], abs=0.25)
        assert runs.gradient[at] == pytest.approx(before(runs.draws[at][0]), abs=1e-4)


@pytest.mark.check
def test_minibatch_noise_heats_sghmc_where_the_step_is_long():
    runs = runs_of("SGHMC")
    short, middle, long = runs.kinetic[ALL.index("standard"), :, 1, -1]
    assert short == pytest.approx(1.0, rel=0.15)
    assert long > 1.05 * short and long > middle


def test_chains_that_stop_are_shown_as_stopped():
    runs = run_all("SGHMC", ("banana",), 40, 0)
    coldest = 0, FACTORS.index(3.0), TEMPERATURES.index(0.25)
    made, draws = runs.made[coldest], runs.draws[coldest]
    assert (made < 40).all(), "all four stop, as issue 35 has it"
    for chain in range(4):
        last = STARTS[chain] if made[chain] == 0 else draws[chain, made[chain] - 1]
        assert (draws[chain, made[chain] :] == last).all() and np.isfinite(draws[chain]).all()
    assert (runs.counts[coldest][made[0] :] == 0).all(), "no path after the stop"
    assert np.isnan(runs.rhat[coldest][-1]) and np.isnan(runs.ess[coldest][-1])
    whole = 0, 0, TEMPERATURES.index(1.0)
    assert (runs.made[whole] == 40).all() and np.isfinite(runs.rhat[whole][-1])
    page = gallery_page(draws=40, targets=("banana",), samplers=("SGHMC",)).html
    data = json.loads(re.search(r'id="runs">(.*?)</script>', page, re.DOTALL)[1])
    packed = unpacked(data["samplers"]["SGHMC"]["runs"])
    assert (packed["made"] == runs.made).all()


def test_the_page_holds_the_draws():
    page = gallery_page(draws=40, targets=("banana",), samplers=("HMC",)).html
    data = json.loads(re.search(r'id="runs">(.*?)</script>', page, re.DOTALL)[1])
    packed = unpacked(data["samplers"]["HMC"]["runs"])
    runs = run_all("HMC", ("banana",), 40, 0)
    draws = np.moveaxis(packed["draws"], -2, -1) / PER_UNIT
    assert draws == pytest.approx(runs.draws, abs=0.51 / PER_UNIT)
    made = np.arange(runs.points.shape[-2]) < runs.counts[..., None]
    expected = np.clip(runs.points[made].T, -254, 254)  # what 16 bits hold
    known = np.isfinite(expected)
    assert known.mean() > 0.8 and (packed["points"][~known] == UNKNOWN).all()
    found = packed["points"][known] / PER_UNIT
    assert found == pytest.approx(expected[known], abs=0.51 / PER_UNIT)
    rhat = np.minimum(runs.rhat[..., -1], 32.512)  # infinite where no chain has moved
    assert packed["rhat"][..., -1] / 1000 == pytest.approx(rhat, abs=1e-3)


def test_packed_numbers_are_read_as_they_were():
    noise = np.random.default_rng(0).integers(-32000, 32000, size=(3, 50)).astype(np.int16)
    unknown = as_numbers([[1.0, np.nan, 1e9, -1e9]], 100)
    arrays = {"a": (noise, 2), "b": (unknown, 1), "c": (np.arange(9, dtype=np.uint8), 0)}
    found = unpacked(packed_arrays(arrays))
    assert (found["a"] == noise).all() and (found["c"] == np.arange(9)).all()
    assert found["b"].tolist() == [[100, -32768, 32512, -32512]]


def test_what_is_refused():
    with pytest.raises(ValueError, match="`bananas` is unknown. Known are: banana"):
        gallery_page(targets=("bananas",))
    with pytest.raises(ValueError, match="`draws` of the gallery"):
        gallery_page(draws=3)
