"""`bayesnn gallery` as the documentation types it: every combination, several seeds and lengths."""

import numpy as np
import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.report.gallery.packing import unpacked
from bayesnn_ppl.report.gallery.samplers import SAMPLERS
from bayesnn_ppl.report.gallery.targets import TARGETS
from tests.report.gallery.conftest import contents

pytestmark = pytest.mark.check


def check(file, draws):
    """Every target, sampler, step and temperature has draws, and what is drawn of them."""
    assert 1e5 < file.stat().st_size < 3.5e6 * max(1, draws / 240)
    data = contents(file)
    assert data["targets"] == list(TARGETS) and list(data["samplers"]) == list(SAMPLERS)
    for name, told in data["samplers"].items():
        runs = unpacked(told["runs"])
        shape = len(TARGETS), 3, 3
        count = min(draws, 120) if name == "SVGD" else draws
        assert told["draws"] == count and len(told["look"]) > 50
        assert runs["draws"].shape == (*shape, told["chains"], 2, count)
        assert runs["made"].shape == (*shape, told["chains"])
        assert (runs["made"] <= count).all() and (runs["made"] >= 0).all()
        if name != "SVGD":
            moves = (np.diff(runs["draws"], axis=-1) != 0).any((-1, -2)) | (runs["made"] < 3)
            assert moves[:, 0].mean() > 0.95, "with a short step"
            # With a long one every proposal may be rejected.
            assert moves.mean() > (0.6 if SAMPLERS[name].exact else 0.95)
        if "points" in runs:
            assert runs["counts"].shape == (*shape, count)
            assert runs["points"].shape == (2, runs["counts"].sum(dtype=int))
        if SAMPLERS[name].exact:
            assert (runs["made"] == count).all(), "what rejects does not stop"
        assert ("noise" in runs) == SAMPLERS[name].stochastic


def test_the_documented_command(default_page):
    check(default_page, 240)
    data = contents(default_page)
    assert (data["targets"][0], next(iter(data["samplers"]))) == ("banana", "HMC")
    stopped = unpacked(data["samplers"]["SGHMC"]["runs"])["made"][0, 2]
    assert (stopped < 240).all(), "SGHMC on the banana stops where the step is long"


@pytest.mark.parametrize("seed", (1, 2))
def test_other_seeds(seed, tmp_path):
    file = tmp_path / "gallery.html"
    assert main(["gallery", str(file), "--seed", str(seed)]) == 0
    check(file, 240)


@pytest.mark.parametrize("draws", [40, 480])
def test_other_lengths(draws, tmp_path):
    file = tmp_path / "gallery.html"
    assert main(["gallery", str(file), "--draws", str(draws)]) == 0
    check(file, draws)


def test_without_a_name_it_is_written_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["gallery", "--samplers", "random walk", "--targets", "standard"]) == 0
    assert (tmp_path / "gallery.html").stat().st_size > 1e4
