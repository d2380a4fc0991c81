"""Report and gallery in a real browser: quiet, self-contained, usable with mouse and keyboard."""

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.report.gallery import gallery_page
from tests.report.browser import asked_for, browser, colours, console_errors, fits

pytestmark = pytest.mark.check


@pytest.fixture(scope="module")
def report_file(page, tmp_path_factory):
    return page.save(tmp_path_factory.mktemp("page") / "report.html").as_uri()


@pytest.fixture(scope="module")
def gallery_file(tmp_path_factory):
    page = gallery_page(draws=40, targets=("banana", "2-weight BNN"), samplers=("MALA", "SVGD"))
    return page.save(tmp_path_factory.mktemp("page") / "gallery.html").as_uri()


def test_report(report_file):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    with browser() as driver:
        asked_for(driver)
        driver.get(report_file)
        assert console_errors(driver) == []
        assert set(asked_for(driver)) <= {report_file, "data:,"}
        assert fits(driver) and colours(driver)[2] > 7

        find = driver.find_element
        choices = driver.find_elements("css selector", "#chains .choice")
        assert [c.is_displayed() for c in choices].count(True) == 2, "one for each run"
        select = Select(find("css selector", "#chains select"))
        select.select_by_index(1)
        assert choices[1].is_displayed() and not choices[0].is_displayed()

        button = find("css selector", "#chains button")
        button.send_keys(Keys.SPACE)
        assert button.get_attribute("aria-pressed") == "false"
        first = button.find_element("xpath", "ancestor::*[contains(@class, 'choices')]")
        drawn = first.find_elements("css selector", ".chain-0")
        assert drawn and all("faded" in d.get_attribute("class") for d in drawn)

        head = find("css selector", "#scores th.number button")
        values = "return [...document.querySelectorAll('#scores table')][0].tBodies[0]"
        values += ".querySelectorAll('td.number')"
        texts = f"{values.replace('return ', 'return [...')}].map((c) => parseFloat(c.textContent))"
        head.send_keys(Keys.ENTER)
        once = driver.execute_script(texts)
        head.send_keys(Keys.ENTER)
        twice = driver.execute_script(texts)
        assert once == sorted(once) and twice == once[::-1] != once

        before = colours(driver)[0]
        Select(find("id", "theme")).select_by_visible_text("dark")
        after = colours(driver)
        assert after[0] != before and after[2] > 7

        summary = find("css selector", "#provenance summary")
        summary.send_keys(Keys.ENTER)
        assert summary.find_element("xpath", "..").get_attribute("open") is not None
        driver.execute_script("document.querySelector('#content').focus()")
        find("css selector", "body").send_keys(Keys.TAB)
        focused = driver.execute_script("return document.activeElement.tagName")
        assert focused != "BODY", "the keyboard reaches the content"
        assert console_errors(driver) == [] and asked_for(driver) == []


@pytest.mark.parametrize("width, columns", [(1280, 2), (1040, 1), (390, 1)])
def test_two_columns_where_there_is_room(gap, tmp_path, width, columns):
    data, run = gap
    page = bnn.report.page(run, *data.test, train=data.train)
    with browser(width=width) as driver:
        driver.get(page.save(tmp_path / "page.html").as_uri())
        find = "return document.querySelector(arguments[0]).getBoundingClientRect().left"
        lefts = [
            [driver.execute_script(find, place) for place in places]
            for places in (
                ("#scores", "#baselines"),
                ("#training-rows .columns > :first-child", "#training-rows .columns > :last-child"),
            )
        ]
        assert [len(set(each)) for each in lefts] == [columns, columns]
        assert fits(driver) and console_errors(driver) == []


@pytest.mark.parametrize("what", ["report_file", "gallery_file"])
def test_narrow_and_dark(what, request):
    address = request.getfixturevalue(what)
    with browser(width=390, dark=True) as driver:
        driver.get(address)
        assert fits(driver) and colours(driver)[2] > 7
        assert console_errors(driver) == []


def test_report_without_scripts(report_file):
    with browser() as driver:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get(report_file)
        assert len(driver.find_elements("css selector", "#chains .choice svg")) > 4
        hidden = driver.find_elements("css selector", ".hidden")
        assert hidden == [] and driver.find_elements("tag name", "button") == []


def test_gallery(gallery_file):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait

    with browser() as driver:
        asked_for(driver)
        driver.get(gallery_file)

        def readings():
            # In one call: the page replaces them with every draw.
            return driver.execute_script(
                "return Object.fromEntries([...document.querySelectorAll('#readings div')]"
                ".map((pair) => [...pair.children].map((part) => part.textContent)))"
            )

        first = int(readings()["draw"].split()[0])
        WebDriverWait(driver, 20).until(lambda _: readings()["draw"] == "40 of 40")
        assert first < 40 and float(readings()["R-hat"]) > 0.9
        assert readings()["accepted"].endswith("%")
        assert driver.find_element("id", "playing").text == "Play", "it stops at the end"

        picture = "return document.getElementById('plane').toDataURL()"
        one = driver.execute_script(picture)
        moment = driver.find_element("id", "moment")
        moment.send_keys(Keys.HOME)
        assert readings()["draw"] == "1 of 40" and driver.execute_script(picture) != one
        Select(driver.find_element("id", "sampler")).select_by_visible_text("SVGD")
        assert readings()["particles"] == "20"
        Select(driver.find_element("id", "target")).select_by_visible_text("2-weight BNN")
        Select(driver.find_element("id", "heat")).select_by_index(2)
        Select(driver.find_element("id", "step")).select_by_index(2)
        driver.find_element("id", "again").send_keys(Keys.ENTER)
        assert driver.find_element("id", "playing").text == "Pause"
        assert console_errors(driver) == [] and set(asked_for(driver)) <= {gallery_file, "data:,"}
