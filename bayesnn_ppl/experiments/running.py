"""Run the cells of a study, in this process or on the workers of a cluster; resumable.

A cell has a folder of its own, named by the hash of its settings. Its result is one file that is
written to a temporary file and renamed, so it is complete or absent; a cell that has one is not run
again.
"""

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.distributed.clusters import connected
from bayesnn_ppl.distributed.tasks import calls_on_workers
from bayesnn_ppl.experiments.protocols.kinds import as_table
from bayesnn_ppl.experiments.study import Cell, Study
from bayesnn_ppl.experiments.study_cells import run_cell
from bayesnn_ppl.storage.files import write_json

__all__ = ["Outcome", "result_file", "run_study"]

type RunCell = Callable[[Cell, Path], Mapping[str, Any]]

_RECORD = "study.json"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell.

    Attributes:
        cell: which.
        ran: whether it was run now; else its result was there.
        error: why it failed, or None.
    """

    cell: Cell
    ran: bool
    error: str | None = None


def run_study(
    study: Study,
    scale: str,
    folder: Path,
    run_cell: RunCell = run_cell,
    *,
    jobs: int = 1,
    cluster: Any = None,
    report: Callable[[Outcome, int, int], None] | None = None,
) -> list[Outcome]:
    """Run what of a study has no result yet.

    A cell that fails leaves no result and stops none of the others: the next call tries it again.
    Ctrl-C ends the study; what is done stays done.

    Args:
        study: of `load_study`.
        scale: one of `SCALES`.
        folder: of this study at this scale, new or begun before.
        run_cell: runs a cell in a folder, or resumes what an ended process left there, and
            returns its figures, JSON-ready; `places` in them, a list of {"x": ..., figures}, makes
            a row of each in the table.
        jobs: cells at a time, each in a process of this machine; 1 for this process alone.
        cluster: workers that run the cells instead, as in `sample`; they see the folder.
        report: told each outcome, how many are done, and how many there are.

    Returns:
        An outcome for each cell, in the order of `study.cells`.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or the folder is that of another
            study.
    """
    jobs = integer(jobs, "`jobs`", at_least=1)
    if jobs > 1 and cluster is not None:
        raise ValueError("`jobs` are processes of this machine, and `cluster` has its own workers.")
    cells = study.cells(scale)
    _claim(folder, study, scale)
    done = {c.key: Outcome(c, ran=False) for c in cells if result_file(folder, c).is_file()}
    waiting = [cell for cell in cells if cell.key not in done]
    for number, outcome in enumerate(done.values(), start=1):
        if report is not None:
            report(outcome, number, len(cells))
    # Closed by name: what ends the loop also ends the workers, here and not when it is collected.
    with closing(
        _run(waiting, folder, run_cell, f"local:{jobs}" if jobs > 1 else cluster)
    ) as outcomes:
        for outcome in outcomes:
            done[outcome.cell.key] = outcome
            if report is not None:
                report(outcome, len(done), len(cells))
    return [done[cell.key] for cell in cells]


def result_file(folder: Path, cell: Cell) -> Path:
    """Where the result of a cell is, once it has one."""
    return folder / "cells" / cell.key / "result.json"


def complete(cell: Cell, folder: Path, run_cell: RunCell) -> Outcome:
    """Run a cell and write its result; one that has a result is left as it is."""
    result = result_file(folder, cell)
    if result.is_file():  # another process was quicker
        return Outcome(cell, ran=False)
    result.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    try:
        figures = dict(run_cell(cell, result.parent / "run"))
    except Exception as error:
        return Outcome(cell, ran=True, error=str(error) or type(error).__name__)
    write_json(
        result,
        {
            "arm": cell.arm,
            "recipe": cell.recipe,
            "scale": cell.scale,
            "x": cell.x,
            "seed": cell.seed,
            "settings": dict(cell.overrides),
            "protocol": as_table(cell.protocol),
            "figures": figures,
            "seconds": round(time.perf_counter() - began, 3),
        },
    )
    return Outcome(cell, ran=True)


def _claim(folder: Path, study: Study, scale: str) -> None:
    """Write down whose folder it is, or see that it is this study's."""
    wanted, path = {"study": study.name, "scale": scale}, folder / _RECORD
    if not path.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(
                f"`{folder}` holds something that is not a study. Choose another folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, wanted)
    found = json.loads(path.read_text(encoding="utf-8"))
    if found != wanted:
        raise ValueError(
            f"`{folder}` holds the study `{found.get('study')}` at the scale "
            f"`{found.get('scale')}`, and this is `{study.name}` at `{scale}`. Choose another "
            "folder."
        )


def _run(
    cells: Sequence[Cell], folder: Path, run_cell: RunCell, cluster: Any
) -> Generator[Outcome]:
    if not cells:
        return
    if cluster is None:  # one process compiles what cells share once
        yield from (complete(cell, folder, run_cell) for cell in cells)
        return
    shared = folder.resolve(), run_cell
    with (
        connected(cluster, len(cells)) as client,
        closing(calls_on_workers(client, _complete_on_worker, shared, cells)) as calls,
    ):
        for index, result in calls:
            try:
                outcome = result()
            except Exception as error:  # its worker was lost, again and again
                outcome = Outcome(cells[index], ran=True, error=str(error))
            if outcome.error is None and not result_file(folder, outcome.cell).is_file():
                unseen = (
                    f"This process does not see the worker's `{shared[0]}`. Give a folder that "
                )
                outcome = Outcome(outcome.cell, ran=True, error=f"{unseen}all share.")
            yield outcome


def _complete_on_worker(shared: tuple[Path, RunCell], cell: Cell) -> Outcome:
    return complete(cell, *shared)
