"""Horseshoe priors: one global scale that shrinks all weights, local ones that let some go."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive, strict_switches
from bayesnn_ppl.priors.common.base import NetworkPrior, Shapes
from bayesnn_ppl.priors.common.fitting import sample_parameter
from bayesnn_ppl.priors.common.scaling import inputs_of
from bayesnn_ppl.priors.elementwise.unknown_scales import (
    checked_site_name,
    sample_scaled,
    site_of,
)
from bayesnn_ppl.priors.structured.hierarchy import checked_over, group_of


@dataclass(frozen=True)
class _Horseshoe:
    global_scale: float
    slab: tuple[float, float] | None  # scale and degrees of freedom
    over: str
    bias_scale: float
    fan_in: bool
    centred: bool
    name: str

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        shared: dict[str, tuple[Any, Any]] = {}
        values = {}
        for name, given in shapes.items():
            shape = tuple(given)
            if len(shape) < 2:
                values[name] = sample_parameter(dist.Normal(0.0, self.bias_scale), name, shape)
                continue
            group = group_of(self.over, name)
            if group not in shared:
                shared[group] = self._shared_scales(group)
            tau, slab = shared[group]
            local = dist.HalfCauchy(1.0).expand(shape).to_event()
            scale = tau * numpyro.sample(f"{name}.{self.name}_local", local)
            if slab is not None:
                scale = slab * (scale / jnp.hypot(scale, slab))
            if self.fan_in:
                scale = scale / math.sqrt(inputs_of(name, shape))
            values[name] = sample_scaled(name, shape, scale, centred=self.centred)
        return values

    def _shared_scales(self, group: str) -> tuple[Any, Any]:
        tau = numpyro.sample(
            site_of(group, f"{self.name}_global"), dist.HalfCauchy(self.global_scale)
        )
        if self.slab is None:
            return tau, None
        scale, degrees = self.slab
        variance = numpyro.sample(
            site_of(group, f"{self.name}_slab_variance"),
            dist.InverseGamma(degrees / 2, degrees * scale**2 / 2),
        )
        return tau, jnp.sqrt(variance)


def _horseshoe(
    global_scale: float,
    slab: tuple[float, float] | None,
    over: str,
    bias_scale: float,
    fan_in: bool,
    centred: bool,
    name: str,
) -> NetworkPrior:
    if not isinstance(over, str):
        raise TypeError(f"A horseshoe's `over` must be 'network' or 'layer', not {over!r}.")
    return NetworkPrior(
        _Horseshoe(
            positive(global_scale, "The horseshoe's global_scale"),
            slab,
            str(checked_over(over, ("network", "layer"))),
            positive(bias_scale, "The prior's bias_scale"),
            fan_in,
            centred,
            checked_site_name(name),
        )
    )


@strict_switches
def horseshoe(
    global_scale: float = 1.0,
    *,
    over: str = "layer",
    bias_scale: float = 1.0,
    fan_in: bool = False,
    centred: bool = False,
    name: str = "horseshoe",
) -> NetworkPrior:
    """w | λ, τ ~ N(0, τ²λ²), λ ~ HalfCauchy(1) for each weight, τ ~ HalfCauchy(global_scale).

    Sites: `<module>.horseshoe_global` or `horseshoe_global`, shape (); for each kernel
    `<parameter>.horseshoe_local` and, unless centred, `<parameter>_base`, of the kernel's shape.
    Parameters with fewer than two axes are N(0, bias_scale²).

    Args:
        global_scale: scale of τ. For p_0 relevant weights of D and n observations with noise σ,
            p_0/(D - p_0) · σ/√n.
        over: what shares one τ, "layer" or "network".
        bias_scale: standard deviation of the biases.
        fan_in: divide the scale by √fan-in.
        centred: as in `hierarchical`; centred, the funnel is hard to sample.
        name: of the sites, in place of "horseshoe".

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    References:
        Carvalho, Polson and Scott (2010), The horseshoe estimator for sparse signals.
    """
    return _horseshoe(global_scale, None, over, bias_scale, fan_in, centred, name)


@strict_switches
def regularised_horseshoe(
    global_scale: float = 1.0,
    *,
    slab_scale: float = 1.0,
    slab_degrees_of_freedom: float = 4.0,
    over: str = "layer",
    bias_scale: float = 1.0,
    fan_in: bool = False,
    centred: bool = False,
    name: str = "horseshoe",
) -> NetworkPrior:
    """A horseshoe whose largest weights are N(0, c²) and not free: w ~ N(0, τ²λ̃²).

    λ̃² = c²λ²/(c² + τ²λ²) with λ ~ HalfCauchy(1), τ ~ HalfCauchy(global_scale) and
    c² ~ InverseGamma(ν/2, ν·slab_scale²/2). Sites as `horseshoe`, and
    `<module>.horseshoe_slab_variance` or `horseshoe_slab_variance`, c², shape ().

    Args:
        global_scale: scale of τ; see `horseshoe`.
        slab_scale: scale of weights that are not shrunk, a Student-t with ν degrees of freedom.
        slab_degrees_of_freedom: ν.
        over: what shares τ and c, "layer" or "network".
        bias_scale: standard deviation of the biases.
        fan_in: divide the scale by √fan-in.
        centred: as in `hierarchical`.
        name: of the sites, in place of "horseshoe".

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    References:
        Piironen and Vehtari (2017), arXiv:1707.01694, eq. 2.8 and 3.12.
    """
    slab = (
        positive(slab_scale, "The horseshoe's slab_scale"),
        positive(slab_degrees_of_freedom, "The horseshoe's slab_degrees_of_freedom"),
    )
    return _horseshoe(global_scale, slab, over, bias_scale, fan_in, centred, name)
