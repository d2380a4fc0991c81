"""The built documentation, in a browser and as files: `make docs` builds it and runs this.

The pages are opened as a reader opens them, as files of this machine.
"""

import html.parser
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.report.browser import asked_for, browser, colours, console_errors, fits

pytestmark = pytest.mark.built_docs
BUILT = Path(__file__).parents[2] / "docs" / "_build" / "html"


class Addresses(html.parser.HTMLParser):
    """What a page links to, what it loads, and the places within it that can be linked to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.places = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif found.get("href") or found.get("src"):
            self.loads.append(found.get("href") or found["src"])


def is_outside(address):
    return bool(urlsplit(address).netloc)


def faults_of(folder):
    """Links that lead nowhere, and what a page loads from outside."""
    pages = {path.resolve(): Addresses(path.read_text()) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if address in page.loads and is_outside(address):
                found.append(f"{path.name} loads {address}")
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.name}: {address} is not a file")
            elif parts.fragment and target in pages:
                # What scripts of the theme fill in has no place of its own.
                if unquote(parts.fragment) not in pages[target].places:
                    found.append(f"{path.name}: {address} has no such place")
    return found


@pytest.fixture(scope="module")
def built():
    if not (BUILT / "index.html").exists():
        pytest.fail("The documentation is not built: `make docs` builds it and runs this test.")
    return BUILT


@pytest.fixture(scope="module")
def wide(built):
    with browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def narrow(built):
    with browser(width=390, dark=True) as driver:
        yield driver


def open_page(driver, path):
    """The page, with what was said and asked for before forgotten."""
    console_errors(driver)
    asked_for(driver)
    driver.get(path.as_uri())


def outside(driver):
    """Requests that leave this machine's files."""
    return [address for address in asked_for(driver) if not address.startswith(("file:", "data:"))]


def focused(driver):
    return driver.switch_to.active_element


def press(driver, *keys):
    focused(driver).send_keys(*keys)


def test_links_lead_somewhere_and_nothing_is_loaded_from_outside(built):
    assert len(list(built.rglob("*.html"))) > 60
    assert faults_of(built) == []


def test_every_page_is_quiet_and_fits_a_narrow_screen(narrow, built):
    faults = []
    for path in sorted(built.rglob("*.html")):
        open_page(narrow, path)
        found = [*console_errors(narrow), *outside(narrow)]
        found += [] if fits(narrow) else ["is wider than the screen"]
        found += [] if colours(narrow)[2] > 7 else ["is hard to read in the dark"]
        faults += [f"{path.relative_to(built)}: {words}" for words in found]
    assert faults == []


def test_the_menu_of_a_narrow_screen(narrow, built):
    open_page(narrow, built / "tour.html")
    link = narrow.find_element("css selector", ".sidebar-tree a[href='choosing.html']")
    sidebar = narrow.find_element("css selector", ".sidebar-drawer")
    assert sidebar.rect["x"] + sidebar.rect["width"] <= 0, "it is closed"
    narrow.find_element("css selector", "label[for=__navigation]:not(.overlay)").click()
    wait(narrow, lambda: sidebar.rect["x"] >= 0, "it opens")
    assert fits(narrow)
    link.click()
    wait(narrow, lambda: narrow.current_url.endswith("/choosing.html"), "its links lead on")
    assert console_errors(narrow) == [] and outside(narrow) == []


def wait(driver, condition, words):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20, poll_frequency=0.1).until(lambda _: condition(), words)


def test_the_keyboard_reaches_content_search_and_links(wide, built):
    from selenium.webdriver.common.keys import Keys

    open_page(wide, built / "tour.html")
    wide.find_element("css selector", "body").send_keys(Keys.TAB)
    skip = focused(wide)
    wait(wide, lambda: skip.text == "Skip to content", "it is seen when it has the focus")
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    names = []
    while len(names) < 60 and "choosing.html" not in names:
        press(wide, Keys.TAB)
        now = focused(wide)
        names.append(now.get_attribute("name") or (now.get_attribute("href") or "").split("/")[-1])
        assert wide.execute_script(outline) != "none" or now.get_attribute("name"), names[-1]
    assert "q" in names and names.index("q") < names.index("choosing.html")
    press(wide, Keys.ENTER)
    wait(wide, lambda: wide.current_url.endswith("/choosing.html"), "a link follows Enter")
    wide.find_element("css selector", "body").send_keys(Keys.TAB)
    press(wide, Keys.ENTER)
    press(wide, Keys.TAB)
    within = "return document.querySelector('#furo-main-content').contains(document.activeElement)"
    assert wide.execute_script(within), "the link skips the menu"
    assert console_errors(wide) == [] and outside(wide) == []


def test_search_finds_a_page(wide, built):
    from selenium.webdriver.common.keys import Keys

    open_page(wide, built / "index.html")
    wide.find_element("css selector", "input.sidebar-search").send_keys(
        "cold posterior", Keys.ENTER
    )
    found = "#search-results li a"
    wait(wide, lambda: wide.find_elements("css selector", found), "there are results")
    summary = "#search-results .search-summary"
    wait(wide, lambda: "found" in wide.find_element("css selector", summary).text, "it ends")
    links = {a.get_attribute("href").split("#")[0].split("?")[0] for a in results(wide, found)}
    page = built / "systems" / "cold_posteriors.html"
    assert page.as_uri() in links
    next(a for a in results(wide, found) if page.name in a.get_attribute("href")).click()
    wait(wide, lambda: "Cold posteriors" in wide.title, "a result leads to its page")
    assert console_errors(wide) == [] and outside(wide) == []
    open_page(wide, built / "search.html")
    wide.find_element("css selector", "input.sidebar-search").send_keys("xyzzyx", Keys.ENTER)
    wait(wide, lambda: "not match" in wide.find_element("css selector", summary).text, "none")


def results(driver, selector):
    return driver.find_elements("css selector", selector)


def settled_colours(driver):
    """The colours when they have stopped to change, which takes time on a busy machine."""
    before = None
    for _ in range(50):
        now = colours(driver)
        if now == before:
            break
        before = now
        time.sleep(0.2)
    return now


def test_light_and_dark(wide, built):
    open_page(wide, built / "theory" / "targets.html")
    seen = {}
    button = wide.find_element("css selector", ".theme-toggle-content button")
    for _ in range(3):
        button.click()
        name = wide.execute_script("return document.body.dataset.theme")
        seen[name] = settled_colours(wide)
        assert seen[name][2] > 7
    assert seen.keys() == {"auto", "light", "dark"}
    assert seen["light"][0] == seen["auto"][0] != seen["dark"][0]
    wide.get((built / "tour.html").as_uri())
    last = wide.execute_script("return document.body.dataset.theme")
    assert last == name, "the next page remembers it"
    assert console_errors(wide) == [] and outside(wide) == []
