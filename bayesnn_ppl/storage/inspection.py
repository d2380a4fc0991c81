"""Is a run on disk whole? And if not, keep what is."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bayesnn_ppl.storage.commits import read_commit, read_config
from bayesnn_ppl.storage.coordinates import WrongCoordinate, rewrite, wrong_coordinates
from bayesnn_ppl.storage.derived import read_groups
from bayesnn_ppl.storage.files import read_arrays, write_json
from bayesnn_ppl.storage.folder import RunFolder
from bayesnn_ppl.storage.hostile import check_chunk, packing_of
from bayesnn_ppl.storage.reading import DAMAGE, journal_blocks, read_parts
from bayesnn_ppl.storage.zarr_store import STORE, chunk_file, committed_chunks, stored_groups


def _problems(path: Path) -> tuple[list[str], int, list[WrongCoordinate]]:
    """What is wrong, in sentences; how many draws from the first on are whole; coordinates.

    The sentences on the coordinates are among those, as the last.
    """
    record = read_commit(path)
    problems, whole, coordinates = [], record["draws"], []
    if record["in_store"]:
        import zarr

        config = read_config(path)
        chunk, every = config["storage"]["chunk_draws"], stored_groups(config)
        root: Any = zarr.open_group(path / STORE, mode="r")
        for group, name, ndim, index in committed_chunks(path, record):
            place = f"chunk {index} of `{group}/{name}`"
            file = chunk_file(path, group, name, index, ndim)
            if not file.is_file():
                problems.append(f"The {place} is missing.")
            else:
                try:
                    check_chunk(file, packing_of(path / STORE / group / name))
                    rows = chunk // every[group]
                    root[f"{group}/{name}"][:, index * rows : (index + 1) * rows]
                except (ValueError, RuntimeError, OSError) as error:
                    problems.append(f"The {place} is damaged: {error}")
                else:
                    continue
            whole = min(whole, index * chunk)
        coordinates = wrong_coordinates(path, record)

    def reads(look: Callable[[], Any], remark: str = "") -> bool:
        try:
            look()
        except ValueError as error:
            problems.append(f"{error}{remark}")
            return False
        return True

    for entries in journal_blocks(record):
        if not reads(partial(read_parts, path, entries)):
            whole = min(whole, max(entries[0]["begin"], record["in_store"]))
    if record["checkpoint"] is not None:
        remark = " The draws are not touched, but the run cannot be resumed."
        reads(partial(read_parts, path, record["checkpoint"]), remark)
    config = read_config(path)
    for what in ("probe", "starts"):
        if stored := config.get(what):
            file, checksum = stored
            reads(partial(read_arrays, path / file, checksum), " The draws are not touched.")
    if derived := config.get("derived"):
        try:
            for dataset in read_groups(path / STORE, derived["groups"]).values():
                dataset.load()
        except (ValueError, OSError, *DAMAGE) as error:
            problems.append(f"A group made from the draws is damaged: {error}")
    if record["moments"]:
        reads(partial(read_parts, path, record["moments"]), " The moments of the weights are lost.")
    return [*problems, *map(str, coordinates)], whole, coordinates


def check(path: Path) -> list[str]:
    """Read everything that the commit counts on; a sentence for each thing that is wrong.

    Raises:
        FileNotFoundError: there is no run.
    """
    try:
        return _problems(path)[0]
    except DAMAGE as error:
        what = str(error).strip() or type(error).__name__
        raise ValueError(f"The run `{path}` is damaged: {what[:300]}.") from error


def repair(path: Path) -> int:
    """Keep the draws before the first that is damaged; returns how many those are.

    Coordinates are written again. Where more is damaged, the repaired run is finished: its
    checkpoint belongs to draws that are gone.

    Raises:
        ValueError: no draw at all is whole.
    """
    problems, whole, coordinates = _problems(path)
    record = read_commit(path)
    if not problems:
        return record["draws"]
    if not whole:
        raise ValueError(f"No draw of the run `{path}` is whole: there is nothing to keep.")
    folder = RunFolder(path, read_config(path), record)
    try:
        for wrong in coordinates:
            rewrite(path, wrong)
        if len(problems) == len(coordinates):  # all draws are whole, and the run can be resumed
            folder.update_config(repaired=problems)
            return record["draws"]
        journal = [entry for entry in record["journal"] if entry["end"] <= whole]
        record |= {
            "draws": whole,
            "done": whole,
            "in_store": min(record["in_store"], whole),
            "journal": journal,
            "checkpoint": None,
            "moments": None,  # of draws that are gone too
            "complete": True,
        }
        write_json(path / "commit.json", record)
        folder._remove_groups()
        folder.update_config(repaired=problems)
    finally:
        folder.release()
    return whole
