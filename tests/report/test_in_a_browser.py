"""The report in a real browser: quiet, self-contained, usable with mouse and keyboard."""

import pytest

import bayesnn_ppl as bnn
from tests.report.browser import asked_for, browser, colours, console_errors, fits

pytestmark = pytest.mark.check


@pytest.fixture(scope="module")
def report_file(page, tmp_path_factory):
    return page.save(tmp_path_factory.mktemp("page") / "report.html").as_uri()


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


def test_narrow_and_dark(report_file):
    with browser(width=390, dark=True) as driver:
        driver.get(report_file)
        assert fits(driver) and colours(driver)[2] > 7
        assert console_errors(driver) == []


def test_report_without_scripts(report_file):
    with browser() as driver:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get(report_file)
        assert len(driver.find_elements("css selector", "#chains .choice svg")) > 4
        hidden = driver.find_elements("css selector", ".hidden")
        assert hidden == [] and driver.find_elements("tag name", "button") == []
