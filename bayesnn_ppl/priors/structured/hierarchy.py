"""Scales that are learned, at any granularity: network, layer, block, unit, input, filters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import integer, near_misses, strict_switches
from bayesnn_ppl.priors.common.base import NetworkPrior, ParameterPrior, Shapes, check_others
from bayesnn_ppl.priors.common.fitting import sample_parameter
from bayesnn_ppl.priors.common.scaling import inputs_of
from bayesnn_ppl.priors.elementwise.fan_in import fan_in_normal
from bayesnn_ppl.priors.elementwise.unknown_scales import (
    checked_scale_prior,
    checked_site_name,
    sample_scaled,
    site_of,
)

_SHARED = ("network", "layer", "block")
_BY_AXIS = {"unit": 2, "input": 2, "filter_group": 3, "weight": 0}  # axes that a parameter needs

type Groups = tuple[tuple[str, tuple[str, ...]], ...]


def group_of(over: str | Groups, name: str) -> str:
    """The group whose scale the parameter `name` shares; "" is the whole network."""
    if not isinstance(over, str):
        return next(g for g, patterns in over if any(fnmatchcase(name, p) for p in patterns))
    if over == "network":
        return ""
    module, _, _ = name.rpartition(".")
    return module if over == "layer" else module.partition(".")[0]


def checked_over(over: Any, known: Sequence[str]) -> str | Groups:
    """`over` as a word that is known, or as groups of patterns."""
    if isinstance(over, Mapping) and over:
        groups = []
        for group, patterns in over.items():
            patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
            if not isinstance(group, str) or not all(isinstance(p, str) for p in patterns):
                raise TypeError(
                    "The groups of `over` must map a name to patterns on parameters' names, such "
                    f"as {{'body': ('Conv_*',)}}, not {group!r} to {patterns!r}."
                )
            groups.append((group, patterns))
        return tuple(groups)
    if over not in known:
        raise ValueError(
            f"`over` must be one of {', '.join(map(repr, known))}, or a mapping from group names "
            f"to patterns on the parameters' names, not {over!r}."
        )
    return str(over)


def _check_groups(over: Groups, shapes: Shapes) -> None:
    patterns = [p for _, group in over for p in group]
    for name in shapes:
        if not any(fnmatchcase(name, p) for p in patterns):
            raise ValueError(
                f"The parameter `{name}` is in no group of `over`. " + near_misses(name, patterns)
            )
    used = {group_of(over, name) for name in shapes}
    for group, mine in over:
        if group not in used:
            raise ValueError(
                f"The group `{group}` of `over`, {', '.join(mine)}, has no parameter: nothing "
                "matches, or earlier groups take it all."
            )


@dataclass(frozen=True)
class _Hierarchical:
    scale: dist.Distribution
    over: str | Groups
    fan_in: bool
    centred: bool
    groups: int | None
    others: ParameterPrior
    name: str

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        if not isinstance(self.over, str):
            _check_groups(self.over, shapes)
        shared: dict[str, Any] = {}
        values = {}
        for name, given in shapes.items():
            shape = tuple(given)
            if isinstance(self.over, str) and self.over in _BY_AXIS:
                if len(shape) < _BY_AXIS[self.over]:
                    values[name] = sample_parameter(self.others, name, shape)
                    continue
                scale = self._by_axis(name, shape)
            else:
                group = group_of(self.over, name)
                if group not in shared:
                    shared[group] = numpyro.sample(site_of(group, self.name), self.scale)
                scale = shared[group]
            if self.fan_in and len(shape) > 1:
                scale = scale / math.sqrt(inputs_of(name, shape))
            values[name] = sample_scaled(name, shape, scale, centred=self.centred)
        return values

    def _by_axis(self, name: str, shape: tuple[int, ...]) -> Any:
        """Scales that broadcast against the parameter, one for each index of an axis."""

        def scales(*size: int) -> Any:
            prior = self.scale.expand(size).to_event()
            return numpyro.sample(f"{name}.{self.name}", prior)

        if self.over == "weight":
            return scales(*shape)
        if self.over == "input":
            return scales(shape[-2])[:, None]
        if self.over == "unit":
            return scales(shape[-1])
        groups = self.groups or shape[-1]
        if shape[-1] % groups:
            raise ValueError(
                f"`groups` must divide the number of filters: `{name}` has {shape[-1]}, which "
                f"cannot be divided into {groups} groups of one size."
            )
        return jnp.repeat(scales(groups), shape[-1] // groups)


@strict_switches
def hierarchical(
    scale: dist.Distribution | None = None,
    *,
    over: str | Mapping[str, Sequence[str]] = "layer",
    fan_in: bool = False,
    centred: bool = False,
    groups: int | None = None,
    others: ParameterPrior | None = None,
    name: str = "prior_scale",
) -> NetworkPrior:
    """τ ~ `scale`, w | τ ~ N(0, τ²), or N(0, τ²/fan-in): the data say how wide the prior is.

    The scales are the sites `prior_scale` ("network") or `<module>.prior_scale` ("layer", "block",
    groups of one's own), shape (); or `<parameter>.prior_scale`, shape (out,) ("unit"),
    (in,) ("input"), (groups,) ("filter_group"), or the parameter's ("weight"). Both forms of
    `centred` are one distribution, also under `cold`; without it the latent sites are
    `<parameter>_base` ~ N(0, 1), and the parameters, τ times these, are deterministic sites.

    Args:
        scale: prior of τ, any proper one on the positive reals: HalfNormal, HalfCauchy, Gamma,
            LogNormal, ...; `inverse_gamma_scale(a, b)` puts an inverse gamma on τ². Default
            HalfNormal(1).
        over: what shares one τ. "network"; "layer", the kernel and bias of one module; "block", all
            below one top-level module; "unit", the weights into one output; "input", the weights
            out of one input (automatic relevance determination); "filter_group", some filters of a
            convolution; "weight", nothing. Or a mapping from group names to patterns, such as
            `residual_blocks()`.
        fan_in: divide τ by √fan-in for parameters with two axes or more.
        centred: sample w given τ, which is better where the data say much about w; False
            samples w/τ, which is better where they say little.
        groups: for "filter_group", the number of groups; None for a scale for each filter.
        others: prior of the parameters that have no such axis: biases for "unit" and "input",
            biases and dense kernels for "filter_group". Default `fan_in_normal()`.
        name: of the scales' sites.

    Raises:
        TypeError, ValueError: an argument is not what it must be; said when the model runs: a
            parameter in no group, a group without parameter, filters that `groups` do not divide.

    Example:
        Relevance of inputs, for the first layer alone:

        >>> import numpyro.distributions as dist
        >>> from bayesnn_ppl import priors
        >>> prior = {
        ...     "Dense_0.kernel": priors.hierarchical(dist.HalfCauchy(1.0), over="input"),
        ...     "*": priors.fan_in_normal()}

    References:
        MacKay (1994), Bayesian methods for backpropagation networks; Neal (1996), chapters 1
        and 4; Papaspiliopoulos et al. (2007), A general framework for the parametrization of
        hierarchical models.
    """
    sharing = checked_over(over, (*_SHARED, *_BY_AXIS))
    if groups is not None:
        groups = integer(groups, "`groups`", at_least=1)
        if sharing != "filter_group":
            raise ValueError('`groups` divides filters: it goes with over="filter_group" only.')
    if others is not None and (not isinstance(sharing, str) or _BY_AXIS.get(sharing, 0) == 0):
        raise ValueError(
            f"`others` has no use with over={over!r}, which has a scale for every parameter. A "
            "table by name gives some parameters another prior."
        )
    check_others(others)
    return NetworkPrior(
        _Hierarchical(
            dist.HalfNormal(1.0) if scale is None else checked_scale_prior(scale),
            sharing,
            fan_in,
            centred,
            groups,
            fan_in_normal() if others is None else others,
            checked_site_name(name),
        )
    )


def residual_blocks(depth: int = 20) -> dict[str, tuple[str, ...]]:
    """The groups of `bnn.models.resnet20_frn(depth=depth)`, for `hierarchical(over=...)`.

    `stem`, `stage_<i>.block_<j>` (two convolutions, and the one on its shortcut where there is
    one, with their normalisations) and `head`. That network names its layers and not its blocks.

    Args:
        depth: of the network, 6n + 2.

    Raises:
        TypeError, ValueError: a depth that is not 6n + 2.
    """
    depth = integer(depth, "`depth`", at_least=8)
    if (depth - 2) % 6:
        raise ValueError(f"The depth of the network must be 6n + 2, not {depth}.")
    groups: dict[str, tuple[str, ...]] = {"head": ("Dense_0.*",), "stem": ("*_0.*",)}
    layer = 1
    for stage in range(3):
        for block in range((depth - 2) // 6):
            count = 3 if stage > 0 and block == 0 else 2
            groups[f"stage_{stage}.block_{block}"] = tuple(f"*_{layer + i}.*" for i in range(count))
            layer += count
    return groups
