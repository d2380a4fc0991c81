"""Plain English wherever a user reads: words of a private dialect, and what to write instead.

The test reads the pages, the text of the notebooks, and the docstrings and messages of the library.
It ignores code, inline code and the targets of links, because names do not change.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A word and its pattern; what to write instead; a sentence that is refused, and one that is not.
# A space of a pattern is any white space, so a sentence may be broken anywhere.
WORDS = {
    "law": (
        r"\blaws?\b(?! of (?:large numbers|total|iterated))",
        "distribution, target or posterior",
        "The law of the draws.",
        "By the law of large numbers, likelihoods and flaws.",
    ),
    "program": (
        r"\b(?:NumPyro|probabilistic) programs?\b|\bprograms? (?:by hand|of (?:your|one's) own)\b",
        "model",
        "A network is a NumPyro program.",
        "A compiled program, and probabilistic programming.",
    ),
    "thermometer": (
        r"\bthermometers?\b",
        "temperature diagnostic",
        "Two thermometers say whether.",
        "Two temperature diagnostics.",
    ),
    "probe": (
        r"\b(?:the|a|its|each) probes?\b(?! (?:inputs?|points?|targets?|rows?)\b)",
        "probe inputs",
        "Function values at the probe.",
        "Function values at the probe inputs.",
    ),
    "reads hot": (
        r"\b(?:reads?|runs?|is) (?:hot|cold)\b|\bhotter\b",
        "above (below) the target temperature",
        "The layer reads hot.",
        "A cold posterior; the status is too hot.",
    ),
    "climb": (
        r"\bclimb(?:s|ed|ing)?\b",
        "optimise, maximise",
        "Three families climb the ELBO.",
        "They maximise the ELBO.",
    ),
    "came of it": (
        r"\b(?:came|comes?) of (?:it|them|this)\b",
        "result",
        "This is what came of it.",
        "The result comes from four chains.",
    ),
    "whole number": (
        r"\bwhole(?:-| )numbers?\b",
        "integer",
        "It must be a whole number.",
        "It must be an integer; the whole run.",
    ),
    "X is no Y": (
        r"(?<!\bthere\s)\b(?:is|are) (?:no (?:proof|fault|approximation|distribution)\b"
        r"|none of (?:these|those|the)\b)",
        "is not a, is not one of",
        "The name is none of these.",
        "There is no file; it is not one of these.",
    ),
    "goes on": (
        r"\b(?:go|goes|going|gone|went) on (?:with|to the|from|as|until|where|while|even)\b"
        r"|\bruns? goes on\b|\band goes? on\b",
        "continue, resume",
        "The run goes on from its last draw.",
        "The run continues. What is going on?",
    ),
    "anew": (
        r"\banew\b|\bafresh\b",
        "again, restarted, a new one",
        "Momenta are drawn anew.",
        "New momenta are drawn.",
    ),
    "held against": (
        r"\b(?:held|hold|holds|holding)(?: \w+){0,4} (?:against|beside)\b",
        "checked against, compared with",
        "The draws are held against HMC.",
        "The prior holds the weights in place.",
    ),
    "beside": (
        r"\bbeside\b",
        "compared with, next to, together with, as well as",
        "The mean beside that of HMC.",
        "What it has besides the position.",
    ),
    "less (minus)": (
        r"(?:\)|\$|\d|\b(?:average|entropy|loss|mean|NLL)) less (?:the|its|that|their|one|\d)\b",
        "minus",
        "The entropy of the average less the average entropy.",
        "It costs less, and at most 3 or less.",
    ),
    "without a word": (
        r"\b(?:without|needs?) (?:a|one|any|no) words?\b",
        "silently",
        "It is refused without a word.",
        "A sentence without words.",
    ),
    "dear": (
        r"\bdear(?:er|est|ly)?\b|\bto be had\b|\bat its word\b|\bin earnest\b",
        "expensive, available, reliable, for real",
        "Refitting is dear.",
        "Refitting is expensive.",
    ),
    "the same bits": (
        r"\b(?:the )?same bits?\b|\bto the bit\b|\bbit (?:by|for) bit\b",
        "bit-for-bit identical",
        "It resumes to the same bits.",
        "It is bit-for-bit identical.",
    ),
    "stands": (
        r"\b(?:stands?|stood) (?!for\b|alone\b|out\b)[a-z]",
        "is",
        "What to do stands in the verdict.",
        "MLP stands for multilayer perceptron.",
    ),
    "what one can afford": (
        r"\bone can(?:not)? (?:be )?afford|\bthere are two dozen\b",
        "say which, and how many",
        "There are two dozen.",
        "A dozen is twelve.",
    ),
}
PATTERNS = {
    word: re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)
    for word, (pattern, *_) in WORDS.items()
}

# Where a word is right: file, word, and why.
ALLOWED = [
    ("bayesnn_ppl/inference/training/result.py", "climb", "the stored name of a stage"),
]
# Not looked at yet: other pages are being rewritten.


def pages() -> list[Path]:
    """Every file with text for a user."""
    found = [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "notebooks").glob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(ROOT / "models").glob("*.py"),
        *(ROOT / "bayesnn_ppl").rglob("*.py"),
    ]
    return sorted(path for path in found if _looked_at(path.relative_to(ROOT).as_posix()))


def _looked_at(name: str) -> bool:
    linked = ("bayesnn_ppl/models/", "bayesnn_ppl/notebooks/", "docs/_build/", "docs/_generated/")
    return not name.startswith(linked)


def prose(markdown: str) -> str:
    """Markdown without code, inline code and the targets of links; lines keep their place."""
    kept, fence = [], ""
    for line in markdown.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})(.*)", line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not mark[2].strip() else fence
            line = ""
        elif mark and not mark[2].startswith("{"):
            fence, line = mark[1], ""
        kept.append(line)
    return _blank(r"\]\([^)]*\)", _blank(r"``[^`]+``|`[^`]*`", "\n".join(kept)))


def _blank(pattern: str, text: str) -> str:
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that users read, each with its first line (of a notebook, its cell)."""
    source = path.read_text()
    if path.suffix == ".ipynb":
        for number, cell in enumerate(json.loads(source)["cells"]):
            if cell["cell_type"] == "markdown":
                yield number, prose("".join(cell["source"]))
    elif path.suffix == ".py":
        yield from _strings(ast.parse(source))
    else:
        yield 1, prose(source)


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings and messages; an f-string is one text."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        yield node.lineno, _blank("`[^`\n]*`", "".join(map(str, parts)))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        yield node.lineno, _blank("`[^`\n]*`", node.value)
    if not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)


def findings(path: Path) -> list[str]:
    """What is to be written otherwise, as `file:line: "words": write ...`."""
    name, found = path.relative_to(ROOT).as_posix(), []
    for line, text in texts(path):
        for word, pattern in PATTERNS.items():
            if any((name, word) == allowed[:2] for allowed in ALLOWED):
                continue
            for match in pattern.finditer(text):
                place = line + text.count("\n", 0, match.start())
                words = " ".join(text[max(0, match.start() - 30) : match.end() + 20].split())
                found.append(f'{name}:{place}: "{words}": not "{word}", but {WORDS[word][1]}')
    return found


def test_plain_english():
    found = [line for path in pages() for line in findings(path)]
    assert not found, "\n".join(["These words are the project's own dialect:", *found])


@pytest.mark.parametrize("word", WORDS)
def test_each_pattern_finds_its_word_and_no_other(word):
    _, _, refused, fine = WORDS[word]
    assert PATTERNS[word].search(refused)
    assert PATTERNS[word].search(refused.replace(" ", "\n    ")), "also where a line ends"
    assert not PATTERNS[word].search(fine)


def test_exceptions_are_needed():
    for name, word, _ in ALLOWED:
        assert any(PATTERNS[word].search(text) for _, text in texts(ROOT / name)), (name, word)


def test_texts_are_found_and_names_are_not(tmp_path):
    page = "A law.\n```python\nlaw = 1\n```\nThe `law` and [this](law.md).\n"
    assert [found[0] for found in PATTERNS["law"].finditer(prose(page))] == ["law"]
    source = tmp_path / "module.py"
    source.write_text('"""A law."""\nlaw = "law"\nprint(f"a {law} law" "and law", "`a law`")\n')
    assert [text for _, text in texts(source)][:2] == ["A law.", "a {} lawand law"]
    assert sum(bool(PATTERNS["law"].search(text)) for _, text in texts(source)) == 2
