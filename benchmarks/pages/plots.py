"""The figures and tables of docs/performance.md and other pages, from benchmarks/results.

    python -m benchmarks plots [--check]

Draws `docs/figures/performance/*.png`, writes the tables that pages mark by a comment, and prints
the numbers of any page that are not those of the stored results; `stored_numbers` says how a page
marks them. The exit status is 1 if there are such numbers.
"""

from pathlib import Path

from benchmarks.pages.drawn_figures import FIGURES, draw
from benchmarks.pages.made_tables import TABLES
from benchmarks.pages.stored_numbers import ROOT, faults_of, with_tables

FOLDER = ROOT / "docs" / "figures" / "performance"


def pages() -> list[Path]:
    """README and the pages of the documentation that are not built."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *(p for p in docs.rglob("*.md") if p.parent.name[0] != "_")]


def main(*, check: bool = False) -> int:
    """Draw the figures and write the tables.

    Args:
        check: say only what would change or is wrong.
    """
    found = 0
    for path in sorted(pages()):
        text = path.read_text()
        if not check:
            text = with_tables(text, TABLES)
            if text != path.read_text():
                path.write_text(text)
                print(f"{path.relative_to(ROOT)}: tables written")
        for fault in faults_of(text, TABLES):
            found += 1
            print(f"{path.relative_to(ROOT)}: {fault}")
    if not check:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in FIGURES:
            draw(name).savefig(FOLDER / f"{name}.png", dpi=170, metadata={"Software": None})
            print(f"docs/figures/performance/{name}.png")
    return int(found > 0)
