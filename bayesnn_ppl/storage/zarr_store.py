"""The store of a run, `posterior.zarr`: how draws are cut into chunks, written, checked and opened.

A store from anywhere is checked before zarr opens it (`hostile.py`).
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.commits import read_config, read_json
from bayesnn_ppl.storage.derived import GROUPS
from bayesnn_ppl.storage.dimensions import dimension_names
from bayesnn_ppl.storage.hostile import Packing, check_chunk, check_store, packing_of
from bayesnn_ppl.storage.tree import PROVENANCE, draw_numbers

STORE = "posterior.zarr"
_CHUNK_BYTES = 2**24  # of all variables together, so that the journal stays small
_MOST_CHUNK_DRAWS = 4096
_MOST_MISSING = 1000  # chunks that are named one by one

type Block = Mapping[str, np.ndarray]


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


def create_store(
    path: Path, config: Mapping[str, Any], groups: Mapping[str, Block]
) -> dict[str, Any]:
    """Lay out the store for draws like those of `groups`; returns its settings."""
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

    every = {group: config.get("every", {}).get(group, 1) for group in groups}
    per_draw = sum(
        a[:, :1].nbytes // every[group] for group in groups for a in groups[group].values()
    )
    chunk = int(np.clip(_CHUNK_BYTES // max(per_draw, 1), 1, _MOST_CHUNK_DRAWS))
    most = math.lcm(*every.values())
    chunk = max(chunk // most, 1) * most
    root = zarr.open_group(path / STORE, mode="w", zarr_format=3)
    root.attrs[PROVENANCE] = json.dumps(config)
    # Numbers rounded to bfloat16 have two bytes of zeros each, which shuffling brings together.
    rounded = config.get("keep", {}).get("bfloat16", False)
    squeeze = (
        BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=4)
        if rounded
        else ZstdCodec(level=1)
    )
    chains = next(a.shape[0] for block in groups.values() for a in block.values())
    for group_name, block in groups.items():
        group, sizes = root.create_group(group_name), {"chain": chains}
        codec = squeeze if group_name == "posterior" else ZstdCodec(level=1)
        for name, array in block.items():
            axes = dimension_names(name, array.ndim, group_name)
            rest = array.shape[2:]
            sizes |= dict(zip(axes[2:], rest, strict=True))
            group.create_array(
                name,
                shape=(chains, 0, *rest),
                chunks=(chains, chunk // every[group_name], *(max(n, 1) for n in rest)),
                dtype=array.dtype,
                dimension_names=axes,
                fill_value=np.nan if array.dtype.kind == "f" else 0,
                # Without the checksum a torn chunk could decompress to other numbers.
                compressors=[codec, Crc32cCodec()],
            )
        for axis, size in sizes.items():
            group.create_array(axis, data=np.arange(size), dimension_names=(axis,))
        group.create_array(
            "draw", shape=(0,), chunks=(2**16,), dtype="int64", dimension_names=("draw",)
        )
    return {"chunk_draws": chunk, "groups": every}


def write_chunks(
    path: Path,
    config: Mapping[str, Any],
    tail: Mapping[str, Mapping[str, list[np.ndarray]]],
    begin: int,
    count: int,
) -> None:
    """Write the first `count` draws of the tail, which begins with a whole chunk, durably."""
    import zarr

    chunk, groups = config["storage"]["chunk_draws"], stored_groups(config)
    written = []
    # A chunk of nothing but zeros is written too: a missing file means damage.
    with zarr.config.set({"array.write_empty_chunks": True}):
        root: Any = zarr.open_group(path / STORE, mode="r+")
        for group, block in tail.items():
            every = groups[group]
            first, last = kept_before(begin, every), kept_before(begin + count, every)
            for name, parts in block.items():
                joined = np.concatenate(parts, axis=1)
                array = root[f"{group}/{name}"]
                array.resize((joined.shape[0], last, *joined.shape[2:]))
                array[:, first:last] = joined[:, : last - first]
                indices = range(begin // chunk, -(-last // (chunk // every)))
                written += [chunk_file(path, group, name, i, joined.ndim) for i in indices]
            root[f"{group}/draw"].resize((last,))
            root[f"{group}/draw"][first:last] = draw_numbers(begin, begin + count, every)
    for place in written:
        file = os.open(place, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def committed_chunks(path: Path, record: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """(group, name, number of axes, index) of every chunk that the commit counts on."""
    if not record["in_store"]:
        return []
    config = read_config(path)
    groups = stored_groups(config)
    check_store(path / STORE, groups)
    import zarr

    root: Any = zarr.open_group(path / STORE, mode="r")
    stored = [
        (group, name, array.ndim)
        for group in sorted(root.group_keys())
        for name, array in root[group].arrays()
        if array.ndim > 1  # those of one axis are coordinates
    ]
    found = []
    for group, name, ndim in stored:
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
    """Look at every committed chunk without unpacking: zarr reads a missing one as NaN."""
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


def open_store(store: Path, kept: Mapping[str, slice]) -> dict[str, xr.Dataset]:
    """The draws `kept` of each group of the store; values are read when they are used."""
    import zarr

    # By then a file may be gone, and must not read as NaN. Coordinates are left out: those of an
    # axis of one, [0], never had a file, the others are known, and none has a checksum.
    coordinates = {group: _coordinates(store / group) for group in kept}
    unread = sorted({name for names in coordinates.values() for name in names})
    how: dict[str, Any] = {"engine": "zarr", "consolidated": False}
    with zarr.config.set({"array.read_missing_chunks": False}):
        try:
            tree = xr.open_datatree(store, drop_variables=unread, **how)
            return {g: _cut(tree[g].to_dataset(), part) for g, part in kept.items()}
        except ValueError:
            # Arrays of unlike lengths: a writer makes one after the other longer just now, or was
            # killed when it did. One by one they are cut to what is committed.
            found = {}
            for group, part in kept.items():
                names = {array.parent.name for array in (store / group).glob("*/zarr.json")}
                alone = [
                    _cut(
                        xr.open_dataset(
                            store, group=group, drop_variables=sorted(names - {name}), **how
                        ),
                        part,
                    )
                    for name in sorted(names - coordinates[group])
                ]
                found[group] = xr.merge(alone, join="exact", compat="identical")
            return found


def _cut(dataset: xr.Dataset, draws: slice) -> xr.Dataset:
    """Those draws of a group, which may have no variables."""
    return dataset.isel(draw=draws, missing_dims="ignore")


def _coordinates(group: Path) -> set[str]:
    """The stored coordinates of a group."""
    return {
        file.parent.name for file in group.glob("*/zarr.json") if len(read_json(file)["shape"]) == 1
    }
