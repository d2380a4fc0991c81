"""Reading a run folder, finished or not, while another process may be writing to it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.commits import read_commit, read_config
from bayesnn_ppl.storage.derived import read_groups
from bayesnn_ppl.storage.dimensions import dimension_names, labelled
from bayesnn_ppl.storage.files import is_written_to, read_arrays
from bayesnn_ppl.storage.tree import (
    PROBE,
    PROVENANCE,
    datasets_of_chains,
    draw_numbers,
    probe_dataset,
)
from bayesnn_ppl.storage.zarr_store import (
    STORE,
    check_chunks,
    kept_before,
    open_store,
    stored_groups,
)

# What zarr and xarray raise where files do not say what they should.
DAMAGE = (
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    OverflowError,
)


_SOURCE = "source"  # xarray's own name for where something was read


def journal_blocks(record: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """The journal's files that the store has not overtaken: of one block of draws together."""
    blocks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for entry in record["journal"]:
        if entry["end"] > record["in_store"]:
            blocks.setdefault((entry["begin"], entry["end"]), []).append(entry)
    return [blocks[key] for key in sorted(blocks)]


def read_parts(path: Path, entries: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Arrays whose leading axis is the chain, from the files that each hold some chains."""
    found = [
        (entry["chains"], read_arrays(path / entry["file"], entry["crc32"])) for entry in entries
    ]
    if len(found) == 1 and found[0][0] in (None, [0, _chains(found[0][1])]):
        return found[0][1]
    found.sort(key=lambda part: part[0] or [0, 0])
    begin = 0
    for chains, arrays in found:
        if chains is None or chains[0] != begin or _chains(arrays) != chains[1] - chains[0]:
            raise ValueError(f"The files of `{path}` do not hold all chains, each of them once.")
        begin = chains[1]
    try:
        return {name: np.concatenate([arrays[name] for _, arrays in found]) for name in found[0][1]}
    except (KeyError, ValueError) as error:
        raise ValueError(f"The files of `{path}` do not go together: {error}.") from None


def _chains(arrays: Mapping[str, np.ndarray]) -> int:
    return next((len(a) for a in arrays.values() if a.ndim), 0)


def read(path: Path, *, first: int = 0, thin: int = 1) -> xr.DataTree:
    """The committed draws of a run, finished or not; values are read when they are used.

    Args:
        path: the run folder.
        first: leave out the draws before this one.
        thin: take the last of every `thin` draws.

    Raises:
        FileNotFoundError: there is no run.
        ValueError: no draw is committed yet, fewer than `thin` are, or a committed file is missing
            or damaged.
    """
    while True:
        record = read_commit(path)
        try:
            tree = read_record(path, record, first=first)
            tree = tree if thin == 1 else _thinned(tree, path, thin)
            tree.encoding[_SOURCE] = str(path)
            return tree
        except ValueError:
            # A writer that commits meanwhile removes the journal that the record named.
            if read_commit(path) == record:
                raise
        except DAMAGE as error:
            if read_commit(path) == record:
                what = str(error).strip() or type(error).__name__
                raise ValueError(
                    f"The run `{path}` is damaged: {what[:300]}. `bayesnn check` says "
                    "what is whole."
                ) from error


def read_values(tree: xr.DataTree, group: str, name: str) -> np.ndarray:
    """The values of a variable of a tree, which may be read from a run only now.

    Raises:
        ValueError: a chunk of it is damaged or gone.
    """
    array = tree[group].data_vars[name]
    return _values(array, f"{group}/{name}", tree.encoding.get(_SOURCE))


def _values(array: xr.DataArray, name: str, source: Path | str | None) -> np.ndarray:
    """The values of an array, which is then in memory; ValueError where they cannot be read."""
    try:
        return array.values
    except (ValueError, RuntimeError, OSError) as error:
        if source is None:
            raise
        what = str(error).strip().removesuffix(".") or type(error).__name__
        raise ValueError(
            f"`{name}` of the run `{source}` cannot be read: {what[:300]}. `bayesnn check "
            f"{source}` says which chunks are damaged, and with `--repair` keeps the draws before "
            "them. Or restore the run from a copy, or sample again."
        ) from error


def read_record(path: Path, record: dict[str, Any], *, first: int = 0) -> xr.DataTree:
    """The draws from `first` on that a record counts; see `read`."""
    config = read_config(path)
    if not record["draws"]:
        raise ValueError(_without_draws(path, record, config))
    check_chunks(path, record)
    in_store = record["in_store"]
    groups = stored_groups(config)
    parts: dict[str, list[xr.Dataset]] = {group: [] for group in groups}
    if in_store > first:
        kept = {
            group: slice(kept_before(first, every), kept_before(in_store, every))
            for group, every in groups.items()
        }
        opened = open_store(path / STORE, kept)
        chains = np.arange(max(found.sizes.get("chain", 0) for found in opened.values()))
        for group, found in opened.items():
            draws = draw_numbers(first, in_store, groups[group])
            if found.sizes.get("draw", len(draws)) != len(draws):
                raise ValueError(
                    f"The run `{path}` is damaged: its store holds {found.sizes['draw']} of the "
                    f"{len(draws)} draws of `{group}` that are committed. `bayesnn check` says "
                    "what is whole."
                )
            numbered = found.assign_coords(chain=chains, draw=draws)
            parts[group].append(labelled(numbered, group))
    for entries in journal_blocks(record):
        begin, end = max(entries[0]["begin"], in_store, first), entries[0]["end"]
        if begin >= end:
            continue
        arrays = read_parts(path, entries)
        for group, every in groups.items():
            # A journal may begin before the draws that are wanted, or not in the store.
            skip = kept_before(begin, every) - kept_before(entries[0]["begin"], every)
            held = kept_before(end, every) - kept_before(begin, every)
            variables = {}
            for key, a in arrays.items():
                if not key.startswith(f"{group}/"):
                    continue
                if a.ndim < 2 or a.shape[1] != held + skip:
                    raise ValueError(
                        f"The run `{path}` is damaged: `{key}` does not hold the draws {begin} to "
                        f"{end}, which its journal is of."
                    )
                name = key.removeprefix(f"{group}/")
                variables[name] = dimension_names(name, a.ndim, group), a[:, skip:]
            chains = next(iter(arrays.values())).shape[0]
            coordinates = {"chain": np.arange(chains), "draw": draw_numbers(begin, end, every)}
            parts[group].append(labelled(xr.Dataset(variables, coordinates), group))
    datasets = {group: _joined(found, group, path) for group, found in parts.items()}
    if record["moments"]:
        datasets |= datasets_of_chains(read_parts(path, record["moments"]))
    if config.get("starts"):
        file, checksum = config["starts"]
        datasets |= datasets_of_chains(read_arrays(path / file, checksum))
    if config.get("probe"):
        datasets[PROBE] = probe_dataset(read_arrays(path / config["probe"][0], config["probe"][1]))
    derived = config.get("derived")
    if derived and derived["draws"] == record["draws"] and not first:
        datasets |= read_groups(path / STORE, derived["groups"])
    if "posterior" in datasets:  # in the model's order: a store lists its arrays in any
        found = datasets["posterior"]
        known = [name for name in config.get("site_names", {}) if name in found.data_vars]
        datasets["posterior"] = found[[*known, *(n for n in found.data_vars if n not in known)]]
    tree = xr.DataTree.from_dict(datasets)
    tree.attrs[PROVENANCE] = json.dumps(config | {"draws": record["draws"]})
    return tree


def _joined(parts: list[xr.Dataset], group: str, path: Path) -> xr.Dataset:
    """The draws of store and journal, one after another."""
    if len(parts) == 1:
        return parts[0]
    for name, array in parts[0].data_vars.items():  # to be joined, and so read now
        _values(array, f"{group}/{name}", path)
    return xr.concat(parts, "draw", join="exact")


def _without_draws(path: Path, record: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """How far a run without draws has come, and whether it is being written."""
    phase, done = record["phase"], record["done"]
    where = "its warm-up" if phase == "warmup" else f"its phase `{phase}`"
    whole = config.get("warmup") if phase == "warmup" else None
    far = f"after {done} of {whole} draws" if whole else f"at {done}"
    if is_written_to(path):
        return f"The run `{path}` has no draws yet: it is still in {where}, {far}."
    if (path / "run.json").is_file():  # of the command line
        how = f"`bayesnn resume {path}` continues it"
    else:
        how = "`bayesnn_ppl.resume(folder, kernel, x, y)` continues it"
    return f"The run `{path}` has no draws: it stopped in {where} {far}; {how}."


def _thinned(tree: xr.DataTree, path: Path, thin: int) -> xr.DataTree:
    """The draws whose number, counted from 1, divides by `thin`."""
    provenance = json.loads(tree.attrs[PROVENANCE])
    kept = provenance["draws"] // thin
    if not kept:
        raise ValueError(
            f"The run `{path}` has {provenance['draws']} draws per chain, and every {thin}th is "
            "asked for: none is left."
        )

    def every(data: xr.Dataset) -> xr.Dataset:
        if "draw" not in data.dims:
            return data
        return data.isel(draw=np.flatnonzero((data["draw"].values + 1) % thin == 0))

    thinned = tree.map_over_datasets(every)
    thinned.attrs[PROVENANCE] = json.dumps(provenance | {"draws": kept, "thinned_on_read": thin})
    return thinned
