"""What a model says of its data besides p(y|θ) of each row, once."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpyro.distributions import Unit

__all__ = ["beyond_targets", "is_by_row"]


def is_by_row(site: Mapping[str, Any]) -> bool:
    """Whether a site has a value for each row: it is inside the plate `"data"`."""
    return any(frame.name == "data" for frame in site["cond_indep_stack"])


def beyond_targets(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The entries `weighted`, `row_terms` and `other_observed` of a `ModelSummary`."""
    observed = {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and site["is_observed"] and name != "y"
    }
    by_row = [name for name, site in observed.items() if is_by_row(site)]
    # Factors outside of the rows are Jacobians and the like, and no data.
    other = [n for n in observed if n not in by_row and not isinstance(observed[n]["fn"], Unit)]
    return {
        "weighted": _is_weighted(trace["y"]),
        "row_terms": tuple(by_row),
        "other_observed": tuple(other),
    }


def _is_weighted(site: Mapping[str, Any]) -> bool:
    scale, infer = site["scale"], site["infer"]
    if scale is None:
        return False
    if isinstance(scale, jax.core.Tracer):  # temperatures are numbers
        return True
    temperature = infer.get("likelihood_temperature", 1.0) * infer.get("posterior_temperature", 1.0)
    return not np.allclose(np.asarray(scale) * temperature, 1.0, rtol=1e-5)
