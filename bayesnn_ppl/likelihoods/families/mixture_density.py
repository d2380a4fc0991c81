"""A mixture of Gaussians whose weights, means and scales are outputs of the network."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import integer, positive
from bayesnn_ppl.likelihoods.common.base import Likelihood, as_events


@dataclass(frozen=True)
class MixtureDensity(Likelihood):
    """y ~ Σ_c w_c(x) N(μ_c(x), σ_c(x)²); made by `likelihoods.mixture_density`."""

    components: int
    floor: float
    outputs: int | None
    task = "regression"

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """The mixture; the outputs' last axis holds logits, means and raw scales, in this order."""
        self.check_outputs(outputs)
        parts = outputs.reshape(*outputs.shape[:-1], 3, -1, self.components)
        logits, means, raw = jnp.moveaxis(parts, -3, 0)
        if means.shape[-2] == 1:
            logits, means, raw = logits[..., 0, :], means[..., 0, :], raw[..., 0, :]
        scales = self.floor + jax.nn.softplus(raw)
        return as_events(
            dist.MixtureSameFamily(dist.Categorical(logits=logits), dist.Normal(means, scales))
        )


def mixture_density_likelihood(
    components: int, *, floor: float = 1e-2, targets: int = 1
) -> MixtureDensity:
    """y ~ Σ_c w_c(x) N(μ_c(x), σ_c(x)²), all from the network; C components.

    w = softmax(logits) and σ = floor + softplus(raw): a scale is bounded below, without which
    the likelihood is unbounded where a component sits on a data point, and grows linearly in its
    output, so that a single wild weight cannot make it explode.

    Args:
        components: C ≥ 1.
        floor: smallest σ, positive, in the units of `y`.
        targets: numbers per row: 1 for `y` of shape (N,); D for (N, D), where each has a mixture
            of its own and they are independent given x and the weights. The network returns
            (N, 3·D·C), along the last axis the D × C logits, then the means, then the raw scales.

    Raises:
        TypeError: `components` or `targets` is not an integer.
        ValueError: one of them below 1, or a floor that is not positive.

    References:
        Bishop (1994), Mixture density networks, Aston University NCRG/94/004.
    """
    components = integer(components, "The number of components", at_least=1)
    targets = integer(targets, "The number of targets", at_least=1)
    floor = positive(floor, "The floor of the noise scales")
    return MixtureDensity(components, floor, 3 * targets * components)
