"""Starts by the initialisers of a model's networks, of trainings and of chains."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.infer import init_to_median, init_to_sample
from numpyro.primitives import Messenger

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.modeling.training_noise import clean

__all__ = [
    "check_initialised",
    "drawn_by_networks",
    "initialised_sites",
    "member_starts",
    "start_position",
]


class _Initialisers(Messenger):
    """Keeps what Flax's initialisers drew, before NumPyro puts random variables in its place."""

    def __init__(self, fn: Any) -> None:
        self.values: dict[str, Any] = {}
        super().__init__(fn)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "param" and msg["name"].endswith("$params") and msg["value"] is not None:
            network = msg["name"].removesuffix("$params")
            for path, leaf in jax.tree_util.tree_flatten_with_path(msg["value"])[0]:
                dotted = ".".join(str(getattr(k, "key", getattr(k, "idx", k))) for k in path)
                self.values[f"{network}/{dotted}"] = leaf


def start_position(
    model: Callable[..., Any], latents: tuple[str, ...], start: str, key: Any, x: Any, y: Any
) -> dict[str, Any]:
    """Unconstrained values of a draw from the prior, or by the initialisers of Flax.

    Args:
        model: the NumPyro model.
        latents: its latent sites.
        start: "prior" or "network".
        key: of the draw.
        x, y: the data.
    """
    initialisers = _Initialisers(clean(model))

    def first(site: Any) -> Any:
        if site["type"] != "sample" or site["is_observed"]:
            return None
        if start == "prior":
            return init_to_sample(site)
        value = initialisers.values.get(site["name"])
        # A noise scale drawn near 0 would take a small learning rate most of its epochs to leave.
        return init_to_median(site) if value is None else value

    # Inside the substitution, so that a site without a value is given a key of its own.
    seeded = handlers.seed(initialisers, key)
    trace = handlers.trace(handlers.substitute(seeded, substitute_fn=first)).get_trace(x, y)

    def unconstrained(site: Any) -> Any:
        # Flax draws in single precision, whatever is asked of JAX.
        value = jnp.asarray(site["value"], jnp.result_type(float))
        return biject_to(site["fn"].support).inv(value)

    return {name: unconstrained(trace[name]) for name in latents}


def drawn_by_networks(
    model: Callable[..., Any], sites: tuple[str, ...], key: Any, x: Any, y: Any
) -> dict[str, Any]:
    """What the initialisers of Flax say for these sites, in constrained space; traceable."""
    initialisers = _Initialisers(clean(model))
    handlers.seed(initialisers, key)(x, y)
    # Flax draws in single precision, whatever is asked of JAX.
    return {site: jnp.asarray(initialisers.values[site], jnp.result_type(float)) for site in sites}


def member_starts(
    model: Callable[..., Any], latents: tuple[str, ...], start: str, keys: Any, x: Any, y: Any
) -> dict[str, Any]:
    """Where members would start: site -> unconstrained values (members, ...)."""
    return _member_starts(StaticValue(model), latents, start, keys, x, y)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _member_starts(
    model: StaticValue, latents: tuple[str, ...], start: str, keys: Any, x: Any, y: Any
) -> dict[str, Any]:
    return jax.vmap(lambda key: start_position(model.value, latents, start, key, x, y))(keys)


def initialised_sites(model: Callable[..., Any], x: Any, y: Any) -> dict[str, bool]:
    """Latent sites that a Flax network gives a first value, and whether it is drawn each time.

    The model is run on shapes alone, where only values made inside it are traced: a Linen
    module draws them there, as does a function that builds a module of NNX or Equinox, and such a
    module itself has drawn them when it was built.
    """
    found: dict[str, bool] = {}

    def run(x: Any, y: Any) -> None:
        initialisers = _Initialisers(clean(model))
        handlers.seed(initialisers, jax.random.key(0))(x, y)
        found.update({n: isinstance(v, jax.core.Tracer) for n, v in initialisers.values.items()})

    jax.eval_shape(run, x, y)
    return found


def check_initialised(
    sites: Mapping[str, bool], *, word: str, who: str, several: bool, instead: str
) -> None:
    """Raise ValueError unless networks say where to start, and not all in the same place.

    Args:
        sites: of `initialised_sites`, the latent ones.
        word: the argument that asks for it.
        who: what starts there.
        several: whether there are more than one.
        instead: what to do otherwise, as a clause.
    """
    if not sites:
        raise ValueError(
            f"With {word} {who} start where the network's initialisers say, but the "
            "model declares no Flax network with a prior on each parameter: it writes its "
            f"weights out, or has a prior that spans several parameters. {instead}."
        )
    if several and not any(sites.values()):
        raise ValueError(
            f"With {word} all {who} would start alike: the network is a module whose "
            "parameters were drawn once, when it was built. "
            f"{instead}, or give what builds it in place of the module, "
            "`bayesian_network(lambda rngs: Net(rngs=rngs), ...)` for Flax NNX and "
            "`bayesian_network(lambda key: Net(key=key), ...)` for Equinox."
        )
