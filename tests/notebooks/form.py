"""What every notebook has in common: `faults` says in sentences where one differs."""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import nbformat

from tests.notebooks.execution import INSTALL, NOTEBOOKS, Break, breaks, read, tags
from tests.notebooks.teaching import captions, corrections, exercises, objectives

LIMIT = 400_000  # bytes
LINES = 30  # of a code cell
IMPORTS = {
    *("arviz", "bayesnn_ppl", "flax", "jax", "matplotlib", "numpy", "numpyro", "optax"),
    *("pandas", "scipy", "sklearn", "xarray", "ipywidgets", "IPython"),
}
LEDGER = NOTEBOOKS.parent / "CONTRIBUTING.md"
_NAME = re.compile(r"\d\d_[a-z0-9_]+\.ipynb")
_MACHINE = re.compile(r" at 0x[0-9a-f]{6,}|/tmp/|site-packages|\x1b\[|ipykernel")


def faults(path: Path, table: str | None = None) -> list[str]:
    """What is wrong with a stored notebook, in sentences; `table` is that of the claims."""
    notebook = read(path)
    if table is None:
        table = LEDGER.read_text()
    found = [*_head(path, notebook), *_claims(notebook), *_breaks(notebook)]
    for check in (objectives, captions, exercises, corrections):
        found += check(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found += [f"{cell.id}: {words}" for words in [*_outputs(cell), *_source(cell)]]
    row = next((line for line in table.splitlines() if f"/{path.name})" in line), "")
    if len(row.split("|")) != 7 or not all(part.strip() for part in row.split("|")[1:-1]):
        found.append(f"{LEDGER.name}: a full row of five columns for {path.name} is missing.")
    return found


def _head(path: Path, notebook: nbformat.NotebookNode) -> list[str]:
    found = []
    if not _NAME.fullmatch(path.name):
        found.append("The name must be NN_short_name.ipynb.")
    if path.stat().st_size > LIMIT:
        found.append(f"It has {path.stat().st_size // 1000} kB, above {LIMIT // 1000}.")
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        found.append("It must be nbformat 4.5.")
    if set(notebook.metadata) != {"kernelspec", "language_info"}:
        found.append("Its metadata must be those of a stored one: `make notebooks-store`.")
    expected = [f"{path.name[:2]}-{number:03d}" for number in range(1, len(notebook.cells) + 1)]
    if [cell.id for cell in notebook.cells] != expected:
        found.append("Its cells must be numbered: `make notebooks-store`.")
    first, second, third = notebook.cells[:3]
    if first.cell_type != "markdown" or not first.source.startswith(f"# {path.name[:2]} "):
        found.append("The first cell must be its title, `# NN Title`.")
    if "install" not in tags(second) or second.source != INSTALL:
        found.append("The second cell must be the one that installs: `make notebooks-store`.")
    if "parameters" not in tags(third) or not re.match(r"FULL = False  # True: ", third.source):
        found.append("The third cell must be tagged `parameters` and say `FULL = False  # True: `")
    if not notebook.cells[-1].source.startswith("## What to read next\n"):
        found.append("The last cell must be `## What to read next`.")
    return found


def _claims(notebook: nbformat.NotebookNode) -> list[str]:
    found = []
    claims = [cell for cell in notebook.cells if "claim" in tags(cell)]
    if not claims:
        found.append("No cell is tagged `claim`.")
    for cell in claims:
        tests = [n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Assert)]
        if not tests or any(test.msg is None for test in tests):
            found.append(f"{cell.id}: a claim must assert, with a message.")
        if not _named(cell):
            found.append(f"{cell.id}: a claim needs a tag `figure-n` or `claim-name` as well.")
    counts = Counter(tag for cell in claims for tag in _named(cell))
    found += [f"Two claims are tagged `{tag}`." for tag, count in counts.items() if count > 1]
    return found


def _named(cell: nbformat.NotebookNode) -> set[str]:
    """The tags by which a break names the claim that it must fail."""
    return {tag for tag in tags(cell) if re.fullmatch(r"figure-\d+|claim-[a-z0-9-]+", tag)}


def _breaks(notebook: nbformat.NotebookNode) -> list[str]:
    found = []
    broken: set[str] = set()
    for one in breaks(notebook):
        cell = notebook.cells[one.cell]
        if set(one.change) != {"find", "replace", "why", "fails"}:
            found.append(f"{cell.id}: a break takes find, replace, why and fails.")
            continue
        found += _change(cell, one)
        broken.add(one.change["fails"])
    for cell in notebook.cells:
        if "claim" in tags(cell) and not _named(cell) & broken:
            found.append(f"{cell.id}: no break says that it makes this claim fail.")
    return found


def _change(cell: nbformat.NotebookNode, one: Break) -> list[str]:
    find, replace = one.change["find"], one.change["replace"]
    if cell.source.count(find) != 1 or find == replace:
        return [f"{cell.id}: {find!r} must stand in the cell once, and change."]
    lines = [line for line in cell.source.splitlines() if find.splitlines()[0] in line]
    if any(line.lstrip().startswith("assert") for line in lines):
        return [f"{cell.id}: a break changes what is claimed, not the assertion."]
    return []


def _outputs(cell: nbformat.NotebookNode) -> list[str]:
    found = []
    if cell.execution_count is None:
        found.append("not executed.")
    for output in cell.outputs:
        if output.output_type == "error":
            found.append(f"raised {output.ename}.")
        if output.get("name") == "stderr":
            found.append("wrote to stderr, such as a warning or a progress bar.")
        shown = "".join(output.get("data", {}).get("text/plain", "")) + output.get("text", "")
        if _MACHINE.search(shown):
            found.append(f"shows {_MACHINE.search(shown)[0]!r}, which is true of one run only.")
    return found


def _source(cell: nbformat.NotebookNode) -> list[str]:
    try:
        tree = ast.parse(cell.source)
    except SyntaxError:
        return ["is not plain Python (magic commands are not needed here)."]
    lines = cell.source.split("\n")
    found = [f"has a line of {len(line)} characters." for line in lines if len(line) > 100]
    if len(lines) > LINES:
        found.append(f"has {len(lines)} lines, above {LINES}.")
    for node in ast.walk(tree):
        for name in _imported(node):
            top, _, rest = name.partition(".")
            if top not in IMPORTS | set(sys.stdlib_module_names):
                found.append(f"imports {top}, which is not for notebooks.")
            if top == "bayesnn_ppl" and rest:
                found.append(f"imports {name}: use `import bayesnn_ppl as bnn`.")
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            found.append(f"uses the private name {node.attr}.")
    return found


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []
