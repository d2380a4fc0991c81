"""Reading a run folder, finished or not, while another process may be writing to it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.files import read_arrays
from bayesnn_ppl.storage.tree import PROVENANCE, dimension_names

__all__ = [
    "FORMAT",
    "GROUPS",
    "STORE",
    "chunk_file",
    "committed_chunks",
    "missing_chunks",
    "read",
    "read_commit",
]

STORE = "posterior.zarr"
FORMAT = 1
GROUPS = ("posterior", "sample_stats")


def read_commit(path: Path) -> dict[str, Any]:
    """The commit record of a run.

    Raises:
        FileNotFoundError: there is no run at `path`.
        ValueError: it is of another format, or damaged.
    """
    file = path / "commit.json"
    if not file.is_file():
        raise FileNotFoundError(
            f"There is no posterior at `{path}`: `{file}` does not exist. Give the folder that "
            "`sample(out=...)`, `Posterior.save` or `bayesnn sample --out` made."
        )
    try:
        record = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"`{file}` is damaged: {error}.") from None
    if record["format"] != FORMAT:
        raise ValueError(
            f"The run `{path}` has format {record['format']}, and this version reads {FORMAT}."
        )
    return record


def chunk_file(path: Path, group: str, name: str, index: int, ndim: int) -> Path:
    """Where the store keeps a chunk: it is cut along the draws only."""
    return path.joinpath(STORE, group, name, "c", "0", str(index), *["0"] * (ndim - 2))


def _arrays(path: Path) -> list[tuple[str, str, int]]:
    """(group, name, number of axes) of every stored variable."""
    import zarr

    root: Any = zarr.open_group(path / STORE, mode="r")
    return [
        (group, name, array.ndim)
        for group in ("posterior", "sample_stats")
        for name, array in root[group].arrays()
        if name not in ("chain", "draw")
    ]


def committed_chunks(path: Path, record: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """(group, name, number of axes, index) of every chunk that the commit counts on."""
    if not record["in_store"]:
        return []
    chunk = json.loads((path / "config.json").read_text())["storage"]["chunk_draws"]
    indices = range(-(-record["in_store"] // chunk))
    return [(*array, index) for index in indices for array in _arrays(path)]


def missing_chunks(path: Path, record: dict[str, Any]) -> list[str]:
    """A sentence for every committed chunk that is not there; zarr would read it as NaN or 0."""
    return [
        f"the chunk {index} of `{group}/{name}` is missing."
        for group, name, ndim, index in committed_chunks(path, record)
        if not chunk_file(path, group, name, index, ndim).is_file()
    ]


def read(path: Path, *, first: int = 0) -> xr.DataTree:
    """The committed draws of a run, finished or not; values are read when they are used.

    Args:
        path: the run folder.
        first: leave out the draws before this one.

    Raises:
        FileNotFoundError: there is no run.
        ValueError: no draw is committed yet, or a committed file is missing or damaged.
    """
    while True:
        record = read_commit(path)
        try:
            return _read(path, record, first)
        except ValueError:
            # A writer that commits meanwhile removes the journal that the record named.
            if read_commit(path) == record:
                raise


def _read(path: Path, record: dict[str, Any], first: int) -> xr.DataTree:
    config = json.loads((path / "config.json").read_text())
    if not record["draws"]:
        raise ValueError(f"The run `{path}` has no draws yet: it is still in its warm-up.")
    missing = missing_chunks(path, record)
    if missing:
        raise ValueError(
            f"The run `{path}` is damaged: {missing[0]} "
            "`bayesnn check --repair` keeps the draws before it."
        )
    in_store = record["in_store"]
    parts: dict[str, list[xr.Dataset]] = {group: [] for group in GROUPS}
    if in_store > first:
        tree = xr.open_datatree(path / STORE, engine="zarr", consolidated=False)
        for group in GROUPS:
            parts[group].append(tree[group].to_dataset().isel(draw=slice(first, in_store)))
    begin = in_store
    for name, end, checksum in record["journal"]:
        arrays = read_arrays(path / name, checksum)
        for group in GROUPS:
            variables = {
                key.removeprefix(f"{group}/"): (
                    dimension_names(key.removeprefix(f"{group}/"), a.ndim),
                    a,
                )
                for key, a in arrays.items()
                if key.startswith(f"{group}/")
            }
            chains = next(iter(arrays.values())).shape[0]
            coordinates = {"chain": np.arange(chains), "draw": np.arange(begin, end)}
            parts[group].append(xr.Dataset(variables, coordinates))
        begin = end
    tree = xr.DataTree.from_dict(
        {
            group: found[0] if len(found) == 1 else xr.concat(found, "draw", join="exact")
            for group, found in parts.items()
        }
    )
    tree.attrs[PROVENANCE] = json.dumps(config | {"draws": record["draws"]})
    return tree
