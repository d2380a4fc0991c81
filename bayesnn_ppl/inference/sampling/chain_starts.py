"""Where chains start: a draw from the prior, a NumPyro strategy, or given positions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer import init_to_sample, init_to_uniform

from bayesnn_ppl.core.arguments import integer, near_misses
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.modeling.discrete_latents import constrained
from bayesnn_ppl.modeling.network_initialisers import check_initialised, initialised_sites
from bayesnn_ppl.modeling.training_noise import clean

__all__ = ["ShapesFirst", "check_starts", "explain_faults", "network_sites", "resolve_start"]

_TRIED = {"drawn": "in 100 draws. ", "network": "where the network's initialisers put them. "}


def from_prior(site: Any = None, *, values: Mapping[str, Any]) -> Any:
    """An initialisation strategy: the given value, or else a draw from the prior."""
    if site["type"] == "sample" and not site["is_observed"] and site["name"] in values:
        return values[site["name"]]
    return _prior_draw(site)


def _prior_draw(site: Any) -> Any:
    """What `init_to_sample` gives, without its median of one draw, which takes long to compile."""
    free = site["type"] == "sample" and not site["is_observed"] and site["value"] is None
    if not free or site["fn"].support.is_discrete:
        return init_to_sample(site)
    shape = (1, *site["kwargs"].get("sample_shape"))  # the same draws as NumPyro's
    try:
        draw = site["fn"](sample_shape=shape, rng_key=site["kwargs"].get("rng_key"))
        transform = biject_to(site["fn"].support)
        return transform(transform.inv(draw)[0])
    except NotImplementedError:
        return init_to_sample(site)


class ShapesFirst:
    """A strategy for one call of `initialize_model`: for each site a constant first.

    NumPyro draws a start for its shapes alone, and then those that it tries. The first would be
    compiled too, with its random numbers, only to be dropped.
    """

    def __init__(self, strategy: Callable[..., Any]) -> None:
        self._strategy, self._seen = strategy, set[str]()

    def __call__(self, site: Any = None) -> Any:
        if site is None:  # NumPyro asks for the strategy itself
            return partial(self)
        if site["name"] in self._seen:
            return self._strategy(site)
        self._seen.add(site["name"])
        like = jax.eval_shape(partial(self._strategy, site))
        if like is None:
            return None
        transform = biject_to(site["fn"].support)
        return transform(jnp.zeros(transform.inverse_shape(like.shape), like.dtype))


def _by_strategy(site: Any = None, *, values: Mapping[str, Any], strategy: Any) -> Any:
    return strategy(site)


def check_starts(kernel: Any, init: Any, chains: int, superchains: Any) -> None:
    """ValueError or TypeError where chains cannot start as they are asked to."""
    name = type(kernel).__name__
    if init is not None and getattr(kernel, "starts_from_prior", False):
        raise ValueError(
            f"{name} goes from draws of the prior to the posterior, and {init!r} is another "
            "start. Leave `init` out."
        )
    if superchains is None:
        return
    count = integer(superchains, "`superchains`", at_least=2)
    if getattr(kernel, "superchains", None) is not None:
        raise ValueError(
            f"The superchains of {name} are its runs: leave `superchains` out, and give the "
            "kernel `runs`."
        )
    if chains % count:
        raise ValueError(
            f"{chains} chains are not {count} superchains of one size. Ask for "
            f"{count * max(1, round(chains / count))} chains, say."
        )
    if init is not None and init != "network":
        raise ValueError(
            "With `superchains` each group starts at a point drawn for it: `init` is None or "
            '"network". To choose the points give `init` the same one for all chains of a '
            "group, and pass `superchains` to `diagnose`."
        )


def resolve_start(
    init: Any, kernel: Any, summary: ModelSummary, chains: int
) -> tuple[Callable[..., Any], dict[str, np.ndarray]]:
    """The initialisation strategy, and the given values with a leading axis of chains.

    Args:
        init: None for the kernel's own strategy or draws from the prior; a NumPyro
            strategy such as `init_to_median()`; or a
            mapping from site names (with `/` or `.`) to constrained values, of the site's shape
            for all chains alike or with a leading axis of chains. Sites left out start at a
            draw from the prior, as discrete ones do for which a strategy has no value.
        kernel: its `init_strategy` counts, unless it is NumPyro's default.
        summary: the model's latent sites.
        chains: number of chains.

    Raises:
        TypeError: `init` is not one of these.
        ValueError: an unknown site, a wrong shape or a value that is not finite.
    """
    if init is None:
        # NumPyro's kernels have no public name for it.
        init = getattr(kernel, "init_strategy", getattr(kernel, "_init_strategy", None))
        if (
            init is None
            or getattr(init, "func", init) is init_to_uniform
            and not (isinstance(init, partial) and init.keywords)
        ):
            return from_prior, {}  # NumPyro's own default is far out for a network's weights
    if isinstance(init, Mapping):
        return from_prior, _positions(init, summary, chains)
    if callable(init):
        # NumPyro's strategies return themselves with their settings when called with nothing.
        numpyros = getattr(init, "__module__", "") == init_to_sample.__module__
        strategy = init() if numpyros and not isinstance(init, partial) else init
        return partial(_by_strategy, strategy=strategy), {}
    raise TypeError(
        '`init` must be None (draws from the prior), "network" (its initialisers), a '
        "strategy of numpyro.infer such as `init_to_median()`, an ensemble to train, a posterior "
        f"of the same model, or a mapping from site names to values, not {init!r}."
    )


def network_sites(
    model: Any, summary: ModelSummary, x: Any, y: Any, chains: int
) -> tuple[str, ...]:
    """The latent sites that chains start at the initialisers' values of; ValueError if none."""
    known = {n: v for n, v in initialised_sites(model, x, y).items() if n in summary.latents}
    check_initialised(
        known,
        word='init="network"',
        who="chains",
        several=chains > 1,
        instead="Leave `init` out, and chains start at draws from the prior",
    )
    return tuple(known)


def _positions(
    init: Mapping[str, Any], summary: ModelSummary, chains: int
) -> dict[str, np.ndarray]:
    values = {}
    dotted = {name.replace("/", "."): name for name in summary.latents}
    for given, value in init.items():
        name = given if given in summary.latents else dotted.get(given)
        if name is None:
            raise ValueError(
                f"`init` has a value for `{given}`, which is not a latent site of the model. "
                + near_misses(given, dotted)
            )
        array, shape = np.asarray(value), summary.latents[name]
        if array.shape == shape:
            array = np.broadcast_to(array, (chains, *shape))
        elif array.shape != (chains, *shape):
            raise ValueError(
                f"`init` has shape {array.shape} for `{given}`; it must be {shape}, or "
                f"{(chains, *shape)} with one value for each chain."
            )
        if not np.isfinite(array).all():
            raise ValueError(f"`init` has values for `{given}` that are not finite.")
        count = summary.discrete_latents.get(name)
        if count is not None:
            if not np.isin(array, np.arange(count)).all():
                raise ValueError(f"`init` has values for `{given}` other than 0 … {count - 1}.")
            array = array.astype(np.int32)
        elif array.dtype.kind in "biu":
            array = array.astype(float)  # integers have no gradient
        values[name] = np.ascontiguousarray(array)
    return values


def explain_faults(
    model: Any,
    x: Any,
    y: Any,
    z: Mapping[str, Any],
    faults: Mapping[str, Any],
    start: str,
    discrete: Sequence[str] = (),
) -> str | None:
    """A sentence on the first chain without a finite start, or None when all have one.

    Args:
        model, x, y: the model and its data.
        z: unconstrained positions, leading axis chain.
        faults: flags of `traced._position`, leading axis chain.
        start: of the plan: how the positions were found.
        discrete: the sites among them that are integers.
    """
    by_site = {name: np.asarray(flags) for name, flags in faults["gradient"].items()}
    energy = np.asarray(faults["potential_energy"])
    bad = np.flatnonzero(energy | np.any(list(by_site.values()), axis=0))
    if not bad.size:
        return None
    chain = int(bad[0])
    at = {name: value[chain] for name, value in z.items()}
    culprits = _bad_sites(model, x, y, at, discrete)
    gradients = [name.replace("/", ".") for name, flags in by_site.items() if flags[chain]]
    return (
        f"No finite starting point was found for {bad.size} of {energy.size} chains (chain "
        f"{chain} is the first), "
        + _TRIED.get(start, "at the positions given. ")
        + (f"The log density is not finite at the sites {culprits}. " if culprits else "")
        + (f"Its gradient is not finite for {gradients[:5]}. " if gradients else "")
        + "Standardise inputs and targets, narrow the prior, or give `init=` a position "
        "where the density is finite."
    )


def _bad_sites(
    model: Any, x: Any, y: Any, z: Mapping[str, Any], discrete: Sequence[str]
) -> list[str]:
    # Run outside of any compiled function, parameters out of bounds would raise an error here.
    with numpyro.validation_enabled(False):
        values = constrained(model, (x, y), z, discrete)
        seeded = handlers.seed(handlers.substitute(clean(model), data=values), jax.random.key(0))
        trace = handlers.trace(seeded).get_trace(x, y)
    return [
        name.replace("/", ".")
        for name, site in trace.items()
        if site["type"] == "sample"
        and not bool(jnp.isfinite(site["fn"].log_prob(site["value"])).all())
    ]
