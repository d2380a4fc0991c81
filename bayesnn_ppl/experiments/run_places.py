"""Where a run goes, and what is said of one that ended early."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesnn_ppl import storage
from bayesnn_ppl.core.wording import program_name

__all__ = ["ELSEWHERE", "interrupt_told", "place_for_run", "time_in_warmup"]

ELSEWHERE = "Choose another folder with --out."


@contextmanager
def place_for_run(folder: Path) -> Iterator[None]:
    """Make the folder before the work, so hours of it cannot end in nowhere to write.

    A folder in which nothing has been drawn when the block fails is removed again.
    """
    new = not folder.exists()
    with storage.writing_to(folder, lambda: ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if new and folder.is_dir() and not (folder / "commit.json").exists():
            shutil.rmtree(folder)
        raise


@contextmanager
def time_in_warmup(folder: Path) -> Iterator[None]:
    """Name the command that continues a run whose time was up in its warm-up.

    Raises:
        RuntimeError: it was.
    """
    try:
        yield
    except RuntimeError as error:
        if "by its max_time" not in str(error):
            raise
        raise RuntimeError(
            "The time of --max-time was up in the warm-up, so there is no draw yet. All is saved: "
            f"`{program_name()} resume {folder}` continues from there."
        ) from error


@contextmanager
def interrupt_told(folder: Path | None) -> Iterator[None]:
    """Name the command that continues what Ctrl-C has left of a run.

    Raises:
        InterruptedError: it came before there was a draw.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        said = str(error) or "Interrupted before the job was done."
        if folder is not None:
            said = said.replace("`resume`", f"`{program_name()} resume {folder}`")
        raise InterruptedError(said) from None
