"""Run the cells of a study: in this process, in several, or on a Dask cluster; resumable.

A cell has a folder of its own, named by the hash of its settings. Its result is one file that is
written beside and renamed, so it is there whole or not at all; a cell that has one is not run
again.
"""

import json
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.experiments.protocols.kinds import as_table
from bayesnn_ppl.experiments.study import Cell, Study
from bayesnn_ppl.experiments.study_cells import run_cell
from bayesnn_ppl.storage.files import write_json

__all__ = ["ENGINES", "Outcome", "result_file", "run_study"]

type RunCell = Callable[[Cell, Path], Mapping[str, Any]]

ENGINES = ("processes", "dask")
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
    engine: str = "processes",
    scheduler: str | None = None,
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
            a row of each in the table. It must be importable, for other processes.
        jobs: cells at a time. 1 with "processes" runs all in this process.
        engine: "processes", by joblib; "dask", by joblib on a Dask cluster.
        scheduler: address of a Dask scheduler whose workers see the folder; None for a cluster of
            `jobs` local processes.
        report: told each outcome, how many are done, and how many there are.

    Returns:
        An outcome for each cell, in the order of `study.cells`.

    Raises:
        ValueError: an argument is out of range, or the folder is that of another study.
        ImportError: Dask is not installed.
    """
    jobs = integer(jobs, "`jobs`", at_least=1)
    if engine not in ENGINES:
        raise ValueError(f"The engine `{engine}` is unknown: there are {', '.join(ENGINES)}.")
    if scheduler is not None and engine != "dask":
        raise ValueError("A scheduler's address is for the engine dask. Leave it out.")
    cells = study.cells(scale)
    _claim(folder, study, scale)
    done = {c.key: Outcome(c, ran=False) for c in cells if result_file(folder, c).is_file()}
    waiting = [cell for cell in cells if cell.key not in done]
    for number, outcome in enumerate(done.values(), start=1):
        if report is not None:
            report(outcome, number, len(cells))
    # Closed by name: what ends the loop also ends the processes, here and not when it is collected.
    with closing(_run(waiting, folder, run_cell, jobs, engine, scheduler)) as outcomes:
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
    cells: Sequence[Cell],
    folder: Path,
    run_cell: RunCell,
    jobs: int,
    engine: str,
    scheduler: str | None,
) -> Generator[Outcome]:
    if not cells:
        return
    if jobs == 1 and engine == "processes":  # one process compiles what cells share once
        yield from (complete(cell, folder, run_cell) for cell in cells)
        return
    import joblib

    with _backend(jobs, engine, scheduler) as count:
        parallel = joblib.Parallel(n_jobs=count, return_as="generator_unordered")
        outcomes = parallel(
            joblib.delayed(complete)(cell, folder.resolve(), run_cell) for cell in cells
        )
        try:
            for outcome in outcomes:  # noqa: UP028 - closed below, where it may not warn
                yield outcome
        finally:
            with warnings.catch_warnings():
                # Of cells that are cut off: their results, if any, are on disk all the same.
                warnings.simplefilter("ignore", UserWarning)
                outcomes.close()


@contextmanager
def _backend(jobs: int, engine: str, scheduler: str | None) -> Iterator[int]:
    """The backend of joblib within the block; yields how many cells it runs at a time."""
    import joblib

    if engine == "processes":
        with joblib.parallel_config(backend="loky"), warnings.catch_warnings():
            # Loky renews a process that has grown by 300 MB, as compiled programs and data do.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs")
            yield jobs
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "The engine dask needs Dask: `pip install 'bayesnn_ppl[dask]'`, or leave --engine out."
        ) from error
    if scheduler is not None:
        with Client(scheduler), joblib.parallel_config(backend="dask"):
            yield -1
        return
    # A process for each cell: JAX takes the threads, and a crash takes no other cell along.
    with (
        LocalCluster(
            n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        yield jobs
