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
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import xarray as xr
from numpyro import handlers

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.arrays import check_array, check_targets
from bayesnn_ppl.core.identity import StaticProgram
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.metrics.leave_one_out.checks import (
    likelihood_temperature,
    refuse_unweightable,
    require_training_data,
)
from bayesnn_ppl.storage import GROUPS, dimension_names, labelled

if TYPE_CHECKING:
    from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["make_groups"]

_MOST_PANELS = 12  # function values of a plot
_TEMPERED = ("log_likelihood", "log_prior")


def make_groups(
    posterior: "Posterior",
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
        name: _rescaled(posterior, name, tree[name].to_dataset(), tempered=tempered)
        for name in wanted
        if name in _TEMPERED and name in tree.children
    }
    wanted = [name for name in wanted if name not in made_before]
    if "log_likelihood" in names and not tempered:
        _warn(posterior)
    if not wanted:
        return made_before
    x, y, at_probe = _rows(posterior, wanted, x, y)
    made = {
        "log_likelihood": lambda: _log_likelihood(posterior, x, y, at_probe, tempered, memory),
        "log_prior": lambda: _log_prior(posterior, x, y, tempered),
        "posterior_predictive": lambda: _predictive(posterior, x, at_probe, seed, memory),
        "observed_data": lambda: xr.Dataset({"y": _array("y", _data_units(posterior, y), 0)}),
        "constant_data": lambda: xr.Dataset({"x": _array("x", np.asarray(x), 0)}),
        "functions": lambda: _functions(posterior, x, at_probe, memory),
    }
    return made_before | {name: labelled(made[name](), name) for name in wanted}


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name not in GROUPS:
            raise ValueError(f"The group {name!r} is unknown. " + near_misses(str(name), GROUPS))


def _rows(posterior: "Posterior", wanted: Sequence[str], x: Any, y: Any) -> tuple[Any, Any, bool]:
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
    x = check_array(x, "x", float64=float64)
    return x, None if y is None else check_targets(y, "y", float64=float64), False


def _is_probe(posterior: "Posterior", x: Any, y: Any) -> bool:
    probe = posterior.probe
    if probe is None or probe[1] is None or y is None:
        return False
    return np.array_equal(probe[0], x) and np.array_equal(probe[1], y)


def _warn(posterior: "Posterior") -> None:
    note = _note(posterior)
    if note:
        warnings.warn(note, UserWarning, stacklevel=4)


def _note(posterior: "Posterior") -> str:
    """Why `az.loo` of the untempered log likelihood would be wrong; "" where it is right."""
    run = posterior.provenance
    try:
        refuse_unweightable(run)
        temperature = likelihood_temperature(run, posterior.statistics)
    except ValueError as error:
        return f"ArviZ's leave-one-out would be wrong on these draws. {error}"
    if temperature == 1.0:
        return ""
    return (
        f"The draws have the likelihood to the power 1/{temperature:g}, and az.loo, az.compare and "
        "az.plot_loo_pit weight by 1/p(y|θ), not by that power: on this group they are wrong. Use "
        "bnn.metrics.loo and loo_pit, or az.loo(tree, **bnn.metrics.loo_weights(posterior)). For "
        "az.psense_summary make the groups with tempered=True."
    )


def _rescaled(
    posterior: "Posterior", name: str, group: xr.Dataset, *, tempered: bool
) -> xr.Dataset:
    """Densities that are there, with the temperature of the draws or without."""
    kind = "temperature" if name == "log_likelihood" else "posterior_temperature"
    temperature = group.attrs[kind]
    _require_one_temperature(group.attrs)
    attributes = group.attrs | {
        "tempered": int(tempered),
        "note": _words(posterior, name, tempered),
    }
    factor = np.float32(1 / temperature if tempered else temperature)
    return (group * factor).assign_attrs(attributes)


def _words(posterior: "Posterior", name: str, tempered: bool) -> str:
    """What a group holds."""
    if name == "log_prior":
        if tempered:
            return "log p(θ)/T by site, as it stands in the density of the draws."
        return "log p(θ) by site, untempered."
    if tempered:
        return (
            "log p(y|θ)/T, as it stands in the density of the draws, for psense_summary. For "
            "leave-one-out make the group without tempered=True."
        )
    return _note(posterior) or "log p(y|θ), of each row and draw."


def _log_likelihood(
    posterior: "Posterior", x: Any, y: Any, at_probe: bool, tempered: bool, memory: int
) -> xr.Dataset:
    rows = (None, None) if at_probe else (x, y)
    log_p = posterior.log_likelihood(*rows, memory=memory)
    attributes = _temperatures(posterior)
    if tempered:
        _require_one_temperature(attributes)
        log_p = log_p / np.float32(attributes["temperature"])
    attributes["tempered"] = int(tempered)
    attributes["note"] = _words(posterior, "log_likelihood", tempered)
    group = "predictions" if at_probe else "posterior"
    return _by_draw(posterior, group, {"y": log_p}, attributes, "log_likelihood")


def _log_prior(posterior: "Posterior", x: Any, y: Any, tempered: bool) -> xr.Dataset:
    if posterior.model is None or not posterior.has_weights:
        raise ValueError(
            "The group log_prior needs the weights and the program: `load(path, model=...)` of a "
            "run that kept its weights."
        )
    run, attributes = posterior.provenance, _temperatures(posterior)
    if tempered:
        _require_one_temperature(attributes)
    whole = attributes["posterior_temperature"] if tempered else 1.0
    sizes = posterior.tree["posterior"].sizes
    with arithmetic(float64=run["precision"] == "float64"):
        found = _site_priors(StaticProgram(posterior.model), posterior._latents(), x, y)
    names = {site: name for name, site in run["site_names"].items()}
    arrays = {
        names.get(site, site.replace("/", ".")): np.asarray(a).reshape(
            sizes["chain"], sizes["draw"]
        )
        / np.float32(whole)
        for site, a in found.items()
    }
    attributes["tempered"] = int(tempered)
    attributes["note"] = _words(posterior, "log_prior", tempered)
    return _by_draw(posterior, "posterior", arrays, attributes, "posterior")


@partial(jax.jit, static_argnames="program")
def _site_priors(program: StaticProgram, draws: Mapping[str, Any], x: Any, y: Any) -> Any:
    """Log density of every site but the data, for each draw, with temperatures taken out."""

    def one(values: Mapping[str, Any]) -> dict[str, Any]:
        model = handlers.substitute(program.model, data=dict(values))
        model = handlers.seed(model, jax.random.key(0))  # of sites that are no latents
        found = {}
        for name, site in handlers.trace(model).get_trace(x, y).items():
            if site["type"] != "sample" or name == "y":
                continue
            if site["is_observed"] and any(f.name == "data" for f in site["cond_indep_stack"]):
                continue  # a factor of the likelihood
            log_p = site["fn"].log_prob(site["value"])
            scale = 1.0 if site["scale"] is None else site["scale"]
            scale = scale * site["infer"].get("posterior_temperature", 1.0)
            found[name] = (scale * log_p).sum()
        return found

    return jax.lax.map(one, draws)


def _predictive(
    posterior: "Posterior", x: Any, at_probe: bool, seed: int, memory: int
) -> xr.Dataset:
    prediction = posterior.predict(None if at_probe else x, memory=memory)
    group = "predictions" if at_probe else "posterior"
    sizes = posterior.tree[group].sizes
    sampled = prediction.samples(sizes["chain"] * sizes["draw"], seed=seed, in_order=True)
    attributes = {
        "note": "One sample of each draw, in the data's units.",
        "labels": int(prediction.task == "classification"),
    }
    return _by_draw(posterior, group, {"y": sampled}, attributes, "posterior_predictive")


def _functions(posterior: "Posterior", x: Any, at_probe: bool, memory: int) -> xr.Dataset:
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
    dataset = _by_draw(posterior, group, arrays, attributes, "functions")
    return dataset.assign_coords(row=rows)


def _data_units(posterior: "Posterior", y: Any) -> np.ndarray:
    units, y = posterior.standardisation, np.asarray(y)
    if units is None or y.dtype.kind in "iub":
        return y
    return np.asarray(units["y_mean"] + np.asarray(units["y_scale"]) * y, y.dtype)


def _temperatures(posterior: "Posterior") -> dict[str, Any]:
    run = posterior.provenance
    likelihood = float(run.get("likelihood_temperature") or 1.0)
    try:
        together = likelihood_temperature(run, posterior.statistics)
    except ValueError:  # it changed over the draws
        together = float("nan")
    return {
        "likelihood_temperature": likelihood,
        "posterior_temperature": together / likelihood,
        "temperature": together,
    }


def _require_one_temperature(attributes: Mapping[str, Any]) -> None:
    if not np.isfinite(attributes["temperature"]) or attributes["temperature"] == 0:
        raise ValueError(
            "The draws are of no one temperature, so there are no tempered densities of them. "
            "Leave `tempered` out, or let the schedule of the temperature end in the warm-up."
        )


def _by_draw(
    posterior: "Posterior",
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
    variables = {
        name: _array(name, a if a.shape[:2] == shape else a.reshape(*shape, *a.shape[1:]), 2, group)
        for name, a in arrays.items()
    }
    known = {name: source[name].values for name in ("chain", "draw")}
    return xr.Dataset(variables, known, dict(attributes))


def _array(
    name: str, array: np.ndarray, leading: int, group: str = "observed_data"
) -> tuple[tuple[str, ...], np.ndarray]:
    return dimension_names(name, array.ndim, group, ("chain", "draw")[:leading]), array
