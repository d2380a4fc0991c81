"""Draws as an ArviZ DataTree, in memory."""

import json
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.dimensions import dimension_names, is_dimension, labelled

PROVENANCE = "bayesnn_ppl"
MOMENTS = ("posterior_mean", "posterior_variance")
PROBE = "predictions_constant_data"
STARTS = ("starts", "starts_functions")


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
    variables = set(names.values())
    for site, name in names.items():
        if is_dimension(name, variables):
            raise ValueError(
                f"The site `{site}` has the name of a dimension of the stored draws: rename it."
            )
    return names


def build_tree(
    groups: Mapping[str, Mapping[str, np.ndarray]],
    attributes: Mapping[str, Any],
    *,
    every: Mapping[str, int] | None = None,
    moments: Mapping[str, np.ndarray] | None = None,
    probe: Mapping[str, np.ndarray] | None = None,
    starts: Mapping[str, np.ndarray] | None = None,
) -> xr.DataTree:
    """A DataTree laid out as ArviZ reads it, with the axes of `storage.dimensions`.

    Args:
        groups: group name, such as "posterior" -> variable name -> array (chain, draw, ...).
        attributes: JSON-ready provenance.
        every: group name -> k, where the group holds every k-th draw only.
        moments: `"<group>/<variable>"` -> array (chain, ...), the groups being `MOMENTS`.
        probe: `x`, and `y` where it is known, each with a leading axis of rows.
        starts: `"<group>/<variable>"` -> array (chain, ...), the groups being among `STARTS`.
    """
    steps = {group: (every or {}).get(group, 1) for group in groups}
    chains, draws = next(
        (array.shape[0], array.shape[1] * steps[group])
        for group in reversed(list(groups))  # statistics and function values have every draw
        for array in groups[group].values()
    )
    datasets = {}
    for group, arrays in groups.items():
        variables = {n: (dimension_names(n, a.ndim, group), a) for n, a in arrays.items()}
        coordinates = {"chain": np.arange(chains), "draw": draw_numbers(0, draws, steps[group])}
        datasets[group] = labelled(xr.Dataset(variables, coordinates), group)
    for arrays_of_chains in (moments, starts):
        if arrays_of_chains:
            datasets |= datasets_of_chains(arrays_of_chains)
    if probe:
        datasets[PROBE] = probe_dataset(probe)
    tree = xr.DataTree.from_dict(datasets)
    # One JSON string: nested attributes do not survive every file format.
    tree.attrs[PROVENANCE] = json.dumps(attributes)
    return tree


def draw_numbers(begin: int, end: int, every: int) -> np.ndarray:
    """The numbers of the draws from `begin` to `end` that are the last of every `every`."""
    return np.arange(begin // every, end // every) * every + every - 1


def datasets_of_chains(arrays: Mapping[str, np.ndarray]) -> dict[str, xr.Dataset]:
    """Datasets of `"<group>/<variable>"` -> (chain, ...): moments, or starts."""
    groups: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        group, _, variable = name.partition("/")
        dimensions = dimension_names(variable, array.ndim, group, ("chain",))
        groups.setdefault(group, {})[variable] = (dimensions, array)
    chains = np.arange(next(iter(arrays.values())).shape[0])
    return {
        group: labelled(xr.Dataset(variables, {"chain": chains}), group)
        for group, variables in groups.items()
    }


def probe_dataset(probe: Mapping[str, np.ndarray]) -> xr.Dataset:
    """The inputs, and perhaps targets, at which function values were kept."""
    variables = {n: (dimension_names(n, a.ndim, PROBE, ()), a) for n, a in probe.items()}
    return labelled(xr.Dataset(variables), PROBE)


def chains_first(tree: xr.DataTree) -> xr.DataTree:
    """The tree with its arrays as (chain, draw, ...), in which order they are read."""
    turned = {
        name: group.to_dataset().transpose("chain", "draw", ..., missing_dims="ignore")
        for name, group in tree.children.items()
        if any(_leads_otherwise(array.dims) for array in group.data_vars.values())
    }
    if turned:
        tree = tree.copy()
        for name, dataset in turned.items():
            tree[name].dataset = dataset
    return tree


def _leads_otherwise(dims: tuple[Hashable, ...]) -> bool:
    leading = tuple(dim for dim in ("chain", "draw") if dim in dims)
    return dims[: len(leading)] != leading


def read_attributes(tree: xr.DataTree) -> dict[str, Any]:
    """The provenance that `build_tree` stored."""
    return json.loads(tree.attrs.get(PROVENANCE, "{}"))
