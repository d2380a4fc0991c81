"""Draws as an ArviZ DataTree, in memory and on disk."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["build_tree", "read", "read_attributes", "variable_names", "write"]

_PROVENANCE = "bayesnn_ppl"


def variable_names(sites: Iterable[str]) -> dict[str, str]:
    """NumPyro site names -> names without `/`, which a DataTree would take for a path.

    Raises:
        ValueError: two sites would get one name, or one the name of a dimension.
    """
    names: dict[str, str] = {}
    for site in sites:
        name = site.replace("/", ".")
        if name in names.values():
            other = next(s for s, n in names.items() if n == name)
            raise ValueError(
                f"The sites `{other}` and `{site}` would both be stored as `{name}`: rename one."
            )
        names[site] = name
    for site, name in names.items():
        other, dimension, number = name.rpartition("_dim_")
        if name in ("chain", "draw") or (
            dimension and number.isdigit() and other in names.values()
        ):
            raise ValueError(
                f"The site `{site}` has the name of a dimension of the stored draws: rename it."
            )
    return names


def build_tree(
    draws: Mapping[str, np.ndarray],
    statistics: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
) -> xr.DataTree:
    """A DataTree laid out as ArviZ reads it: dimensions chain, draw, `<name>_dim_<i>`."""
    groups = {
        "posterior": {name: _variable(name, array) for name, array in draws.items()},
        "sample_stats": {name: _variable(name, array) for name, array in statistics.items()},
    }
    chains, count = next(iter(draws.values())).shape[:2]
    coordinates = {"chain": np.arange(chains), "draw": np.arange(count)}
    tree = xr.DataTree.from_dict(
        {group: xr.Dataset(variables, coordinates) for group, variables in groups.items()}
    )
    # One JSON string: nested attributes do not survive every file format.
    tree.attrs[_PROVENANCE] = json.dumps(attributes)
    return tree


def _variable(name: str, array: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    return ("chain", "draw", *(f"{name}_dim_{i}" for i in range(array.ndim - 2))), array


def read_attributes(tree: xr.DataTree) -> dict[str, Any]:
    """The provenance that `build_tree` stored."""
    return json.loads(tree.attrs.get(_PROVENANCE, "{}"))


def write(tree: xr.DataTree, path: Path) -> Path:
    """Write `posterior.zarr` and a readable `config.json` into the folder `path`.

    Raises:
        FileExistsError: the folder exists and is not empty.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(
            f"`{path}` exists and is not empty. Choose another folder, or remove it first: "
            "a posterior is never written over."
        )
    path.mkdir(parents=True, exist_ok=True)
    tree.to_zarr(path / "posterior.zarr", consolidated=False)
    (path / "config.json").write_text(json.dumps(read_attributes(tree), indent=2) + "\n")
    return path


def read(path: Path) -> xr.DataTree:
    """Open what `write` wrote, whole, into memory.

    Raises:
        FileNotFoundError: `path` holds no posterior.
    """
    store = path / "posterior.zarr"
    if not store.is_dir():
        raise FileNotFoundError(
            f"There is no posterior at `{path}`: `{store}` does not exist. Give the folder that "
            "`Posterior.save` or `bayesnn sample --out` made."
        )
    with xr.open_datatree(store, engine="zarr", consolidated=False) as tree:
        return tree.load()
