"""The gallery's runs: of the right distribution, and packed as they are."""

import base64
import json
import re

import jax
import numpy as np
import pytest

from bayesnn_ppl.report.gallery import gallery_page
from bayesnn_ppl.report.gallery.running import SAMPLERS, run
from bayesnn_ppl.report.gallery.targets import REACH, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_targets_lie_within_the_picture(name):
    along = np.linspace(-3 * REACH, 3 * REACH, 400)
    a, b = np.meshgrid(along, along)
    values = np.asarray(jax.vmap(TARGETS[name])(a.ravel(), b.ravel()), np.float64)
    mass = np.exp(values - values.max())
    inside = (np.abs(a) <= REACH).ravel() & (np.abs(b) <= REACH).ravel()
    assert mass[inside].sum() / mass.sum() > 0.95


@pytest.mark.parametrize("temperature", [0.25, 1.0])
def test_hmc_draws_from_the_tempered_target(temperature):
    found = run("standard", "HMC", 0.3, temperature, 1000, 0)
    assert found.draws.var(axis=(0, 1)) == pytest.approx([temperature] * 2, rel=0.15)
    assert found.configurational.mean() == pytest.approx(temperature, rel=0.15)
    assert found.rhat[-1] < 1.05 and found.ess[-1] > 300 and found.accepted > 0.8
    other = 0.25 if temperature == 1.0 else 1.0
    assert found.configurational.mean() != pytest.approx(other, rel=0.15)


def test_minibatch_noise_heats_sghmc_where_the_step_is_long():
    short, long = (run("standard", "SGHMC", step, 1.0, 1000, 0) for step in (0.1, 0.3))
    assert short.configurational.mean() == pytest.approx(1.0, rel=0.15)
    assert long.kinetic.mean() > short.kinetic.mean()


def test_a_run_whose_chains_all_stop_is_shown_to_its_end():
    found = run("banana", "SGHMC", 0.3, 0.25, 240, 0)
    assert found.draws.shape == (4, 240, 2) and found.kinetic.shape == (240,)
    assert (found.draws[:, 1:] == found.draws[:, :1]).all(), "it stops at its first draw"
    page = gallery_page(draws=240, targets=("banana",), samplers=("SGHMC",)).html
    assert '"banana/SGHMC/2/0"' in page


def test_the_page_holds_the_draws():
    page = gallery_page(draws=40, targets=("banana",), samplers=("HMC",))
    data = json.loads(re.search(r'id="runs">(.*?)</script>', page.html, re.DOTALL)[1])
    key = "banana/HMC/1/1"
    packed = data["runs"][key]
    draws = np.frombuffer(base64.b64decode(packed["draws"]), "<i2").reshape(*packed["shape"], 2)
    expected = run("banana", "HMC", SAMPLERS["HMC"].step, 1.0, 40, 0)
    assert draws / 32767 * data["span"] == pytest.approx(expected.draws, abs=1e-3)
    assert packed["rhat"][-1] == pytest.approx(expected.rhat[-1], abs=1e-3)


def test_what_is_refused():
    with pytest.raises(ValueError, match="`bananas` is unknown. Known are: standard"):
        gallery_page(targets=("bananas",))
    with pytest.raises(ValueError, match="`draws` of the gallery"):
        gallery_page(draws=3)
