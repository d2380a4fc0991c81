"""The rules for notebooks notice what breaks them, on a small notebook that keeps them all."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.notebooks.execution import break_claim, execute, read, store
from tests.notebooks.form import faults

FIGURE = "import matplotlib.pyplot as plt\n\nplt.plot([1, 2])\nplt.show()"
ROW = "| [99](99_small.ipynb) | a | b | c | d |"


def small():
    """A notebook as it should be, not executed."""
    hidden = {"tags": ["solution"], "jupyter": {"source_hidden": True}}
    broken = {"bayesnn": {"broken": {"find": "1 + 1", "replace": "1 - 1", "why": "sign"}}}
    return new_notebook(
        cells=[
            new_markdown_cell("# 99 Small"),
            new_code_cell("FULL = False  # True: more", metadata={"tags": ["parameters"]}),
            new_markdown_cell("A line rises."),
            new_code_cell(FIGURE),
            new_code_cell("total = 1 + 1", metadata=broken),
            new_code_cell('assert total == 2, "1 + 1 is 2"', metadata={"tags": ["claim"]}),
            new_markdown_cell("What is 2 + 2?", metadata={"tags": ["exercise"]}),
            new_code_cell("2 + 2", metadata=hidden),
            new_markdown_cell("What is 3 + 3?", metadata={"tags": ["exercise"]}),
            new_code_cell("3 + 3", metadata=hidden),
            new_markdown_cell("Next: nothing."),
        ]
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """It, executed and stored."""
    path = tmp_path_factory.mktemp("notebooks") / "99_small.ipynb"
    nbformat.write(small(), path)
    store(path)
    return path


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_as_it_should_be(stored):
    assert faults(stored, ROW) == []
    before = stored.read_bytes()
    run = store(stored)
    assert stored.read_bytes() == before, "Storing twice must give the same bytes."
    assert run.failure is None and 0 < run.processor < 60
    assert b"image/png" in before and before.endswith(b"}\n")


@pytest.mark.filterwarnings("ignore")
def test_a_broken_claim_stops_at_the_claim(stored, tmp_path):
    notebook = read(stored)
    break_claim(notebook, "99-005")
    failure = execute(notebook, tmp_path).failure
    assert (failure.cell.id, failure.name) == ("99-006", "AssertionError")
    assert failure.message == "1 + 1 is 2"


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_that_fails_is_not_stored(stored, tmp_path):
    path = tmp_path / stored.name
    notebook = read(stored)
    notebook.cells[3].source = "raise ValueError('no')"
    nbformat.write(notebook, path)
    before = path.read_bytes()
    assert store(path).failure.message == "no"
    assert path.read_bytes() == before


def change(index, **values):
    def apply(notebook):
        for name, value in values.items():
            setattr(notebook.cells[index], name, value)

    return apply


STDERR = nbformat.v4.new_output("stream", name="stderr", text="UserWarning: beware")
ADDRESS = nbformat.v4.new_output("execute_result", {"text/plain": "<object at 0x7f8e1ab2c3d0>"})


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (change(0, source="No title"), "title"),
        (change(1, source="FULL = True"), "FULL = False"),
        (change(2, cell_type="code", outputs=[], execution_count=1, source="1"), "without text"),
        (change(3, execution_count=None), "not executed"),
        (change(3, outputs=[STDERR]), "stderr"),
        (change(3, outputs=[ADDRESS]), "one run only"),
        (change(3, source="import bayesnn_ppl.modeling.bayesian_networks"), "import bayesnn_ppl as bnn"),
        (change(3, source="from bayesnn_ppl import _x"), "import bayesnn_ppl as bnn"),
        (change(3, source="import helper"), "helper"),
        (change(3, source="bnn._functions"), "private"),
        (change(3, source="%matplotlib inline"), "plain Python"),
        (change(3, source="x = 1  # " + "long " * 30), "characters"),
        (change(4, source="total = 2"), "must stand in the cell once"),
        (change(5, source="assert total == 2"), "with a message"),
        (change(5, metadata={}), "tagged `claim`"),
        (change(7, metadata={}), "without a solution"),
        (change(7, metadata={"tags": ["solution"]}), "hidden"),
        (change(8, metadata={}), "1 exercises"),
        (change(10, id="other"), "numbered"),
        (lambda notebook: notebook.cells.pop(), "what to read next"),
        (lambda notebook: notebook.metadata.update(widgets={}), "metadata"),
    ],
)
def test_what_is_wrong_is_noticed(stored, tmp_path, spoil, words):
    path = tmp_path / stored.name
    notebook = read(stored)
    spoil(notebook)
    nbformat.write(notebook, path)
    assert any(words in fault for fault in faults(path, ROW)), faults(path, ROW)


@pytest.mark.parametrize("table", ["", ROW.replace("| c ", ""), ROW.replace(" b ", "  ")])
def test_a_row_that_is_missing_is_noticed(stored, table):
    (fault,) = faults(stored, table)
    assert "notebooks/README.md" in fault


def test_a_notebook_that_is_too_large_is_noticed(stored, tmp_path):
    path = tmp_path / stored.name
    path.write_bytes(stored.read_bytes() + b" " * 400_000)
    assert any("kB" in fault for fault in faults(path, ROW))
