"""The groups of log densities, at the temperature of the draws or without."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro import handlers

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.metrics.leave_one_out.checks import likelihood_temperature, refuse_unweightable
from bayesnn_ppl.modeling.row_terms import is_by_row
from bayesnn_ppl.posterior.draws_with_model import DrawsWithModel
from bayesnn_ppl.posterior.labelled_arrays import by_draw
from bayesnn_ppl.posterior.stored_draws import latents_by_site

__all__ = ["log_likelihood_group", "log_prior_group", "loo_note", "rescaled"]


def rescaled(
    posterior: DrawsWithModel, name: str, group: xr.Dataset, *, tempered: bool
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


def log_likelihood_group(
    posterior: DrawsWithModel, x: Any, y: Any, at_probe: bool, tempered: bool, memory: int
) -> xr.Dataset:
    """log p(y_i|θ) of each row and draw, to the power 1/T where `tempered`."""
    rows = (None, None) if at_probe else (x, y)
    log_p = posterior.log_likelihood(*rows, memory=memory)
    attributes = _temperatures(posterior)
    if tempered:
        _require_one_temperature(attributes)
        log_p = log_p / np.float32(attributes["temperature"])
    attributes["tempered"] = int(tempered)
    attributes["note"] = _words(posterior, "log_likelihood", tempered)
    group = "predictions" if at_probe else "posterior"
    return by_draw(posterior, group, {"y": log_p}, attributes, "log_likelihood")


def log_prior_group(posterior: DrawsWithModel, x: Any, y: Any, tempered: bool) -> xr.Dataset:
    """log p(θ) by site, to the power 1/T where `tempered`."""
    if posterior.model is None or not posterior.has_weights:
        raise ValueError(
            "The group log_prior needs the weights and the model: `load(path, model=...)` of a "
            "run that kept its weights."
        )
    run, attributes = posterior.provenance, _temperatures(posterior)
    if tempered:
        _require_one_temperature(attributes)
    whole = attributes["posterior_temperature"] if tempered else 1.0
    sizes = posterior.tree["posterior"].sizes
    with arithmetic(float64=run["precision"] == "float64"):
        found = _site_priors(StaticValue(posterior.model), latents_by_site(posterior), x, y)
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
    return by_draw(posterior, "posterior", arrays, attributes, "posterior")


@partial(jax.jit, static_argnames="model")
def _site_priors(model: StaticValue, draws: Mapping[str, Any], x: Any, y: Any) -> Any:
    """Log density of every site but the data, for each draw, with temperatures taken out."""

    def one(values: Mapping[str, Any]) -> dict[str, Any]:
        given = handlers.substitute(model.value, data=dict(values))
        given = handlers.seed(given, jax.random.key(0))  # of sites that are not latents
        found = {}
        for name, site in handlers.trace(given).get_trace(x, y).items():
            if site["type"] != "sample" or name == "y":
                continue
            if site["is_observed"] and is_by_row(site):
                continue  # a factor of the likelihood
            log_p = site["fn"].log_prob(site["value"])
            scale = 1.0 if site["scale"] is None else site["scale"]
            scale = scale * site["infer"].get("posterior_temperature", 1.0)
            found[name] = (scale * log_p).sum()
        return found

    return jax.lax.map(one, draws)


def loo_note(posterior: DrawsWithModel) -> str:
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


def _words(posterior: DrawsWithModel, name: str, tempered: bool) -> str:
    """What a group holds."""
    if name == "log_prior":
        if tempered:
            return "log p(θ)/T by site, as it is in the density of the draws."
        return "log p(θ) by site, untempered."
    if tempered:
        return (
            "log p(y|θ)/T, as it is in the density of the draws, for psense_summary. For "
            "leave-one-out make the group without tempered=True."
        )
    return loo_note(posterior) or "log p(y|θ), of each row and draw."


def _temperatures(posterior: DrawsWithModel) -> dict[str, Any]:
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
