"""The groups that ArviZ's functions look for, made from a posterior and its training data.

    log_likelihood         y (chain, draw, row)          loo, compare, plot_loo_pit, psense_summary
    log_prior              one variable a site (chain, draw)                        psense_summary
    posterior_predictive   y (chain, draw, row, ...)     plot_ppc_dist, plot_loo_pit
    observed_data          y (row, ...)                  plot_ppc_dist, plot_loo_pit
    constant_data          x (row, ...)
    functions              mean, sd or probability at a few rows     plot_rank, plot_trace, summary

Everything is in the data's units, densities included.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.arrays import check_targets
from bayesnn_ppl.metrics.leave_one_out.checks import require_training_data
from bayesnn_ppl.posterior.density_groups import (
    log_likelihood_group,
    log_prior_group,
    loo_note,
    rescaled,
)
from bayesnn_ppl.posterior.draws_with_model import DrawsWithModel, as_inputs
from bayesnn_ppl.posterior.labelled_arrays import by_draw, named_array
from bayesnn_ppl.storage import GROUPS, labelled

__all__ = ["make_groups"]

_MOST_PANELS = 12  # function values of a plot
_TEMPERED = ("log_likelihood", "log_prior")


def make_groups(
    posterior: DrawsWithModel,
    names: Sequence[str],
    x: Any,
    y: Any,
    *,
    tempered: bool,
    seed: int,
    memory: int,
) -> dict[str, xr.Dataset]:
    """The groups that the posterior's tree does not have yet; see `Posterior.with_groups`."""
    _check_names(names)
    tree = posterior.tree

    def is_there(name: str) -> bool:
        if name not in tree.children or (name == "functions" and x is not None):
            return False
        return name not in _TEMPERED or bool(tree[name].attrs.get("tempered", 0)) == tempered

    wanted = [name for name in dict.fromkeys(names) if not is_there(name)]
    made_before = {
        name: rescaled(posterior, name, tree[name].to_dataset(), tempered=tempered)
        for name in wanted
        if name in _TEMPERED and name in tree.children
    }
    wanted = [name for name in wanted if name not in made_before]
    if "log_likelihood" in names and not tempered and (note := loo_note(posterior)):
        warnings.warn(note, UserWarning, stacklevel=3)
    if not wanted:
        return made_before
    x, y, at_probe = _rows(posterior, wanted, x, y)
    made = {
        "log_likelihood": lambda: log_likelihood_group(posterior, x, y, at_probe, tempered, memory),
        "log_prior": lambda: log_prior_group(posterior, x, y, tempered),
        "posterior_predictive": lambda: _predictive(posterior, x, at_probe, seed, memory),
        "observed_data": lambda: xr.Dataset({"y": named_array("y", _data_units(posterior, y), 0)}),
        "constant_data": lambda: xr.Dataset({"x": named_array("x", np.asarray(x), 0)}),
        "functions": lambda: _functions(posterior, x, at_probe, memory),
    }
    return made_before | {name: labelled(made[name](), name) for name in wanted}


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name not in GROUPS:
            raise ValueError(f"The group {name!r} is unknown. " + near_misses(str(name), GROUPS))


def _rows(
    posterior: DrawsWithModel, wanted: Sequence[str], x: Any, y: Any
) -> tuple[Any, Any, bool]:
    """The rows, and whether the run kept what its networks say there."""
    if wanted != ["functions"] and (x is None) != (y is None):
        raise ValueError("Give `x` and `y` both, or neither.")
    if x is None and y is None and posterior.data is not None:
        x, y = posterior.data
    run = posterior.provenance
    able = posterior.model is not None and posterior.has_weights
    at_probe = (x is None and y is None) or (not able and _is_probe(posterior, x, y))
    if wanted != ["functions"]:
        if at_probe and posterior.probe is None:
            raise ValueError(
                f"The groups {', '.join(wanted)} are of the training data, which a run on disk "
                "does not hold: `with_groups(..., x=x, y=y)`, as `sample` was given them."
            )
        require_training_data(posterior, x, y)
    elif x is None and posterior.probe is None:
        raise ValueError(
            'Give the inputs at which the functions are wanted, `with_groups("functions", x=x)`: '
            "the run kept no function values."
        )
    if at_probe:
        assert posterior.probe is not None
        return (*posterior.probe, True)
    float64 = run.get("precision") == "float64"
    x = as_inputs(posterior, x)
    return x, None if y is None else check_targets(y, "y", float64=float64), False


def _is_probe(posterior: DrawsWithModel, x: Any, y: Any) -> bool:
    probe = posterior.probe
    if probe is None or probe[1] is None or y is None:
        return False
    return np.array_equal(probe[0], x) and np.array_equal(probe[1], y)


def _predictive(
    posterior: DrawsWithModel, x: Any, at_probe: bool, seed: int, memory: int
) -> xr.Dataset:
    prediction = posterior.predict(None if at_probe else x, memory=memory)
    group = "predictions" if at_probe else "posterior"
    sizes = posterior.tree[group].sizes
    sampled = prediction.samples(sizes["chain"] * sizes["draw"], seed=seed, in_order=True)
    attributes = {
        "note": "One sample of each draw, in the data's units.",
        "labels": int(prediction.task == "classification"),
    }
    return by_draw(posterior, group, {"y": sampled}, attributes, "posterior_predictive")


def _functions(posterior: DrawsWithModel, x: Any, at_probe: bool, memory: int) -> xr.Dataset:
    """At rows spread evenly, so many that there are few panels."""
    first = posterior.function_values(None if at_probe else x[:1], memory=memory)
    main = next(iter(first.values()))
    each = int(np.prod(main.shape[3:]))
    count = max(1, min(len(x), _MOST_PANELS // max(each, 1)))
    rows = np.unique(np.linspace(0, len(x) - 1, count).round().astype(int))
    found = first if at_probe else posterior.function_values(x[rows], memory=memory)
    units = posterior.standardisation
    arrays = {}
    for name, array in found.items():
        if name == "sd" and array.shape[2] == 1:
            array = np.repeat(array, len(x) if at_probe else len(rows), axis=2)
        array = array[:, :, rows] if at_probe else array
        if units and name in ("mean", "sd"):
            array = np.asarray(units["y_scale"], array.dtype) * array
            if name == "mean":
                array = array + np.asarray(units["y_mean"], array.dtype)
        arrays[name] = array
    group = "predictions" if at_probe else "posterior"
    attributes = {"note": "What each draw's network says at a few rows, in the data's units."}
    dataset = by_draw(posterior, group, arrays, attributes, "functions")
    return dataset.assign_coords(row=rows)


def _data_units(posterior: DrawsWithModel, y: Any) -> np.ndarray:
    units, y = posterior.standardisation, np.asarray(y)
    if units is None or y.dtype.kind in "iub":
        return y
    return np.asarray(units["y_mean"] + np.asarray(units["y_scale"]) * y, y.dtype)
