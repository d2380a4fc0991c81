"""Fewer draws of a posterior, for what would take too long with all of them."""

import math
from typing import Any

import xarray as xr

from bayesnn_ppl.posterior.posterior import Posterior


def weights_of(posterior: Posterior) -> int:
    """Number of values in one draw."""
    return sum(math.prod(array.shape[2:]) for array in posterior.draws.values())


def thinned(posterior: Posterior, most: int) -> Posterior:
    """The posterior with at most so many draws of all chains together, evenly spaced.

    At least one draw of each chain stays. Draws of the weights and statistics are thinned alike;
    other groups are left out. A posterior with few enough draws is returned as it is.
    """
    sizes = posterior.tree["posterior"].sizes
    every = math.ceil(sizes["draw"] / max(1, most // sizes["chain"]))
    if every <= 1:
        return posterior

    def shorter(group: str) -> Any:
        data = posterior.tree[group].to_dataset()
        step = every * data.sizes["draw"] // sizes["draw"]  # statistics may be of more draws
        return data.isel(draw=slice(step - 1, None, step))

    groups = {"/": posterior.tree.to_dataset(), "posterior": shorter("posterior")}
    if "draw" in posterior.tree["sample_stats"].sizes:
        groups["sample_stats"] = shorter("sample_stats")
    fewer = Posterior(xr.DataTree.from_dict(groups), posterior.model)
    fewer.data = posterior.data
    return fewer
