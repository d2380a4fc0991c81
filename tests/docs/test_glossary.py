"""Each term of the glossary is explained in a few words and leads to a page of the site."""

import re
from typing import get_args

from bayesnn_ppl.diagnostics.diagnosis.fit_diagnosis import FitStatus
from bayesnn_ppl.diagnostics.diagnosis.result import Status
from tests.docs.reading import ROOT

PAGE = ROOT / "docs" / "glossary.md"
MOST_WORDS = 60


def entries():
    """(term, text) of each."""
    found = re.findall(r"^### (.+)\n\n(.+)\n?", PAGE.read_text(), re.MULTILINE)
    assert len(found) == PAGE.read_text().count("\n### ")
    return found


def test_each_term_is_there_once_in_few_words_and_leads_to_a_page():
    terms = [term for term, _ in entries()]
    assert len(set(terms)) == len(terms) > 50
    for term, text in entries():
        assert len(text.split()) <= MOST_WORDS, term
        (page,) = re.findall(r"\]\(([^)#]+)\)\.$", text)
        assert (PAGE.parent / page).is_file(), f"{term}: {page}"


def test_the_words_of_the_verdict_are_terms():
    terms = {term.lower() for term, _ in entries()}
    words = {*get_args(Status.__value__), *get_args(FitStatus.__value__)}
    assert len(words) == 6 and words <= terms
