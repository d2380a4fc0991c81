"""Draws as an ArviZ DataTree, in memory."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["PROVENANCE", "build_tree", "dimension_names", "read_attributes", "variable_names"]

PROVENANCE = "bayesnn_ppl"


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
    tree.attrs[PROVENANCE] = json.dumps(attributes)
    return tree


def _variable(name: str, array: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    return dimension_names(name, array.ndim), array


def dimension_names(name: str, ndim: int) -> tuple[str, ...]:
    """`("chain", "draw", "<name>_dim_0", ...)`, as ArviZ names them."""
    return ("chain", "draw", *(f"{name}_dim_{i}" for i in range(ndim - 2)))


def read_attributes(tree: xr.DataTree) -> dict[str, Any]:
    """The provenance that `build_tree` stored."""
    return json.loads(tree.attrs.get(PROVENANCE, "{}"))
