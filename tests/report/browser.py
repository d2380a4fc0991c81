"""A headless browser for pages, where one is on this machine."""

import contextlib
import json
import shutil
import tempfile

import pytest

_FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync""".split()


@contextlib.contextmanager
def browser(*, width=1200, dark=False):
    """A driver of Chromium; a test that needs it is skipped where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("There is no Chromium with its driver on this machine.")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        found = webdriver.Chrome(service=Service(driver), options=options)
        try:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            found.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
            yield found
        finally:
            found.quit()


def console_errors(driver):
    """What the console says, warnings and errors alike."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] != "INFO"]


def asked_for(driver):
    """Addresses that pages of ours requested since the last call; not the browser's own pages."""
    messages = [json.loads(e["message"])["message"] for e in driver.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
        and not message["params"]["documentURL"].startswith(("chrome:", "chrome-untrusted:"))
    ]


def fits(driver):
    """Whether nothing of the page is wider than the window.

    `window.innerWidth` would not tell: on a telephone it grows with what is too wide.
    """
    return driver.execute_script(
        "const page = document.documentElement; return page.scrollWidth <= page.clientWidth"
    )


def colours(driver):
    """Background and ink of the page, and the contrast between the two."""
    return driver.execute_script(
        """
        const style = getComputedStyle(document.body);
        const light = (words) => {
          const [r, g, b] = words.match(/\\d+/g).map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const [a, b] = [light(style.backgroundColor), light(style.color)].sort((p, q) => q - p);
        return [style.backgroundColor, style.color, (a + 0.05) / (b + 0.05)];
        """
    )
