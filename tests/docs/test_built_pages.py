"""The built documentation, in a browser and as files: `make docs` builds it and runs this.

The pages are opened as a reader opens them, as files of this machine.
"""

import html.parser
import json
import time
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.report.browser import asked_for, browser, colours, console_errors, fits

pytestmark = pytest.mark.built_docs
ROOT = Path(__file__).parents[2]
BUILT = ROOT / "docs" / "_build" / "html"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# What a reader comes with, and the page that answers it: two clicks from the home page at most.
QUESTIONS = {
    "How do I sample my own Flax network?": "how_to/network.html",
    "Which sampler do I take?": "choosing.html",
    "It has not converged: what now?": "how_to/converge.html",
    "How do I use several hosts?": "how_to/several_machines.html",
    "How do I use a GPU?": "how_to/gpu.html",
    "What are the arguments of `sample`?": "reference/sample.html",
    "And of `fit`?": "reference/fit.html",
    "What is in a run's folder?": "reference/run_folder.html",
    "How do I add a kernel?": "how_to/kernel.html",
    "What does a contribution need?": "contributing.html",
    "Which priors are there?": "theory/priors.html",
    "How fast is it?": "performance.html",
    "What does a report look like?": "hosted/report.html",
    "How do samplers move?": "hosted/gallery.html",
}


class Addresses(html.parser.HTMLParser):
    """What a page links to, what it loads, and the places within it that can be linked to.

    `inner` are the links of its content, without the menus around it; `untold` the images that
    say nothing to those who do not see them.
    """

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.places = [], [], set()
        self.inner, self.untold, self.is_inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        self.is_inside = self.is_inside or tag == "article"
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
            self.inner += [found["href"]] if self.is_inside else []
        elif found.get("href") or found.get("src"):
            self.loads.append(found.get("href") or found["src"])
        if tag == "img" and not (found.get("alt") or "").strip():
            self.untold.append(found.get("src"))

    def handle_endtag(self, tag):
        self.is_inside = self.is_inside and tag != "article"


def is_outside(address):
    return bool(urlsplit(address).netloc)


def faults_of(pages):
    """Links that lead nowhere, and what a page loads from outside."""
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
def pages(built):
    """Path -> what the page links to and loads."""
    return {path.resolve(): Addresses(path.read_text()) for path in built.rglob("*.html")}


def reached(pages, path):
    """The pages that the content of a page links to."""
    parts = [urlsplit(address) for address in pages[path].inner]
    found = [(path.parent / unquote(p.path)).resolve() for p in parts if p.path and not p.netloc]
    return [page for page in found if page in pages and page != path]


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


def test_links_lead_somewhere_and_nothing_is_loaded_from_outside(pages):
    assert len(pages) > 60
    assert faults_of(pages) == []


def test_the_checks_see_a_fault(tmp_path):
    text = '<a href="menu.html"></a><article><img src="a.png"><a href="no.html#x"></a></article>'
    (tmp_path / "page.html").write_text(text + '<script src="https://example.org/a.js"></script>')
    page = Addresses((tmp_path / "page.html").read_text())
    assert page.untold == ["a.png"] and page.inner == ["no.html#x"]
    faults = "\n".join(faults_of({(tmp_path / "page.html").resolve(): page}))
    for words in ("a.png is not", "no.html#x is not", "menu.html is not", "loads https://"):
        assert words in faults


def test_every_image_says_what_it_shows(pages):
    untold = {path.name: page.untold for path, page in pages.items() if page.untold}
    assert untold == {}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_two_clicks_from_the_home_page(question, pages, built):
    home, answer = (built / "index.html").resolve(), (built / QUESTIONS[question]).resolve()
    first = reached(pages, home)
    assert answer in first or any(answer in reached(pages, page) for page in first), question


def cells(path, tag):
    notebook = json.loads(path.read_text())
    return [cell for cell in notebook["cells"] if tag in cell["metadata"].get("tags", [])]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_with_its_outputs_and_closed_solutions(path, pages, built):
    page = (built / "_generated" / "notebooks" / path.with_suffix(".html").name).resolve()
    assert page in reached(pages, (built / "index.html").resolve())
    text = page.read_text()
    assert text.count("Show a solution") == len(cells(path, "solution")) > 0
    assert "<details open" not in text
    notebook = json.loads(path.read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert text.count("<img") >= len(figures) > 0


def test_every_page_is_quiet_and_fits_a_narrow_screen(narrow, built):
    faults = []
    for path in sorted(built.rglob("*.html")):
        open_page(narrow, path)
        faulty_equations = equations(narrow)["faulty"]
        found = [*console_errors(narrow), *outside(narrow)]
        found += [] if fits(narrow) else ["is wider than the screen"]
        found += [] if colours(narrow)[2] > 7 else ["is hard to read in the dark"]
        found += [f"has {faulty_equations} equations with errors"] if faulty_equations else []
        faults += [f"{path.relative_to(built)}: {words}" for words in found]
    assert faults == []


def equations(driver):
    """How many equations a page has, and how many are drawn and faulty, when all are done."""
    return driver.execute_async_script(
        """
        const done = arguments[arguments.length - 1];
        const count = (selector) => document.querySelectorAll(selector).length;
        const told = () => done({written: count(".math"), drawn: count("mjx-container"),
                                 faulty: count("mjx-merror, [data-mjx-error]")});
        if (window.MathJax && MathJax.startup) MathJax.startup.promise.then(told); else told();
        """
    )


def test_equations_are_drawn_without_a_network(wide, built):
    open_page(wide, built / "theory" / "diagnostics.html")
    found = equations(wide)
    assert found["drawn"] == found["written"] > 10 and found["faulty"] == 0
    fonts = "return document.fonts.ready.then(() => document.fonts.check('16px MJXTEX-I'))"
    assert wide.execute_script(fonts), "the letters are MathJax's own"
    assert console_errors(wide) == [] and outside(wide) == []


def test_what_is_typed_has_a_button_that_copies_it_without_its_prompt(wide, built):
    from selenium.webdriver.common.keys import Keys

    open_page(wide, built / "tour.html")
    blocks = wide.find_elements("css selector", ".highlight-python pre, .highlight-console pre")
    find = partial(wide.find_elements, "css selector", "button.copybtn")
    wait(wide, find, "the page's script has made the buttons")
    buttons = find()
    assert len(buttons) == len(blocks) > 5
    wide.execute_script(
        "window.copied = []; document.addEventListener("
        "'copy', () => window.copied.push(document.activeElement.value))"
    )
    # Each takes the focus, is seen when it has it, and follows Enter.
    opacity = "return getComputedStyle(document.activeElement).opacity"
    for count, button in enumerate(buttons, start=1):
        assert button.get_property("tabIndex") == 0
        press(wide, Keys.TAB)
        wide.execute_script("arguments[0].focus()", button)
        wait(wide, lambda: float(wide.execute_script(opacity)) == 1, "it is seen")
        press(wide, Keys.ENTER)
        wait(wide, lambda n=count: wide.execute_script("return copied.length") == n, "it copies")
    copied = wide.execute_script("return copied")
    assert any(text.startswith("bayesnn sample") for text in copied)
    assert not any(text.startswith("$") for text in copied)
    assert console_errors(wide) == [] and outside(wide) == []


def test_the_menu_of_a_narrow_screen(narrow, built):
    open_page(narrow, built / "tour.html")
    link = narrow.find_element("css selector", ".sidebar-tree a[href='choosing.html']")
    sidebar = narrow.find_element("css selector", ".sidebar-drawer")
    assert sidebar.rect["x"] + sidebar.rect["width"] <= 0, "it is closed"
    narrow.find_element("css selector", "label[for=__navigation]:not(.overlay)").click()
    wait(narrow, lambda: sidebar.rect["x"] >= 0, "it opens")
    assert fits(narrow)
    narrow.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", link
    )
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
    theme = "return document.body.dataset.theme"  # by a script, which a busy machine runs late
    wait(wide, lambda: wide.execute_script(theme) == name, "the next page remembers it")
    assert console_errors(wide) == [] and outside(wide) == []
