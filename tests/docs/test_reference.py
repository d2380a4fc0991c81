"""The pages of `sample` and `fit` have every argument of the functions, with its default."""

import inspect
import re

import pytest

import bayesnn_ppl as bnn
from tests.docs.reading import ROOT

REFERENCE = ROOT / "docs" / "reference"
HEAD = re.compile(
    r"### `(\w+)`\n\n\*\*Type\*\* [^\n]+ · (?:\*\*Default\*\* `([^`]+)`|\*\*Required\*\*)\n"
)
RELATED = ("resume", "extend", "load")


def described(text):
    """Argument -> (its default as written, or None where it is required; its section)."""
    sections = re.split(r"^(?=#{2,3} )", text, flags=re.MULTILINE)
    found = [(HEAD.match(section), section) for section in sections if section.startswith("### ")]
    assert all(head for head, _ in found), [section[:60] for head, section in found if not head]
    names = [head[1] for head, _ in found]
    assert len(set(names)) == len(names)
    return {head[1]: (head[2], section) for head, section in found}


def in_code(function):
    """Argument -> its default as a reader types it, or None where it is required."""
    return {
        name: None if p.default is p.empty else repr(p.default).replace("'", '"')
        for name, p in inspect.signature(function).parameters.items()
    }


@pytest.mark.parametrize("name", ["sample", "fit"])
def test_each_argument_is_described_with_its_default_and_an_example(name):
    page = described((REFERENCE / f"{name}.md").read_text())
    assert {n: default for n, (default, _) in page.items()} == in_code(getattr(bnn, name))
    for argument, (default, section) in page.items():
        example = re.search(r"^```(?:python|text)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
        assert example, f"`{argument}` has no example"
        shown = f"{argument}=" if default is not None else f"bnn.{name}("
        assert shown in example[1], f"the example of `{argument}` does not use it"


@pytest.mark.parametrize(
    "change",
    [
        ("### `thinning`", "### `thin`"),
        ("**Default** `4`", "**Default** `2`"),
        ("`int`, at least 0 · **Required**", "`int`, at least 0 · **Default** `500`"),
        ("thinning=5", "seed=5"),
    ],
    ids=["another name", "another default", "not required", "an example of something else"],
)
def test_a_page_that_differs_is_noticed(change, monkeypatch, tmp_path):
    text = (REFERENCE / "sample.md").read_text()
    assert change[0] in text
    (tmp_path / "sample.md").write_text(text.replace(*change))
    monkeypatch.setitem(globals(), "REFERENCE", tmp_path)
    with pytest.raises(AssertionError):
        test_each_argument_is_described_with_its_default_and_an_example("sample")


@pytest.mark.parametrize("name", RELATED)
def test_signatures_of_related_calls_are_those_of_the_code(name):
    def typed(p):
        default = "" if p.default is p.empty else f"={p.default!r}"
        return f"{p.name}{default}"

    parameters = list(inspect.signature(getattr(bnn, name)).parameters.values())
    words = [typed(p) for p in parameters]
    words.insert(next(i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), "*")
    assert f"\n{name}({', '.join(words)})\n" in (REFERENCE / "sample.md").read_text()


def test_fields_of_keep_are_those_of_the_code():
    section = described((REFERENCE / "sample.md").read_text())["keep"][1]
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE)
    assert dict(rows) == in_code(bnn.Keep)
