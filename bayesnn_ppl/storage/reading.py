"""Reading a run folder, finished or not, while another process may be writing to it."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.commits import read_commit, read_config, read_json
from bayesnn_ppl.storage.derived import GROUPS, read_groups
from bayesnn_ppl.storage.dimensions import dimension_names, labelled
from bayesnn_ppl.storage.files import is_written_to, read_arrays
from bayesnn_ppl.storage.hostile import Packing, check_chunk, check_store, packing_of
from bayesnn_ppl.storage.tree import (
    PROBE,
    PROVENANCE,
    datasets_of_chains,
    draw_numbers,
    probe_dataset,
)

__all__ = [
    "DAMAGE",
    "STORE",
    "check_chunks",
    "chunk_file",
    "committed_chunks",
    "journal_blocks",
    "kept_before",
    "read",
    "read_parts",
    "read_record",
    "stored_groups",
]

STORE = "posterior.zarr"
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
_MOST_MISSING = 1000  # chunks that are named one by one


def chunk_file(path: Path, group: str, name: str, index: int, ndim: int) -> Path:
    """Where the store keeps a chunk: it is cut along the draws only."""
    return path.joinpath(STORE, group, name, "c", "0", str(index), *["0"] * (ndim - 2))


def kept_before(draws: int, every: int) -> int:
    """How many of the first `draws` draws a group holds that keeps the last of every `every`."""
    return draws // every


def stored_groups(config: Mapping[str, Any]) -> dict[str, int]:
    """Group of the store -> how many draws one that it keeps stands for."""
    # Runs made before a group could keep fewer draws do not say.
    return config["storage"].get("groups", {"posterior": 1, "sample_stats": 1})


def journal_blocks(record: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """The journal's files that the store has not overtaken: of one block of draws together."""
    blocks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for entry in record["journal"]:
        if entry["end"] > record["in_store"]:
            blocks.setdefault((entry["begin"], entry["end"]), []).append(entry)
    return [blocks[key] for key in sorted(blocks)]


def read_parts(path: Path, entries: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Arrays whose leading axis is the chain, from the files that each hold some chains.

    Raises:
        ValueError: a file is missing or damaged, or the files do not go together.
    """
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


def _arrays(path: Path) -> list[tuple[str, str, int]]:
    """(group, name, number of axes) of every stored variable."""
    import zarr

    root: Any = zarr.open_group(path / STORE, mode="r")
    return [
        (group, name, array.ndim)
        for group in sorted(root.group_keys())
        for name, array in root[group].arrays()
        if array.ndim > 1  # those of one axis are coordinates
    ]


def committed_chunks(path: Path, record: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """(group, name, number of axes, index) of every chunk that the commit counts on."""
    if not record["in_store"]:
        return []
    config = read_config(path)
    groups = stored_groups(config)
    check_store(path / STORE, groups)
    found = []
    for group, name, ndim in _arrays(path):
        if group not in groups and group in GROUPS:
            continue  # made from the draws, and counted by no commit
        if group not in groups:
            raise ValueError(f"The run `{path}` is damaged: its store has a group `{group}`.")
        every = groups[group]
        chunk = max(config["storage"]["chunk_draws"] // every, 1)
        chunks = -(-kept_before(record["in_store"], every) // chunk)
        folder = path / STORE / group / name / "c" / "0"
        there = len(os.listdir(folder)) if folder.is_dir() else 0
        if chunks > there + _MOST_MISSING:
            raise ValueError(
                f"The run `{path}` is damaged: {chunks - there} of the {chunks} chunks of "
                f"`{group}/{name}` are missing."
            )
        found += [(group, name, ndim, index) for index in range(chunks)]
    return found


def check_chunks(path: Path, record: dict[str, Any]) -> None:
    """Look at every committed chunk, without unpacking it; zarr reads one that is missing as NaN.

    Raises:
        ValueError: one is missing, or is not what its array says.
    """
    chunks = committed_chunks(path, record)
    missing = [
        f"the chunk {index} of `{group}/{name}` is missing."
        for group, name, ndim, index in chunks
        if not chunk_file(path, group, name, index, ndim).is_file()
    ]
    if missing:
        raise ValueError(
            f"The run `{path}` is damaged: {missing[0]} "
            "`bayesnn check --repair` keeps the draws before it."
        )
    packings: dict[Path, Packing] = {}
    for group, name, ndim, index in chunks:
        array = path / STORE / group / name
        if array not in packings:
            packings[array] = packing_of(array)
        check_chunk(chunk_file(path, group, name, index, ndim), packings[array])


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
            return tree if thin == 1 else _thinned(tree, path, thin)
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
        opened = _open_store(
            path / STORE,
            {
                group: slice(kept_before(first, every), kept_before(in_store, every))
                for group, every in groups.items()
            },
        )
        chains = np.arange(max(found.sizes.get("chain", 0) for found in opened.values()))
        for group, found in opened.items():
            parts[group].append(labelled(found.assign_coords(chain=chains), group))
    for entries in journal_blocks(record):
        begin, end = max(entries[0]["begin"], in_store), entries[0]["end"]
        arrays = read_parts(path, entries)
        for group, every in groups.items():
            # A journal may begin before the draws that the store holds.
            skip = kept_before(begin, every) - kept_before(entries[0]["begin"], every)
            held = kept_before(end, every) - kept_before(begin, every)
            wrong = [
                key
                for key, a in arrays.items()
                if key.startswith(f"{group}/") and (a.ndim < 2 or a.shape[1] != held + skip)
            ]
            if wrong:
                raise ValueError(
                    f"The run `{path}` is damaged: `{wrong[0]}` does not hold the draws {begin} to "
                    f"{end}, which its journal is of."
                )
            variables = {
                key.removeprefix(f"{group}/"): (
                    dimension_names(key.removeprefix(f"{group}/"), a.ndim, group),
                    a[:, skip:],
                )
                for key, a in arrays.items()
                if key.startswith(f"{group}/")
            }
            chains = next(iter(arrays.values())).shape[0]
            coordinates = {"chain": np.arange(chains), "draw": draw_numbers(begin, end, every)}
            parts[group].append(labelled(xr.Dataset(variables, coordinates), group))
    datasets = {
        group: found[0] if len(found) == 1 else xr.concat(found, "draw", join="exact")
        for group, found in parts.items()
    }
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
    if "posterior" in datasets:  # in the program's order: a store lists its arrays in any
        found = datasets["posterior"]
        known = [name for name in config.get("site_names", {}) if name in found.data_vars]
        datasets["posterior"] = found[[*known, *(n for n in found.data_vars if n not in known)]]
    tree = xr.DataTree.from_dict(datasets)
    tree.attrs[PROVENANCE] = json.dumps(config | {"draws": record["draws"]})
    return tree


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


def _open_store(store: Path, kept: Mapping[str, slice]) -> dict[str, xr.Dataset]:
    """The draws `kept` of each group of the store; values are read when they are used."""
    import zarr

    # By then a file may be gone, and must not read as NaN. Coordinates are left out: those of an
    # axis of one, [0], never had a file, and the others are known.
    coordinates = {group: _coordinates(store / group) for group in kept}
    unread = sorted({name for names in coordinates.values() for name in names})
    how: dict[str, Any] = {"engine": "zarr", "consolidated": False}
    with zarr.config.set({"array.read_missing_chunks": False}):
        try:
            tree = xr.open_datatree(store, drop_variables=unread, **how)
            return {g: tree[g].to_dataset().isel(draw=part) for g, part in kept.items()}
        except ValueError:
            # Arrays of unlike lengths: a writer makes one after the other longer just now, or was
            # killed when it did. One by one they are cut to what is committed.
            found = {}
            for group, part in kept.items():
                names = {array.parent.name for array in (store / group).glob("*/zarr.json")}
                alone = [
                    xr.open_dataset(
                        store, group=group, drop_variables=sorted(names - {name}), **how
                    ).isel(draw=part)
                    for name in sorted(names - coordinates[group])
                ]
                found[group] = xr.merge(alone, join="exact", compat="identical")
            return found


def _coordinates(group: Path) -> set[str]:
    """The stored coordinates of a group, but for the numbers of the draws."""
    return {
        file.parent.name
        for file in group.glob("*/zarr.json")
        if len(read_json(file)["shape"]) == 1 and file.parent.name != "draw"
    }


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
