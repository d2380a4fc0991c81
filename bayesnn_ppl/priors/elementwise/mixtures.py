"""Mixtures of normals: a scale mixture, and a spike with a slab."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive, strict_switches
from bayesnn_ppl.priors.common.scaling import inputs_of


@dataclass(frozen=True)
class _NormalMixture:
    weights: tuple[float, ...]
    scales: tuple[float, ...]
    means: tuple[float, ...]
    fan_in: bool

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        size = math.sqrt(inputs_of(name, shape)) if self.fan_in and len(shape) > 1 else 1.0
        return dist.MixtureSameFamily(
            dist.Categorical(probs=jnp.asarray(self.weights)),
            dist.Normal(jnp.asarray(self.means) / size, jnp.asarray(self.scales) / size),
        )


@strict_switches
def normal_mixture(
    weights: Sequence[float],
    scales: Sequence[float],
    *,
    means: Sequence[float] | None = None,
    fan_in: bool = False,
) -> _NormalMixture:
    """w ~ Σ_k weights_k N(means_k, scales_k²), independently for every weight.

    The scale mixture of Bayes by Backprop is `normal_mixture((π, 1 - π), (σ_1, σ_2))`. The
    component is summed over, so the density has a gradient and there is no discrete site.

    Args:
        weights: positive, with sum 1.
        scales: standard deviations, one for each weight.
        means: one for each weight; None for zeros.
        fan_in: divide scales and means of a kernel by √fan-in, as `fan_in_normal` does.

    Raises:
        TypeError: not numbers.
        ValueError: weights that are not positive with sum 1, other numbers of scales or means,
            or scales that are not positive and finite.

    References:
        Blundell et al. (2015), arXiv:1505.05424, eq. 7.
    """
    weights = tuple(positive(w, "A weight of the prior's mixture") for w in weights)
    scales = tuple(positive(s, "A scale of the prior's mixture") for s in scales)
    means = (0.0,) * len(weights) if means is None else tuple(_finite(m) for m in means)
    if not (len(weights) == len(scales) == len(means)) or not weights:
        raise ValueError(
            f"The prior's mixture has {len(weights)} weights, {len(scales)} scales and "
            f"{len(means)} means: every component needs one of each."
        )
    if not math.isclose(sum(weights), 1.0, rel_tol=1e-6):
        raise ValueError(
            f"The weights of the prior's mixture must have sum 1, not {sum(weights)}: divide "
            "them by it."
        )
    return _NormalMixture(weights, scales, means, fan_in)


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"A mean of the prior's mixture must be a number, not {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"A mean of the prior's mixture must be finite, not {value}.")
    return float(value)


@strict_switches
def spike_and_slab(
    *,
    slab_scale: float = 1.0,
    spike_scale: float = 0.01,
    slab_probability: float = 0.5,
    fan_in: bool = False,
) -> _NormalMixture:
    """w ~ π N(0, slab²) + (1 - π) N(0, spike²): most weights small, some free.

    The spike is a narrow normal and not a point mass at zero: a point mass has no density
    to compare with the slab's, so no gradient can move a weight on or off it, and the on/off
    indicators would be a discrete site for every weight.

    Args:
        slab_scale: standard deviation of weights that matter.
        spike_scale: standard deviation of weights that do not; smaller than `slab_scale`. The
            narrower, the harder to sample: the step size must resolve it.
        slab_probability: π, the share of the former, in (0, 1).
        fan_in: divide both scales by √fan-in, as `fan_in_normal` does.

    Raises:
        TypeError, ValueError: a scale that is not a positive, finite number, a spike as wide as
            the slab, or a probability outside (0, 1).

    References:
        George and McCulloch (1993), Variable selection via Gibbs sampling, section 2.
    """
    slab = positive(slab_scale, "The prior's slab_scale")
    spike = positive(spike_scale, "The prior's spike_scale")
    share = positive(slab_probability, "The prior's slab_probability")
    if spike >= slab:
        raise ValueError(
            f"The spike, of scale {spike}, must be narrower than the slab, of scale {slab}."
        )
    if share >= 1:
        raise ValueError(f"The prior's slab_probability must be below 1, not {share}.")
    return normal_mixture((share, 1 - share), (slab, spike), fan_in=fan_in)
