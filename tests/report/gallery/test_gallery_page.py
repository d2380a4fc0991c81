"""`bayesnn gallery` as the documentation types it, its numbers, and its page in a real browser."""

import json
import re

import numpy as np
import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.report.gallery.packing import unpacked
from bayesnn_ppl.report.gallery.samplers import SAMPLERS
from bayesnn_ppl.report.gallery.targets import TARGETS
from tests.report.browser import asked_for, browser, colours, console_errors, fits

pytestmark = pytest.mark.check


def contents(page_file):
    """The data of a page."""
    html = page_file.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="runs">(.*?)</script>', html, re.DOTALL)[1])


@pytest.fixture(scope="module")
def default_page(tmp_path_factory):
    """The page of `bayesnn gallery gallery.html`, as the documentation types it."""
    file = tmp_path_factory.mktemp("gallery") / "gallery.html"
    assert main(["gallery", str(file)]) == 0
    return file


def check(file, draws, samplers=tuple(SAMPLERS)):
    """Every target, sampler, step and temperature has draws, and what is drawn of them."""
    assert 1e5 < file.stat().st_size < 4e6 * max(1, draws / 240)
    data = contents(file)
    assert data["targets"] == list(TARGETS) and list(data["samplers"]) == list(samplers)
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


@pytest.mark.parametrize(("seed", "draws"), [(1, 480), (2, 40)])
def test_other_seeds_and_lengths(seed, draws, tmp_path):
    file = tmp_path / "gallery.html"
    # One with an accept step, one of minibatches, and the one with a limit of its own.
    some = ("random walk", "SGLD", "SVGD")
    line = ["gallery", str(file), "--seed", str(seed), "--draws", str(draws)]
    assert main([*line, "--samplers", ",".join(some)]) == 0
    check(file, draws, some)


def test_without_a_name_it_is_written_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["gallery", "--samplers", "random walk", "--targets", "standard"]) == 0
    assert (tmp_path / "gallery.html").stat().st_size > 1e4


@pytest.fixture
def address(default_page):
    return default_page.as_uri()


def opened(driver, address):
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(address)
    ready = "return document.querySelectorAll('#readings div').length > 4"
    WebDriverWait(driver, 30).until(lambda _: driver.execute_script(ready))


def readings(driver):
    # In one call: the page replaces them with every draw.
    return driver.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('#readings div')]"
        ".map((pair) => [...pair.children].map((part) => part.textContent)))"
    )


def chosen(driver, name):
    return driver.execute_script(
        f"return document.getElementById('{name}').selectedOptions[0].text"
    )


def choose(driver, **texts):
    """Choose by the visible text, or by a number, and wait until it is shown."""
    from selenium.webdriver.support.ui import Select, WebDriverWait

    for name, value in texts.items():
        select = Select(driver.find_element("id", name))
        if isinstance(value, int):
            select.select_by_index(value)
        else:
            select.select_by_visible_text(value)
    label = "return document.getElementById('plane').getAttribute('aria-label')"
    wanted = f"Draws of {chosen(driver, 'sampler')} on the target {chosen(driver, 'target')}, "
    wanted += f"step {chosen(driver, 'step')}, {chosen(driver, 'heat')},"
    WebDriverWait(driver, 30).until(lambda _: driver.execute_script(label).startswith(wanted))


PICTURE = "return document.getElementById('plane').toDataURL()"


def test_it_opens_on_hmc_and_the_banana_and_is_played_by_keyboard(address):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    with browser() as driver:
        asked_for(driver)
        opened(driver, address)
        assert (chosen(driver, "sampler"), chosen(driver, "target")) == ("HMC", "banana")
        assert chosen(driver, "step").startswith("middle") and chosen(driver, "heat") == "T = 1"
        play, plane = driver.find_element("id", "playing"), driver.find_element("id", "plane")
        assert play.text == "Pause", "it plays when it opens"
        WebDriverWait(driver, 30).until(lambda _: int(readings(driver)["draw"].split()[0]) >= 2)

        play.send_keys(Keys.SPACE)
        assert play.text == "Play"
        first = readings(driver)["draw"]
        plane.send_keys(Keys.ARROW_RIGHT)
        after = readings(driver)["draw"]
        assert int(after.split()[0]) == int(first.split()[0]) + 1
        one = driver.execute_script(PICTURE)
        plane.send_keys(Keys.ARROW_LEFT)
        assert readings(driver)["draw"] == first and driver.execute_script(PICTURE) != one
        plane.send_keys(Keys.END)
        final = readings(driver)
        assert final["draw"] == "240 of 240" and 0.9 < float(final["R-hat"]) < 1.2
        assert final["accepted so far"].endswith("%")
        said = driver.find_element("id", "said").text
        assert said.startswith("HMC on banana, T = 1: draw 240, ")

        # A rejected proposal is said, and drawn otherwise than an accepted one.
        outcomes = set()
        for _ in range(60):
            plane.send_keys(Keys.ARROW_LEFT)
            outcomes.add(readings(driver)["last draw"])
        assert outcomes == {"accepted", "rejected: the chain stays"}

        sampler = driver.find_element("id", "sampler")
        sampler.send_keys("N")
        choose(driver)
        assert chosen(driver, "sampler") == "NUTS"
        assert readings(driver)["last draw"].startswith("chosen from ")
        plane.send_keys(Keys.SPACE)
        assert play.text == "Pause"
        outline = driver.execute_script(
            "const plane = document.getElementById('plane'); plane.focus({ focusVisible: true });"
            "return getComputedStyle(plane).outlineStyle"
        )
        assert outline == "solid", "what has the focus is marked"
        assert console_errors(driver) == [] and set(asked_for(driver)) <= {address, "data:,"}


def test_every_sampler_and_target_has_a_picture(address):
    from bayesnn_ppl.report.gallery.samplers import SAMPLERS
    from bayesnn_ppl.report.gallery.targets import TARGETS

    with browser() as driver:
        opened(driver, address)
        driver.find_element("id", "playing").click()
        seen = set()
        for sampler in SAMPLERS:
            choose(driver, sampler=sampler)
            for target in TARGETS:
                # Every step size and temperature comes, over all targets and samplers.
                place = len(seen)
                choose(driver, target=target, step=place % 3, heat=place // 3 % 3)
                assert readings(driver)["draw"].endswith(
                    "of 120" if sampler == "SVGD" else "of 240"
                )
                seen.add(driver.execute_script(PICTURE))
        assert len(seen) == len(SAMPLERS) * len(TARGETS)
        assert console_errors(driver) == []


def test_stopped_chains_are_shown_as_stopped(address):
    from selenium.webdriver.common.keys import Keys

    with browser() as driver:
        opened(driver, address)
        warning = driver.find_element("id", "stopped")
        assert not warning.is_displayed()
        choose(driver, sampler="SGHMC", step=2)
        driver.find_element("id", "plane").send_keys(Keys.END)
        assert warning.text.startswith("Stopped: chain 1 after draw ")
        assert "chain 4 at its start" in warning.text
        assert all(f"chain {chain} after draw" in warning.text for chain in (2, 3))
        told = readings(driver)
        assert told["last draw"] == "the chain has stopped" and told["R-hat"] == "–"
        choose(driver, step=0)
        assert not warning.is_displayed()


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone(address, dark):
    with browser(width=390, dark=dark) as driver:
        opened(driver, address)
        assert fits(driver) and colours(driver)[2] > 7
        plane = driver.find_element("id", "plane")
        assert 300 < plane.size["width"] <= 390
        before = driver.find_element("id", "playing").text
        plane.click()
        assert driver.find_element("id", "playing").text != before, "a tap plays and pauses"
        choose(driver, sampler="SGLD", target="funnel", heat=2)
        assert fits(driver) and console_errors(driver) == []


def test_it_stands_still_for_those_who_want_less_motion(address):
    with browser() as driver:
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [still]})
        opened(driver, address)
        assert driver.find_element("id", "playing").text == "Play"
        assert readings(driver)["draw"] == "30 of 240"


def test_without_scripts_there_is_a_figure_and_a_table(address):
    with browser() as driver:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get(address)
        assert driver.find_element("css selector", "#all svg").is_displayed()
        assert len(driver.find_elements("css selector", "#numbers tbody tr")) == len(
            SAMPLERS
        ) * len(TARGETS)
