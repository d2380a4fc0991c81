"""What the tests of the gallery share: the page of the documented command, and what is in it."""

import json
import re

import pytest

from bayesnn_ppl.cli import main


def contents(page_file):
    """The data of a page."""
    html = page_file.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="runs">(.*?)</script>', html, re.DOTALL)[1])


@pytest.fixture(scope="session")
def default_page(tmp_path_factory):
    """The page of `bayesnn gallery gallery.html`, as the documentation types it."""
    file = tmp_path_factory.mktemp("gallery") / "gallery.html"
    assert main(["gallery", str(file)]) == 0
    return file
