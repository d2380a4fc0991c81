"""A model run forward: draws of its weights, and what its functions are at given inputs."""

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.module import ParamShape

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.diagnostics.prior.layer_activity import Layers, networks_called
from bayesnn_ppl.likelihoods.common.observed import (
    BERNOULLI,
    CATEGORICAL,
    base_distribution,
    moments,
    undrawn,
)
from bayesnn_ppl.modeling.bayesian_networks import check_inputs
from bayesnn_ppl.modeling.row_terms import is_by_row
from bayesnn_ppl.priors.elementwise.unknown_scales import CANCELLING

__all__ = [
    "Kind",
    "forward",
    "functions_at",
    "inspect_prior",
    "key_of_draw",
    "latent_values",
]

_HEAVY = (dist.Cauchy, dist.StudentT)  # they have a centre and a scale, and not always moments

type Kind = Literal["bernoulli", "categorical", "quantity"]


def key_of_draw(key: Any, index: Any) -> Any:
    """The key of one draw, of a generator that is one instruction of the compiler.

    With JAX's own the hundred sites of ResNet-20 take 35 s to compile, and so 7 s.
    """
    words = jax.random.bits(jax.random.fold_in(key, index), (4,), jnp.uint32)
    return jax.random.wrap_key_data(words, impl="unsafe_rbg")


def forward(model: Any, key: Any, x: Any) -> Any:
    """The trace of a model with all its sites drawn."""
    return handlers.trace(handlers.seed(model, key)).get_trace(x)


def latent_values(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all latent sites but those that belong to single rows."""
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "sample"
        and not site["is_observed"]
        and name != "y"
        and not is_by_row(site)
    }


def functions_at(
    model: Any, weights: Mapping[str, Any], key: Any, x: Any, layers: Layers | None, rows: int
) -> dict[str, Any]:
    """The function of one draw at the rows of x, and what its layers do at the first of them."""
    with networks_called() as calls:
        model = handlers.substitute(model, data=dict(weights))
        fn = forward(handlers.substitute(model, substitute_fn=undrawn), key, x)["y"]["fn"]
    measured = {} if layers is None else layers.measure(calls, rows)
    return {**_functions(fn), "layers": measured}


def _functions(fn: Any) -> dict[str, Any]:
    base, shape = base_distribution(fn), fn.shape()
    if _kind(fn) == "bernoulli":
        return _of_shape(shape, values=base.logits)
    if _kind(fn) == "categorical":
        return _of_shape((*shape, base.logits.shape[-1]), values=base.logits)
    if isinstance(base, _HEAVY):
        return _of_shape(shape, values=base.loc, noise=base.scale)
    mean, variance = moments(fn)
    return {"values": mean, "noise": jnp.sqrt(variance)}


def _of_shape(shape: tuple[int, ...], **arrays: Any) -> dict[str, Any]:
    return {name: jnp.broadcast_to(array, shape) for name, array in arrays.items()}


def _kind(fn: Any) -> Kind:
    base = base_distribution(fn)
    if isinstance(base, BERNOULLI):
        return "bernoulli"
    return "categorical" if isinstance(base, CATEGORICAL) else "quantity"


def inspect_prior(model: StaticValue, layers: Layers, x: np.ndarray) -> tuple[Any, Kind, str]:
    """Trace the model once on shapes, and refuse what has no prior to draw from.

    Returns:
        What it computes, what y is, and why no layers can be read, if that is so.
    """
    check_inputs(model.value, x)
    kinds: list[Kind] = []

    def run(key: Any, x: Any) -> Any:
        trace = forward(handlers.substitute(model.value, substitute_fn=undrawn), key, x)
        _check(trace, len(x))
        kinds.append(_kind(trace["y"]["fn"]))
        return functions_at(model.value, latent_values(trace), key, x, layers, len(x))

    try:
        found = jax.make_jaxpr(lambda x: run(key_of_draw(jax.random.key(0), 0), x))(x).jaxpr
    except NotImplementedError as error:
        raise ValueError(
            "The model cannot be run forward, since one of its distributions cannot be drawn "
            "from. An improper prior has no draws, and no predictive distribution: give every "
            "parameter a proper prior."
        ) from error
    if layers.hidden:
        return found, kinds[0], "the model calls its network inside a transformation of JAX"
    return found, kinds[0], "" if layers.names else "the model has no Flax Linen network"


def _check(trace: Mapping[str, Any], rows: int) -> None:
    if "y" not in trace or trace["y"]["type"] != "sample":
        raise ValueError(
            'The model has no observed site "y": end it with '
            '`numpyro.sample("y", distribution, obs=y)`.'
        )
    shape = tuple(trace["y"]["fn"].shape())
    if shape[:1] != (rows,):
        raise ValueError(
            f'The site "y" has shape {shape}, but `x` has {rows} rows: its first axis must be '
            'that of the rows. Put it inside `numpyro.plate("data", x.shape[0], ...)`.'
        )
    for name, site in trace.items():
        added = site["type"] == "sample" and site["is_observed"] and name != "y"
        if added and not site["infer"].get(CANCELLING):
            raise ValueError(
                f"The model adds `{name}` to its log density, as an observation or a factor. Its "
                "prior then is not what it draws when it is run forward, and only a sampler can "
                "draw from it: write the prior as distributions of the parameters."
            )
        leaves = jax.tree.leaves(
            site["value"] if name.endswith("$params") else (),
            is_leaf=lambda leaf: isinstance(leaf, ParamShape),
        )
        if not all(isinstance(leaf, ParamShape) for leaf in leaves):
            raise ValueError(
                f"Parameters of `{name.removesuffix('$params')}` have no prior and would stay "
                "constants. Use `random_network`, which finds them by name."
            )
    latent = [n for n, s in trace.items() if s["type"] == "sample" and n != "y"]
    if not latent:
        raise ValueError("The model has no latent site: it has no prior to draw from.")
