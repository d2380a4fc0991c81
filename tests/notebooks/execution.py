"""Notebooks run in a kernel of their own, and what is stored of a run."""

import base64
import io
import os
import resource
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_SECONDS = 300  # for one cell, on a machine with other work
_FULL_SECONDS = 3 * 3600
INSTALL = """\
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("bayesnn_ppl") is None:  # on Colab or Binder, or a new machine
    install = [sys.executable, "-m", "pip", "install", "-q", "bayesnn_ppl[notebooks]"]
    subprocess.run(install, check=True)"""


class Failure(NamedTuple):
    """Where a notebook stopped: the cell, and the exception as Python names and words it."""

    cell: nbformat.NotebookNode
    name: str
    message: str


class Run(NamedTuple):
    """An executed notebook, its kernel's processor time in seconds, and where it stopped."""

    notebook: nbformat.NotebookNode
    processor: float
    failure: Failure | None


class _Client(NotebookClient):
    """nbclient, which falls over output of a widget whose state it has not seen yet."""

    def reset_execution_trackers(self) -> None:
        super().reset_execution_trackers()
        self.widget_state = defaultdict(dict)


def paths() -> list[Path]:
    """All notebooks, in the order in which they are read."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def read(path: Path) -> nbformat.NotebookNode:
    """A notebook in the one format that is kept here."""
    return nbformat.read(path, as_version=4)


def execute(notebook: nbformat.NotebookNode, folder: Path, *, full: bool = False) -> Run:
    """Run all cells afresh in `folder`, or those up to the first that raises.

    The kernel sees no data folder and draws its figures inline, as for a learner. What it
    compiles is kept for the session's other kernels, where JAX_COMPILATION_CACHE_DIR says so.
    With `full` the notebook has FULL = True, and its kernel the data folder and hours.
    """
    # What the machine or the tests set, and a learner has not.
    unset = {"MPLBACKEND", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS"}
    if full:
        (parameters,) = [cell for cell in notebook.cells if "parameters" in tags(cell)]
        parameters.source = parameters.source.replace("FULL = False", "FULL = True", 1)
    else:
        unset.add("BAYESNN_DATA")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"JAX_PLATFORMS": "cpu", "IPYTHONDIR": str(folder / ".ipython")}
    client = _Client(
        notebook,
        timeout=_FULL_SECONDS if full else _SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,  # what one cell prints is one output, however it arrives
        store_widget_state=False,
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    failure = None
    try:
        client.execute(env=environment)
    except CellExecutionError as error:
        failure = Failure(_stopped(notebook), error.ename, error.evalue)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(notebook, processor, failure)


def _stopped(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The cell that raised."""
    return next(
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and any(o.output_type == "error" for o in cell.outputs)
    )


class Break(NamedTuple):
    """A change that must make one claim fail: the cell's index, and find, replace, why, fails."""

    cell: int
    change: dict[str, str]


def tags(cell: nbformat.NotebookNode) -> set[str]:
    """The tags of a cell."""
    return set(cell.metadata.get("tags", ()))


def breaks(notebook: nbformat.NotebookNode) -> list[Break]:
    """The changes that the metadata of the cells name."""
    return [
        Break(index, change)
        for index, cell in enumerate(notebook.cells)
        for change in cell.metadata.get("bayesnn", {}).get("broken", ())
    ]


def make(notebook: nbformat.NotebookNode, one: Break) -> None:
    """Make the replacement of one break."""
    cell, find = notebook.cells[one.cell], one.change["find"]
    assert cell.source.count(find) == 1, f"{find!r} must stand in {cell.id} once."
    cell.source = cell.source.replace(find, one.change["replace"])


def normalise(notebook: nbformat.NotebookNode) -> None:
    """Drop what differs from run to run: times, widgets, versions."""
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    )
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            # The number of a widget is drawn anew each time, and nothing shows it unexecuted.
            cell.outputs = [
                output
                for output in cell.outputs
                if not any("jupyter.widget" in kind for kind in output.get("data", {}))
            ]
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    output.data["image/png"] = _small(output.data["image/png"])
    notebook.nbformat, notebook.nbformat_minor = 4, 5


def _small(image: str) -> str:
    """A figure with a palette of its own colours: a third of the bytes, and no loss to the eye."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(image))) as opened:
        opened.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT).save(
            buffer, "png", optimize=True, dpi=opened.info.get("dpi")
        )
    return base64.b64encode(buffer.getvalue()).decode()


def store(path: Path) -> Run:
    """Execute a notebook and write its outputs into it, unless a cell raises."""
    notebook = read(path)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"{path.name[:2]}-{number:03d}"
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        run = execute(notebook, Path(folder))
    if run.failure is None:
        normalise(notebook)
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
    return run
