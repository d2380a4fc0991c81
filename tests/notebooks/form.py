"""What every notebook has in common, and how a stored one is compared with it."""

import ast
import re
import sys
from pathlib import Path

import nbformat

from tests.notebooks.execution import NOTEBOOKS, broken_claims, read

LIMIT = 400_000  # bytes
IMPORTS = {
    *("arviz", "bayesnn_ppl", "flax", "jax", "matplotlib", "numpy", "numpyro", "optax"),
    *("pandas", "scipy", "sklearn", "xarray", "ipywidgets", "IPython"),
}
_NAME = re.compile(r"\d\d_[a-z0-9_]+\.ipynb")
_MACHINE = re.compile(r" at 0x[0-9a-f]{6,}|/tmp/|site-packages|\x1b\[|ipykernel")


def tags(cell: nbformat.NotebookNode) -> set[str]:
    """The tags of a cell."""
    return set(cell.metadata.get("tags", ()))


def faults(path: Path, table: str | None = None) -> list[str]:
    """What is wrong with a stored notebook, in sentences; `table` is that of the folder."""
    notebook = read(path)
    if table is None:
        table = (NOTEBOOKS / "README.md").read_text()
    found = [*_head(path, notebook), *_teaching(notebook), *_breaking(notebook)]
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            found += [f"{cell.id}: {words}" for words in [*_outputs(cell), *_source(cell)]]
            if any("image/png" in output.get("data", {}) for output in cell.outputs):
                beside = notebook.cells[max(0, index - 1) : index + 2]
                if not any(other.cell_type == "markdown" for other in beside):
                    found.append(f"{cell.id}: a figure without text before or after it.")
    row = next((line for line in table.splitlines() if f"]({path.name})" in line), "")
    if len(row.split("|")) != 7 or not all(part.strip() for part in row.split("|")[1:-1]):
        found.append(f"notebooks/README.md: a full row of five columns for {path.name} is missing.")
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
    first, second = notebook.cells[:2]
    if first.cell_type != "markdown" or not first.source.startswith(f"# {path.name[:2]} "):
        found.append("The first cell must be its title, `# NN Title`.")
    if "parameters" not in tags(second) or not re.match(r"FULL = False  # True: ", second.source):
        found.append("The second cell must be tagged `parameters` and say `FULL = False  # True: `")
    return found


def _teaching(notebook: nbformat.NotebookNode) -> list[str]:
    found = []
    claims = [cell for cell in notebook.cells if "claim" in tags(cell)]
    if not claims:
        found.append("No cell is tagged `claim`.")
    for cell in claims:
        tests = [n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Assert)]
        if not tests or any(test.msg is None for test in tests):
            found.append(f"{cell.id}: a claim must assert, with a message.")
    exercises = [i for i, cell in enumerate(notebook.cells) if "exercise" in tags(cell)]
    if len(exercises) < 2:
        found.append(f"It has {len(exercises)} exercises, but needs two.")
    for index in exercises:
        following = notebook.cells[index + 1 : index + 2]
        if not following or "solution" not in tags(following[0]):
            found.append(f"{notebook.cells[index].id}: an exercise without a solution after it.")
        elif not following[0].metadata.get("jupyter", {}).get("source_hidden"):
            found.append(f"{following[0].id}: the source of a solution must be hidden.")
    if notebook.cells[-1].cell_type != "markdown":
        found.append("The last cell must say what to read next.")
    return found


def _breaking(notebook: nbformat.NotebookNode) -> list[str]:
    found = []
    for cell in broken_claims(notebook):
        broken = cell.metadata.bayesnn.broken
        if set(broken) != {"find", "replace", "why"}:
            found.append(f"{cell.id}: `broken` takes find, replace and why.")
        elif cell.source.count(broken.find) != 1 or broken.find == broken.replace:
            found.append(f"{cell.id}: {broken.find!r} must stand in the cell once, and change.")
    return found


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
    found = [f"has a line of {len(s)} characters." for s in cell.source.split("\n") if len(s) > 100]
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
