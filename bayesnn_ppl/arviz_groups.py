"""The groups that ArviZ's functions look for, computed from a posterior and its data.

`az.loo`, `az.compare` and `az.plot_loo_pit` need `log_likelihood`, `az.plot_ppc_dist`
`posterior_predictive` and `observed_data`, `az.psense_summary` `log_prior` and `log_likelihood`.
Targets are in the data's units, and densities per data unit, so all groups belong together.
"""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpyro import handlers

from bayesnn_ppl.arguments import near_misses
from bayesnn_ppl.arrays import check_array
from bayesnn_ppl.identity import StaticProgram
from bayesnn_ppl.precision import arithmetic

if TYPE_CHECKING:
    from bayesnn_ppl.posterior import Posterior

__all__ = ["GROUPS", "tree_with_groups"]

GROUPS = ("log_likelihood", "log_prior", "posterior_predictive", "observed_data")

_NOTE = (
    "The draws have the likelihood to the power 1/{temperature:g}, and these values are not "
    "tempered. ArviZ takes them for those of the draws' own density, so its LOO, LOO-PIT and "
    "power-scaling are wrong here. Use `bayesnn_ppl.metrics.loo`, or give ArviZ the weights of "
    "log_likelihood / {temperature:g}."
)


def tree_with_groups(
    posterior: "Posterior", names: tuple[str, ...], x: Any, y: Any, *, memory: int, seed: int
) -> xr.DataTree:
    """The tree of a posterior with more groups, and a coordinate for every dimension.

    Args:
        posterior: with its model and weights; or one that kept function values, for its probe.
        names: among `GROUPS`.
        x, y: the data, as `sample` was given them; both None for the probe of the run.
        memory: bytes that intermediate arrays may take, about.
        seed: of the posterior predictive samples.

    Raises:
        ValueError: an unknown name, or there are no data.
    """
    for name in names:
        if name not in GROUPS:
            raise ValueError(f"There is no group `{name}` to compute. {near_misses(name, GROUPS)}")
    datasets = {
        str(name): _with_coordinates(node.to_dataset())
        for name, node in posterior.tree.children.items()
    }
    if names:
        datasets |= _groups(posterior, names, x, y, memory=memory, seed=seed)
    tree = xr.DataTree.from_dict(datasets)
    tree.attrs.update(posterior.tree.attrs)
    return tree


def _groups(
    posterior: "Posterior", names: tuple[str, ...], x: Any, y: Any, *, memory: int, seed: int
) -> dict[str, xr.Dataset]:
    run = posterior.provenance
    if "log_prior" in names and (posterior.model is None or not posterior.has_weights):
        raise ValueError(
            "`log_prior` needs the model and the draws of its weights: "
            "`bnn.load(folder, model=...)`."
        )
    prediction = posterior.predict(x, memory=memory)
    targets = posterior.probe[1] if x is None and posterior.probe is not None else y
    found: dict[str, xr.Dataset] = {}
    sizes = posterior.tree["predictions" if x is None else "posterior"].sizes
    chains, draws = sizes["chain"], sizes["draw"]
    for name in names:
        if name == "log_likelihood":
            values = {"y": posterior.log_likelihood(x, y, memory=memory)}
        elif name == "log_prior":
            values = _log_prior(posterior, x)
        elif name == "posterior_predictive":
            made = prediction.samples(chains * draws, seed=seed, in_order=True)
            values = {"y": made.reshape(chains, draws, *made.shape[1:])}
        else:
            values = {"y": prediction.y(targets)}
        leading = () if name == "observed_data" else ("chain", "draw")
        found[name] = _dataset(values, leading)
    temperature = float(run.get("likelihood_temperature") or 1.0) * float(
        run.get("posterior_temperature") or 1.0
    )
    if temperature != 1.0:
        note = _NOTE.format(temperature=temperature)
        for name in {"log_likelihood", "log_prior"} & set(found):
            found[name].attrs["note"] = note
        warnings.warn(note, stacklevel=4)
    return found


@partial(jax.jit, static_argnames="program")
def _prior_terms(program: StaticProgram, draws: Any, x: Any) -> Any:
    def one(values: Any) -> Any:
        model = handlers.seed(handlers.substitute(program.model, data=values), jax.random.key(0))
        trace = handlers.trace(model).get_trace(x)
        return {n: jnp.sum(trace[n]["fn"].log_prob(v)) for n, v in values.items()}

    return jax.lax.map(one, draws)


def _log_prior(posterior: "Posterior", x: Any) -> dict[str, np.ndarray]:
    """log p(θ) of each latent site in the model's own coordinates, (chain, draw)."""
    run, kept = posterior.provenance, posterior.draws
    names = {site: name for name, site in run["site_names"].items()}
    float64 = run.get("precision") == "float64"
    draws = {site: kept[names[site]] for site in run["latents"]}
    chains, count = next(iter(draws.values())).shape[:2]
    flat = {site: a.reshape(-1, *a.shape[2:]) for site, a in draws.items()}
    with arithmetic(float64=float64):
        inputs = check_array(x, "x", float64=float64)
        terms = _prior_terms(StaticProgram(posterior.model), flat, inputs)
    return {names[s]: np.asarray(a).reshape(chains, count) for s, a in terms.items()}


def _dataset(values: Mapping[str, np.ndarray], leading: tuple[str, ...]) -> xr.Dataset:
    """Arrays whose axis after the leading ones are the rows of the data."""
    variables = {}
    for name, array in values.items():
        rest = array.ndim - len(leading)
        own = ("row", *(f"{name}_dim_{i}" for i in range(rest - 1)))[:rest]
        variables[name] = ((*leading, *own), array)
    return _with_coordinates(xr.Dataset(variables))


def _with_coordinates(data: xr.Dataset) -> xr.Dataset:
    """ArviZ's plots look up every dimension by its coordinate."""
    missing = {d: np.arange(n) for d, n in data.sizes.items() if d not in data.coords}
    return data.assign_coords(missing)
