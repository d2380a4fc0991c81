"""Every public method has a page of one shape, with an equation, an example and its figure.

The examples of three pages run here; those of the others run in `test_blocks.py`, under the mark
`check`.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.app import app_for
from docs.figures import method_figures
from tests.docs.reading import DRAWN, ROOT, blocks
from tests.docs.test_commands import typed

sys.path.insert(0, str(ROOT / "docs" / "ext"))
import method_pages  # noqa: E402

PAGES = [(kind, name) for kind in method_pages.MODULES for name in method_pages.methods(kind)]
RESULTS = json.loads(method_figures.RESULTS.read_text())
REFERENCE = json.loads(method_figures.REFERENCE.read_text())
every_page = pytest.mark.parametrize(("kind", "name"), PAGES, ids=[name for _, name in PAGES])


def path_of(kind, name):
    return ROOT / "docs" / "methods" / kind / f"{name}.md"


def test_every_public_method_has_a_page():
    assert {"HMC", "SGHMC", "NUTS", "Laplace", "Variational"} <= {name for _, name in PAGES}
    assert len(PAGES) == len(set(PAGES)) == len(method_figures.pages())


@every_page
def test_a_page_has_the_shape_of_all(kind, name):
    text = path_of(kind, name).read_text()
    assert text.startswith(f"# {name}\n\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == list(method_pages.HEADINGS)
    target = method_pages.section(text, "Target and update")
    assert target.startswith("**Target:** ") and "**Update:**" in target
    assert target.count("$$") >= 2 and target.count("$$") % 2 == 0
    for place in method_pages.HEADINGS:
        assert method_pages.section(text, place)
    assert re.search(r"\((19|20)\d\d\)", method_pages.section(text, "Reference"))


@every_page
def test_an_example_uses_public_names_and_is_short(kind, name):
    (code,) = (text for _, text in blocks(path_of(kind, name), "python"))
    assert code == method_figures.example_of(path_of(kind, name))
    assert 5 <= len([line for line in code.splitlines() if line.strip()]) <= 12
    assert "bayesnn_ppl." not in code
    assert ("NUTS(model)" if name == "NUTS" else f"bnn.{kind}.{name}(") in code


@every_page
def test_a_figure_is_that_of_the_example(kind, name):
    text = path_of(kind, name).read_text()
    (alt,) = re.findall(r"^:alt: (.*)$", text, re.MULTILINE)
    assert f"figures/methods/{name}.png" in text and len(alt) > 40
    path = method_figures.FOLDER / f"{name}.png"
    assert path.stat().st_size < 45_000
    with Image.open(path) as image:
        assert 400 < image.width < 600
    found = RESULTS[name]
    again = f"python -m docs.figures.method_figures {name}"
    assert found["example"] == method_figures.digest(
        method_figures.example_of(path_of(kind, name))
    ), again
    assert method_figures.sentence(found, REFERENCE) in text, again


def test_the_reference_has_converged():
    assert REFERENCE["largest_rhat"] < 1.01
    assert REFERENCE["smallest_ess"] > 1000


def test_nothing_else_is_in_the_folder_of_figures():
    names = {path.stem for path in method_figures.FOLDER.glob("*.png")}
    assert names == {name for _, name in PAGES} == set(RESULTS)


@pytest.mark.parametrize("name", DRAWN)
def test_an_example_runs_and_is_drawn(name, monkeypatch, tmp_path):
    names = method_figures.run(method_figures.example_of(method_figures.pages()[name]))
    figure = method_figures.draw(names, REFERENCE, traced=name != "Laplace")
    method_figures.save(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    x, values = method_figures.functions(names)
    band, noise = names["prediction"].mean, values.reshape(-1, len(x)).mean(0)
    assert abs(band - noise).max() < 1e-3, "functions and predictions are in one unit"


# What stands for a model of the reader's own.
MODEL = """import bayesnn_ppl as bnn

model = bnn.models.mlp(hidden=4, prior=bnn.priors.learned_normal(over="layer"))
"""
# What makes a fit short, where it has the option; a sampler is shortened as in `test_commands.py`.
SHORTER = {"--epochs": "20", "--mode-epochs": "20", "--steps": "100"}


@pytest.mark.check
@every_page
def test_the_command_of_a_page_runs(kind, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = method_pages.command_of(kind, name)
    Path("my_model.py").write_text(MODEL)
    if line is None:
        assert name.startswith("Biased"), "only what is wrong on purpose has no command"
    elif kind == "kernels":
        typed(line)
    else:
        words = line.split()[1:]
        has = app_for(words)[2]
        mode = ["--mode", "map"] if "--mode" in has else []
        small = ["--hidden", "4"] if "mlp" in words else []
        taken = [(option, value) for option, value in SHORTER.items() if option in has]
        taken = taken[:1] if name in ("Variational", "NaturalGradient", "EmpiricalBayes") else taken
        assert main([*words, *mode, *small, *(word for pair in taken for word in pair)]) == 0
