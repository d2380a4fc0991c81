"""The house stays surveyable: no folder of too many modules, no module that is too long."""

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "bayesnn_ppl"


def test_modules_have_at_most_300_lines():
    long = {p for p in PACKAGE.rglob("*.py") if len(p.read_text().splitlines()) > 300}
    assert not long, "Split them, or say in the docstring why their parts are read together."


def test_folders_have_at_most_15_modules():
    counts = {
        folder: len([p for p in folder.glob("*.py") if p.name != "__init__.py"])
        for folder in PACKAGE.rglob("*")
        if folder.is_dir()
    }
    assert {folder for folder, count in counts.items() if count > 15} == set()
