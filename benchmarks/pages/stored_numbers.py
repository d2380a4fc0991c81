"""Numbers that a page takes from stored results: how the page says so, and which are wrong.

A page has two ways, both of them comments that no reader sees. A table that is made:

    <!-- table efficiency -->
    | ... |
    <!-- end of table -->

`python -m benchmarks plots` writes what is between them, by the function of that name in
`made_tables.TABLES`. And the numbers of the paragraph or table that follows, up to a blank line:

    <!-- numbers of benchmarks/results/agreement.json
    0.9 = [milliseconds_an_agreement > 2]
    74 = 100 * [diagnosis > functions > f > r_hat_share_below_1.01]
    12.3 = [ours: ChEES > ess_min] / [NumPyro NUTS > ess_min]
    -->

Left as the page shows it; right a path of keys in the file, in brackets, and arithmetic on such
paths. The number is right if the value has it when rounded to as many decimals.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(\n?<!-- end of table -->)", re.DOTALL)
_NUMBERS = re.compile(r"((?:<!-- numbers of \S+\n.*?-->\n)+)(.*?)(?=\n\s*\n|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!-- numbers of (\S+)\n(.*?)-->\n", re.DOTALL)
_ARITHMETIC = re.compile(r"[0-9.e+\-*/() ]+")


@cache
def stored(path: str) -> Any:
    """What a JSON file of the repository holds."""
    return json.loads((ROOT / path).read_text())


def number_at(content: Any, path: str) -> float:
    """The number at a path of keys, `a > b > 2`; in a list a key is a place."""
    found = content
    for key in path.split(" > "):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return float(found)


def value_of(content: Any, formula: str) -> float:
    """The value of a formula whose brackets hold paths, `100 * [a > b]`."""
    text = re.sub(r"\[([^\]]+)\]", lambda m: f"({number_at(content, m[1])!r})", formula)
    if not _ARITHMETIC.fullmatch(text):
        raise ValueError(f"`{formula}` is not arithmetic on numbers and [paths].")
    return float(eval(text))  # of digits and operators alone, as was just seen


def is_rounded(shown: str, value: float) -> bool:
    """Whether a number as a page shows it, `14 112` or `−0.836`, is the value rounded."""
    text = shown.replace(" ", "").replace("−", "-")
    decimals = len(text.partition(".")[2])
    # A value in the middle between two may be shown as either.
    return abs(float(text) - value) <= 0.5 * 10**-decimals * (1 + 1e-6)


def claims(text: str) -> Iterator[tuple[str, str, str, str]]:
    """(file, number as shown, formula, paragraph) of every number that a page says is stored."""
    for comments, paragraph in _NUMBERS.findall(text):
        for file, lines in _COMMENT.findall(comments):
            for line in lines.strip().splitlines():
                shown, _, formula = line.partition(" = ")
                yield file, shown.strip(), formula.strip(), paragraph


def faults_of(text: str, tables: Mapping[str, Callable[[], str]]) -> list[str]:
    """What of a page is not what is stored, a sentence each.

    Args:
        text: of the page.
        tables: name -> a function that makes the table.
    """
    faults = []
    for file, shown, formula, paragraph in claims(text):
        try:
            value = value_of(stored(file), formula)
        except (KeyError, IndexError, FileNotFoundError, TypeError, ValueError) as error:
            faults.append(f"{shown} = {formula}: not in {file} ({error!r})")
            continue
        if not is_rounded(shown, value):
            faults.append(f"{shown} is {value:.6g} in {file} ({formula})")
        if not re.search(rf"(?<![\d.]){re.escape(shown)}(?!\d|\.\d)", paragraph):
            faults.append(f"{shown} ({formula}) is not in the paragraph that follows the comment")
    for _, name, body, _ in TABLE.findall(text):
        if name not in tables:
            faults.append(f"there is no table `{name}`")
        elif body != tables[name]():
            faults.append(f"the table `{name}` is not that of the stored results")
    opened, closed = text.count("<!-- table "), text.count("<!-- end of table -->")
    if not opened == closed == len(TABLE.findall(text)):
        faults.append("a table has no end, or an end no table")
    if text.count("<!-- numbers of ") != len(_COMMENT.findall(text)):
        faults.append("a comment with numbers is not understood")
    return faults


def with_tables(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The page with its tables as the stored results have them."""
    return TABLE.sub(lambda m: m[1] + tables[m[2]]() + "\n" + m[4].lstrip("\n"), text)


def prose_without_claims(text: str) -> Iterator[str]:
    """Numbers with decimals in a page's paragraphs that no comment says are stored.

    Those of code, links and what is said of a figure are left out.
    """
    text = TABLE.sub("", text)
    for comments, paragraph in _NUMBERS.findall(text):
        known = [
            line.partition(" = ")[0].strip() for line in comments.splitlines() if " = " in line
        ]
        rest = paragraph
        for shown in sorted(known, key=len, reverse=True):
            rest = re.sub(rf"(?<![\d.]){re.escape(shown)}(?!\d|\.\d)", "", rest)
        text = text.replace(comments + paragraph, rest)
    text = re.sub(r"`[^`]*`|!?\[[^]]*\]\([^)]*\)|<!--.*?-->", "", text, flags=re.DOTALL)
    yield from re.findall(r"[-−]?\d[\d ]*\.\d+", text)
