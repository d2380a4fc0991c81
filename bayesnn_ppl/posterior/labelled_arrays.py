"""Arrays with the dimensions that a group of the tree has for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.posterior.stored_draws import StoredDraws
from bayesnn_ppl.storage import dimension_names

__all__ = ["by_draw", "named_array"]


def by_draw(
    posterior: StoredDraws,
    like: str,
    arrays: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
    group: str,
) -> xr.Dataset:
    """Arrays (chain · draw, ...) or (chain, draw, ...) with the draws' numbers of a group."""
    source = posterior.tree[like]
    if posterior.provenance.get("precision") != "float64":  # units are numbers of that precision
        arrays = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    shape = (source.sizes["chain"], source.sizes["draw"])
    arrays = {
        n: a if a.shape[:2] == shape else a.reshape(*shape, *a.shape[1:]) for n, a in arrays.items()
    }
    variables = {name: named_array(name, a, 2, group) for name, a in arrays.items()}
    known = {name: source[name].values for name in ("chain", "draw")}
    return xr.Dataset(variables, known, dict(attributes))


def named_array(
    name: str, array: np.ndarray, leading: int, group: str = "observed_data"
) -> tuple[tuple[str, ...], np.ndarray]:
    """An array with its dimensions, of which the first `leading` are chain and draw."""
    return dimension_names(name, array.ndim, group, ("chain", "draw")[:leading]), array
