"""Integer latent sites: which kernels move them, and the model with them held."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpyro import handlers, infer
from numpyro.distributions import constraints
from numpyro.infer.util import constrain_fn

from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.modeling.training_noise import clean

__all__ = ["check_discrete", "constrained", "drawn"]

# They share a draw between steps for integer sites and HMC for the rest. 0.21 has no `Gibbs`.
_MOVERS = tuple(
    getattr(infer, name)
    for name in ("DiscreteHMCGibbs", "Gibbs", "HMCGibbs", "MixedHMC")
    if hasattr(infer, name)
)


def check_discrete(latents: Mapping[str, Any], kernel: Any) -> dict[str, int]:
    """The discrete latent sites that the kernel has to move -> how many values each has.

    Args:
        latents: name -> site.
        kernel: of `sample`; None for what trains by gradients.

    Raises:
        ValueError: there are some, and the kernel moves by gradients alone; or NumPyro's discrete
            samplers would not know their values.
    """
    # Where NumPyro sums over a site, nothing has to move it.
    found = {
        name: site["fn"]
        for name, site in latents.items()
        if site["fn"].support.is_discrete and site["infer"].get("enumerate") != "parallel"
    }
    if found and not isinstance(kernel, _MOVERS):
        who = (
            "what follows gradients" if kernel is None else f"{type(kernel).__name__}, which does,"
        )
        raise ValueError(
            f"The latent sites {list(found)[:4]} are discrete: the log density has no gradient in "
            f"them to follow, and {who} cannot move them. On a small network "
            "`sample(DiscreteHMCGibbs(NUTS(model)), ...)` or `sample(MixedHMC(HMC(model)), ...)`, "
            "of numpyro.infer, move them together with the others; for a larger one relax them "
            "(`priors.bernoulli_weights(relaxed_temperature=...)`), or sum over them in the model."
        )
    counts = {name: _values(fn) for name, fn in found.items()}
    unknown = [name for name, count in counts.items() if count is None]
    if unknown:
        name = unknown[0]
        raise ValueError(
            f"The latent site `{name}`, {_described(found[name])}, is one that the discrete "
            "samplers of NumPyro would get wrong: they take the values of a site for 0, 1, ..., "
            "K - 1, with K known before the run, and each element for a number of its own, not "
            "for a part of an event. Shift it, cut it off (`Categorical`), or sum over it in the "
            "model."
        )
    return {name: count for name, count in counts.items() if count is not None}


def _values(fn: Any) -> int | None:
    """K of a distribution over 0, ..., K - 1, or None."""
    support = fn.support
    if fn.event_dim or not fn.has_enumerate_support:
        return None
    if isinstance(support, type(constraints.boolean)):
        return 2
    low, high = (_known(getattr(support, f"{end}_bound", None)) for end in ("lower", "upper"))
    return None if high is None or low != 0 else high + 1


def _known(bound: Any) -> int | None:
    try:
        return int(np.asarray(bound))
    except (TypeError, ValueError, jax.errors.ConcretizationTypeError):
        return None


def _described(fn: Any) -> str:
    inner = fn
    while hasattr(inner, "base_dist"):
        inner = inner.base_dist
    return f"{type(inner).__name__} with event_shape {tuple(fn.event_shape)}"


def drawn(
    model: Model, names: Sequence[str], strategy: Any, key: Any, args: tuple[Any, ...]
) -> dict[str, Any]:
    """Values of the named sites, by the strategy where it has any, else from the model itself."""
    seeded = handlers.substitute(handlers.seed(clean(model), key), substitute_fn=strategy)
    trace = handlers.trace(seeded).get_trace(*args)
    return {name: trace[name]["value"] for name in names}


def constrained(
    model: Model,
    args: tuple[Any, ...],
    z: Mapping[str, Any],
    discrete: Sequence[str] = (),
    *,
    return_deterministic: bool = False,
) -> dict[str, Any]:
    """The constrained values at one point z, in which discrete sites have their own.

    NumPyro's `constrain_fn` knows no map for integers, so they are held.
    """
    model, values = clean(model), {name: z[name] for name in discrete}
    if values:
        model, z = handlers.condition(model, data=values), {n: z[n] for n in z if n not in values}
    return values | constrain_fn(model, args, {}, z, return_deterministic=return_deterministic)
