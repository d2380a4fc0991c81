"""The test quantities: what is ranked of the parameters that made the data.

By default function values at a few inputs, scalar latents, and three numbers that depend on all of
the parameters or on the data: log likelihood, log prior and log joint. Weights of hidden layers
are left out, for they can be exchanged; those of a linear model are taken.

References:
    Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman, Vehtari (2023), arXiv:2211.02383: data-
    dependent quantities, such as the joint likelihood, find what parameters alone cannot.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.prior.layer_activity import Layers
from bayesnn_ppl.diagnostics.prior.traced_model import Kind, forward, functions_at, inspect_prior
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.posterior.posterior import Posterior

DENSITIES = ("log likelihood", "log prior", "log joint")
_MOST_WEIGHTS = 8  # of a linear model

type Given = Mapping[str, Callable[[Mapping[str, Any]], Any]]


class Quantities:
    """Computes the same quantities of a truth and of draws.

    Args:
        truth: the model that makes the data.
        method_model: the model of the method, whose prior density is a quantity.
        summary: of the method's model.
        x: the inputs that the method is given.
        probe: inputs (M, ...) at which functions are ranked.
        given: the user's own quantities.
        float64: compute in double precision.
    """

    def __init__(
        self,
        truth: Any,
        method_model: Any,
        summary: ModelSummary,
        x: np.ndarray,
        probe: np.ndarray,
        given: Given,
        *,
        float64: bool,
    ) -> None:
        self._truth, self._method = StaticValue(truth), StaticValue(method_model)
        self._summary, self._x, self._probe = summary, x, probe
        self._given, self._float64 = dict(given), float64
        with arithmetic(float64=float64):
            _, self._kind, _ = inspect_prior(self._truth, Layers(), x)
        self._elements = _elements(summary)

    def of_truth(self, parameters: Mapping[str, Any], y: np.ndarray) -> dict[str, float]:
        """Name -> value, at the parameters that made y."""
        draws = {name: np.asarray(a)[None] for name, a in parameters.items()}
        found = self._measured(self._truth, draws, y)
        return {name: a[0] for name, a in found.items()}

    def of_posterior(self, posterior: Posterior, y: np.ndarray) -> dict[str, np.ndarray]:
        """Name -> values (chain, draw), of the method's draws."""
        run = posterior.provenance
        kept = posterior.draws
        names = {site: name for name, site in run["site_names"].items()}
        draws = {site: kept[names[site]] for site in run["latents"]}
        chains, number = next(iter(draws.values())).shape[:2]
        flat = {site: a.reshape(-1, *a.shape[2:]) for site, a in draws.items()}
        found = self._measured(StaticValue(posterior.model), flat, y)
        return {name: a.reshape(chains, number) for name, a in found.items()}

    def _measured(
        self, model: StaticValue, draws: Mapping[str, Any], y: np.ndarray
    ) -> dict[str, np.ndarray]:
        shapes = {name: a.shape[1:] for name, a in draws.items()}
        whole = shapes == {n: tuple(s) for n, s in self._summary.latents.items()}
        with arithmetic(float64=self._float64):
            method = self._method if whole else None
            found = _of_draws(model, method, self._kind, draws, self._x, y, self._probe)
            values, likelihood, prior = jax.tree.map(np.asarray, found)
        measured = self._functions(values)
        for site, index in self._elements:
            if shapes.get(site) == tuple(self._summary.latents[site]):
                label = f"[{', '.join(map(str, index))}]" if math.prod(shapes[site]) > 1 else ""
                measured[site + label] = draws[site][(slice(None), *index)]
        for name, function in self._given.items():
            measured[name] = _applied(name, function, draws)
        measured["log likelihood"] = likelihood
        if prior is not None:
            measured |= {"log prior": prior, "log joint": likelihood + prior}
        return measured

    def _functions(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Of function values (S, M, ...)."""
        if self._kind == "bernoulli":
            return {f"P(y = 1) at probe {i}": values[:, i] for i in range(values.shape[1])}
        if self._kind == "categorical":  # the shares add up to one
            return {
                f"P(y = {k}) at probe {i}": values[:, i, k]
                for i in range(values.shape[1])
                for k in range(1, values.shape[-1])
            }
        flat = values.reshape(*values.shape[:2], -1)
        one = flat.shape[2] == 1
        return {
            f"f at probe {i}" + ("" if one else f", output {j}"): flat[:, i, j]
            for i in range(flat.shape[1])
            for j in range(flat.shape[2])
        }


@partial(jax.jit, static_argnames=("model", "method", "kind"))
def _of_draws(
    model: StaticValue,
    method: StaticValue | None,
    kind: Kind,
    draws: Any,
    x: Any,
    y: Any,
    probe: Any,
) -> Any:
    """Function values, log p(y|x, θ) and, where the method's model has these sites, log p(θ)."""
    key = jax.random.key(0)  # draws a y that nobody reads

    def one(values: Any) -> Any:
        functions = functions_at(model.value, values, key, probe, None, 0)["values"]
        if kind == "categorical":
            functions = jax.nn.softmax(functions)
        fn = _run(model.value, values, key, x)["y"]["fn"]
        fn = fn.base_dist if isinstance(fn, PseudoLikelihood) else fn
        prior = None
        if method is not None:  # of the latent sites as they are, without temperatures
            trace = _run(method.value, values, key, x)
            prior = sum(jnp.sum(trace[n]["fn"].log_prob(value)) for n, value in values.items())
        return functions, fn.log_prob(y).sum(), prior

    return jax.lax.map(one, draws)


def _run(model: Any, values: Mapping[str, Any], key: Any, x: Any) -> Any:
    return forward(handlers.substitute(model, data=dict(values)), key, x)


def _applied(name: str, function: Callable[..., Any], draws: Mapping[str, Any]) -> np.ndarray:
    values = np.asarray(jax.vmap(function)(dict(draws)))
    if values.shape != (len(next(iter(draws.values()))),) or values.dtype.kind not in "biuf":
        raise TypeError(
            f"`quantities[{name!r}]` must return one number for one draw, but returned "
            f"{values.dtype}{values.shape[1:]}. Pick an element: `lambda values: "
            "values['net/Dense_0.bias'][0]`."
        )
    return values


def _elements(summary: ModelSummary) -> list[tuple[str, tuple[int, ...]]]:
    """Site and index of the scalars that are ranked."""
    layers = {name.rpartition(".")[0] for name in summary.parameters}
    scalars, others = [], []
    for name, shape in summary.latents.items():
        if name not in summary.parameters and math.prod(shape) == 1:
            scalars.append((name, (0,) * len(shape)))
        elif len(layers) <= 1:
            others += [(name, index) for index in np.ndindex(*shape)]
    return scalars + others[:_MOST_WEIGHTS]
