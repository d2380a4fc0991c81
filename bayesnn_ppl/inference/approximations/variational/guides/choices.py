"""Guides of NumPyro: by name, class, instance, or one for each group of sites."""

import inspect
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.infer import autoguide

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.inference.approximations.variational.guides.flow_guides import (
    NarrowBNAFNormal,
    NarrowIAFNormal,
)
from bayesnn_ppl.inference.approximations.variational.guides.quantile_guides import InverseCDF
from bayesnn_ppl.storage import variable_names

__all__ = [
    "GUIDES",
    "build_guide",
    "check_guide",
    "group_sites",
    "has_flow",
    "has_scale",
    "parts_of",
    "place_guide",
    "size_of",
]

# "normal" is the mean field of our own.
GUIDES: dict[str, Any] = {
    "multivariate_normal": autoguide.AutoMultivariateNormal,
    "low_rank": autoguide.AutoLowRankMultivariateNormal,
    "iaf": NarrowIAFNormal,
    "bnaf": NarrowBNAFNormal,
    "dais": autoguide.AutoDAIS,
    "laplace": autoguide.AutoLaplaceApproximation,
}
_IN_GROUPS = {"normal": autoguide.AutoNormal} | {
    name: GUIDES[name] for name in ("multivariate_normal", "low_rank", "iaf", "bnaf")
}
_ALONE = (
    autoguide.AutoDAIS,
    autoguide.AutoLaplaceApproximation,
    autoguide.AutoDelta,
    autoguide.AutoSemiDAIS,
)


def check_guide(guide: Any) -> None:
    """TypeError or ValueError unless it is a guide that `Variational` takes."""
    kind = guide if inspect.isclass(guide) else type(guide)
    if isinstance(guide, str):
        known = ("normal", *GUIDES)
        if guide not in known:
            raise ValueError(
                f"`guide` must be one of {known}, an AutoGuide, or a mapping from patterns on the "
                f"sites' names to guides, not {guide!r}. " + near_misses(guide, known)
            )
    elif isinstance(guide, Mapping):
        if not guide:
            raise ValueError('The mapping `guide` is empty. Begin with `{"*": "normal"}`.')
        for pattern, part in guide.items():
            _check_part(pattern, part)
    elif issubclass(kind, autoguide.AutoGuide):
        if issubclass(kind, autoguide.AutoDelta):
            raise ValueError(
                "`AutoDelta` is a point, and its ELBO infinite. Use `MAP(model)` for the mode."
            )
    elif not isinstance(guide, InverseCDF):
        raise TypeError(
            '`guide` must be a name such as "normal", an AutoGuide of NumPyro (class or '
            f"instance), `inverse_cdf(...)`, or a mapping from patterns to these, not {guide!r}."
        )


def has_scale(guide: Any) -> bool:
    """Whether a first standard deviation means something to a guide, or to a part of it."""
    if isinstance(guide, Mapping):
        return any(has_scale(part) for part in guide.values())
    if isinstance(guide, InverseCDF) or guide == "normal":
        return True
    kind: Any = GUIDES.get(guide) if isinstance(guide, str) else guide
    return "init_scale" in _options_of(kind)


def has_flow(guide: Any) -> bool:
    """Whether a guide, or a part of it, is a normalising flow."""
    if isinstance(guide, Mapping):
        return any(has_flow(part) for part in guide.values())
    kind: Any = GUIDES.get(guide) if isinstance(guide, str) else guide
    flows = (autoguide.AutoIAFNormal, autoguide.AutoBNAFNormal)
    return isinstance(kind, flows) or (isinstance(kind, type) and issubclass(kind, flows))


def _check_part(pattern: Any, part: Any) -> None:
    if not isinstance(pattern, str):
        raise TypeError(f"A pattern of `guide` must be a string, not {pattern!r}.")
    if isinstance(part, str):
        if part not in _IN_GROUPS:
            raise ValueError(
                f"The guide of `{pattern}` must be one of {tuple(_IN_GROUPS)}, an AutoGuide class "
                f"or `inverse_cdf(...)`, not {part!r}. "
                + (
                    "DAIS and Laplace need all sites at once."
                    if part in GUIDES
                    else near_misses(part, _IN_GROUPS)
                )
            )
        return
    if isinstance(part, InverseCDF):
        return
    if not (inspect.isclass(part) and issubclass(part, autoguide.AutoGuide)):
        raise TypeError(
            f"The guide of `{pattern}` must be a name, an AutoGuide class or `inverse_cdf(...)`, "
            f"not {part!r}."
        )
    if issubclass(part, _ALONE):
        raise ValueError(f"{part.__name__} needs all sites at once; it cannot be one of several.")


def group_sites(guide: Mapping[str, Any], latents: Mapping[str, Any]) -> dict[str, list[str]]:
    """Pattern -> the latent sites that it is the first to match.

    Patterns are those of a shell, on variable names such as `net.Dense_0.kernel`, or on these
    without the network's name.

    Raises:
        ValueError: a site without a pattern, or a pattern without a site.
    """
    groups: dict[str, list[str]] = {pattern: [] for pattern in guide}
    for site, variable in variable_names(latents).items():
        names = (variable, variable.partition(".")[2] or variable)
        found = [p for p in guide if any(fnmatchcase(name, p) for name in names)]
        if not found:
            raise ValueError(
                f"The site `{variable}` matches no pattern of `guide`: "
                f'{list(guide)}. End the mapping with `"*": "normal"`.'
            )
        groups[found[0]].append(site)
    for pattern, sites in groups.items():
        if not sites:
            raise ValueError(
                f"The pattern `{pattern}` of `guide` has no site: nothing matches, or earlier "
                "patterns take it all. " + near_misses(pattern, variable_names(latents).values())
            )
    return groups


def build_guide(
    guide: Any,
    model: Any,
    latents: Mapping[str, Any],
    sigma_init: float | None,
    rank: int | None,
) -> autoguide.AutoGuide:
    """The AutoGuide that was asked for; not yet run.

    Args:
        guide: what `check_guide` takes, "normal" apart.
        model: the NumPyro model.
        latents: its latent sites.
        sigma_init: first standard deviation, where the guide has one.
        rank: of a low-rank guide.
    """
    if isinstance(guide, autoguide.AutoGuide):
        return guide
    if not isinstance(guide, Mapping):
        return _build_one(guide, model, sigma_init, rank)
    parts = autoguide.AutoGuideList(model)
    for number, (pattern, sites) in enumerate(group_sites(guide, latents).items()):
        hidden = handlers.block(
            handlers.seed(model, jax.random.key(0)), hide_fn=partial(_outside, frozenset(sites))
        )
        part = guide[pattern]
        part = _IN_GROUPS[part] if isinstance(part, str) else part
        parts.append(_build_one(part, hidden, sigma_init, rank, prefix=f"auto{number}"))
    return parts


def _outside(sites: frozenset[str], site: Mapping[str, Any]) -> bool:
    if site["type"] == "plate":
        return False
    return not (site["type"] == "sample" and site["name"] in sites)


def _build_one(
    guide: Any, model: Any, sigma_init: float | None, rank: int | None, **options: Any
) -> autoguide.AutoGuide:
    if isinstance(guide, InverseCDF):
        return guide.build(model, init_scale=sigma_init, **options)
    kind = GUIDES.get(guide, guide) if isinstance(guide, str) else guide
    if kind is autoguide.AutoLaplaceApproximation:
        options["hessian_fn"] = _reverse_hessian
    takes = _options_of(kind)
    if "init_scale" in takes and sigma_init is not None:
        options["init_scale"] = sigma_init
    if "rank" in takes and rank is not None:
        options["rank"] = rank
    return kind(model, **options)


def _options_of(kind: type) -> set[str]:
    """Names of the arguments of a class and those it is derived from."""
    return {
        name
        for base in kind.__mro__
        if "__init__" in vars(base)
        for name in inspect.signature(base.__init__).parameters  # type: ignore[misc]
    }


def _reverse_hessian(function: Any, x: Any) -> Any:
    """Without forward mode, which our convolutions do not have."""
    return jax.jacrev(jax.grad(function))(x)


def parts_of(guide: autoguide.AutoGuide) -> Iterator[autoguide.AutoGuide]:
    """The guide itself, or those that a list is made of."""
    if isinstance(guide, autoguide.AutoGuideList):
        yield from guide
    else:
        yield guide


def place_guide(guide: autoguide.AutoGuide, z: Mapping[str, Any]) -> None:
    """Let the first locations be those of the unconstrained position z."""
    for part in parts_of(guide):
        part._init_locs = {name: jnp.asarray(z[name]) for name in part._init_locs}
        if isinstance(part, autoguide.AutoContinuous):
            part._init_latent = jnp.concatenate([jnp.ravel(v) for v in part._init_locs.values()])


def size_of(guide: Any, dimension: int, rank: int | None) -> int:
    """How many numbers the guide keeps, about, of a posterior of so many coordinates."""
    if isinstance(guide, str):
        return {
            "multivariate_normal": dimension**2,
            "laplace": dimension**2,
            "iaf": 12 * dimension**2,
            "bnaf": 80 * dimension**2,
            "low_rank": dimension * (rank or round(dimension**0.5)),
        }.get(guide, dimension)
    return dimension
