"""Normal weights whose scales are parameters of the model, for empirical Bayes."""

from dataclasses import dataclass
from typing import Any

import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesnn_ppl.core.arguments import near_misses, positive, strict_switches
from bayesnn_ppl.priors.common.base import NetworkPrior, Shapes
from bayesnn_ppl.priors.common.scaling import inputs_of
from bayesnn_ppl.priors.elementwise.unknown_scales import checked_site_name, site_of
from bayesnn_ppl.priors.structured.hierarchy import group_of

_OVER = ("network", "layer", "block", "parameter")


@dataclass(frozen=True)
class _LearnedNormal:
    scale: float
    over: str
    fan_in: bool
    name: str

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        scales: dict[str, Any] = {}
        values = {}
        for name, shape in shapes.items():
            group = name if self.over == "parameter" else group_of(self.over, name)
            if group not in scales:
                scales[group] = numpyro.param(
                    site_of(group, self.name), self.scale, constraint=constraints.positive
                )
            scale = scales[group]
            if self.fan_in and len(shape) > 1:
                scale = scale / inputs_of(name, tuple(shape)) ** 0.5
            prior = dist.Normal(0.0, scale).expand(tuple(shape)).to_event()
            values[name] = numpyro.sample(name, prior)
        return values


@strict_switches
def learned_normal(
    scale: float = 1.0, *, over: str = "layer", fan_in: bool = False, name: str = "learned_scale"
) -> NetworkPrior:
    """w ~ N(0, ψ²), or N(0, ψ²/fan-in), with ψ fitted by `approximations.EmpiricalBayes`.

    The scales are `numpyro.param` sites, `learned_scale` or `<group>.learned_scale`. Other methods
    do not fit parameters and refuse the model. `hierarchical` is the same with a prior on ψ, which
    any sampler can draw.

    Args:
        scale: first value of ψ.
        over: what shares one scale: "network", "layer", "block" or "parameter".
        fan_in: whether scales are divided by √fan-in.
        name: of the sites.

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    References:
        MacKay (1992), Bayesian interpolation; Neal (1996), section 1.2 (scales by evidence).
    """
    if over not in _OVER:
        raise ValueError(
            f"`over` must be one of {_OVER}, not {over!r}. " + near_misses(str(over), _OVER)
        )
    return NetworkPrior(
        _LearnedNormal(
            positive(scale, "The prior's scale"),
            over,
            fan_in,
            checked_site_name(name),
        )
    )
