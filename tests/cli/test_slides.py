"""`bayesnn notebooks --slides`: which cells are shown, where, and that a browser shows them."""

import importlib.util
import re

import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.teaching import slides
from tests.report.browser import asked_for, browser, console_errors

IMAGE = {"output_type": "display_data", "data": {"image/png": "AAAA"}, "metadata": {}}
PRINTED = {"output_type": "stream", "name": "stdout", "text": ["3\n"]}


def text(source):
    return {"cell_type": "markdown", "id": "t", "metadata": {}, "source": source}


def code(source, *outputs, tags=()):
    metadata = {"tags": list(tags)}
    return {"cell_type": "code", "id": "c", "metadata": metadata, "source": source} | {
        "execution_count": 1,
        "outputs": list(outputs),
    }


def places(*cells):
    found = slides.slide_cells(list(cells))
    return [cell["metadata"]["slideshow"]["slide_type"] for cell in found]


def test_headings_begin_slides_and_captions_stay_with_their_figures():
    long = code("x = 1\n" * 20, IMAGE)
    cells = [text("# 07 Title"), text("A question."), long, text("**Figure 1. It falls.** More.")]
    assert places(*cells) == ["slide", "subslide", "subslide", "-"]
    figure = slides.slide_cells(cells)[2]
    assert figure["metadata"]["transient"] == {"remove_source": True}
    assert figure["outputs"][0]["metadata"]["image/png"]["alt"] == "Figure 1. It falls."
    assert long["outputs"][0]["metadata"] == {}


def test_short_code_is_shown_above_its_figure():
    source, figure = slides.slide_cells([code("plot()", PRINTED, IMAGE)])
    assert source["outputs"] == [PRINTED] and "transient" not in source["metadata"]
    assert figure["metadata"]["transient"] == {"remove_source": True}
    assert source["id"] != figure["id"]


@pytest.mark.parametrize("tag", ["claim", "install", "parameters"])
def test_plumbing_is_left_out(tag):
    assert places(code("assert True", PRINTED, tags=[tag])) == []
    assert places(code("import numpy as np")) == []
    assert places(code("2 + 2", tags=["solution"])) == ["subslide"]


def test_a_long_text_is_cut_between_paragraphs():
    paragraph = "word " * 50
    parts = slides.slide_cells([text("\n\n".join(["## Title", *[paragraph] * 4]))])
    assert [part["metadata"]["slideshow"]["slide_type"] for part in parts] == [
        *("slide", "subslide"),
    ]
    assert "\n\n".join(part["source"] for part in parts).count("word") == 200
    assert len({part["id"] for part in parts}) == len(parts)


def test_without_its_packages_nothing_is_written(tmp_path, monkeypatch, capsys):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        slides, "find_spec", lambda name: None if name == "sphinx_revealjs" else real(name)
    )
    assert main(["notebooks", str(tmp_path / "talk"), "--slides"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "need sphinx_revealjs" in error and "pip install 'bayesnn_ppl[slides]'" in error
    assert not (tmp_path / "talk").exists()


@pytest.mark.check
def test_slides_are_shown_without_a_connection(tmp_path):
    assert main(["notebooks", str(tmp_path / "talk"), "--slides"]) == 0
    pages = sorted((tmp_path / "talk").glob("*.html"))
    assert len(pages) > 10
    # reveal.js names the sites of its own sources in comments.
    for page in pages:
        assert not re.search(r'(?:src|href)="https?:[^"]*\.(?:js|css)', page.read_text())
    with browser() as driver:
        for page in (pages[0], pages[7]):
            driver.get(page.as_uri())
            driver.execute_async_script(
                "const done = arguments[0]; const wait = () => window.Reveal?.isReady() &&"
                " window.MathJax?.startup?.promise ? MathJax.startup.promise.then(done)"
                " : setTimeout(wait, 50); wait();"
            )
            assert not [url for url in asked_for(driver) if not url.startswith(("file:", "data:"))]
            assert console_errors(driver) == []
            total = driver.execute_script("return Reveal.getTotalSlides()")
            assert total > 15
            seen, pictures = 0, 0
            for _ in range(total):
                shown = driver.execute_script(
                    "const slide = Reveal.getCurrentSlide();"
                    "const box = slide.getBoundingClientRect();"
                    "return [slide.innerText.trim().length, box.right <= innerWidth + 1,"
                    " slide.querySelectorAll('img').length]"
                )
                seen += bool(shown[0] or shown[2]) and shown[1]
                pictures += shown[2]
                driver.execute_script("Reveal.next()")
            assert seen == total, "every slide shows something, within the window"
            assert pictures >= 2
            assert driver.execute_script("return Reveal.isLastSlide()")
            formulas = driver.execute_script(
                "return document.querySelectorAll('mjx-container').length"
            )
            assert formulas > 0 or page == pages[0]
