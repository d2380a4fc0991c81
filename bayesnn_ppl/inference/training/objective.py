"""What training lowers: the loss of a model at an unconstrained position, and that held out."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.infer.util import _unconstrain_reparam

from bayesnn_ppl.modeling.training_noise import KeyedModel, clean

__all__ = ["held_out_loss", "trace_at", "training_loss"]

_NOISE = 0x6E6F_6973  # stream of the noise that a model has in training


def trace_at(
    model: Callable[..., Any],
    z: Mapping[str, Any],
    key: Any,
    x: Any,
    y: Any,
    index: Any = None,
    *,
    noisy: bool = False,
) -> dict[str, Any]:
    """The model at an unconstrained position, on all rows or those of `index`.

    `noisy`: with the noise that the model has in training, such as augmented inputs.
    """
    noise = jax.random.fold_in(key, _NOISE)
    run: Any = KeyedModel(model, noise) if noisy else clean(model)
    options = {}
    if index is not None:
        run = handlers.substitute(run, data={"data": index})
        options = {"batch_size": index.shape[0]}
    run = handlers.substitute(run, substitute_fn=partial(_constrained, z))
    # Outermost, so that keys are split only for sites without a value: a live dropout mask.
    return handlers.trace(handlers.seed(run, key)).get_trace(x, y, **options)


def _constrained(z: Mapping[str, Any], site: Any) -> Any:
    with handlers.block():  # hides the factor by which NumPyro adds a Jacobian
        return _unconstrain_reparam(z, site)


def training_loss(
    model: Callable[..., Any], objective: str, z: Any, key: Any, x: Any, y: Any, index: Any
) -> Any:
    """The objective at a position, per observation; Jacobians are not part of it."""
    total = jnp.zeros(())
    for name, site in trace_at(model, z, key, x, y, index, noisy=True).items():
        if site["type"] != "sample" or (objective == "likelihood" and name != "y"):
            continue
        log_p = _log_prob(site)
        total += jnp.sum(log_p if site["scale"] is None else site["scale"] * log_p)
    return -total / x.shape[0]


def held_out_loss(model: Callable[..., Any], z: Any, key: Any, x: Any, y: Any) -> Any:
    """The mean of -log p(y|x, θ), untempered as every score is."""
    return -jnp.sum(_log_prob(trace_at(model, z, key, x, y)["y"])) / x.shape[0]


def _log_prob(site: dict[str, Any]) -> Any:
    if site["intermediates"]:
        return site["fn"].log_prob(site["value"], site["intermediates"])
    return site["fn"].log_prob(site["value"])
