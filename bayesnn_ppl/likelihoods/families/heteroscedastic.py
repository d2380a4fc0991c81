"""Gaussian noise whose scale is a second output of the network."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.likelihoods.common.base import Likelihood, as_events

_LINKS = {"softplus": jax.nn.softplus, "exp": jnp.exp}


@dataclass(frozen=True)
class Heteroscedastic(Likelihood):
    """y ~ N(μ(x), σ(x)²); made by `likelihoods.heteroscedastic`."""

    link: str
    floor: float
    outputs: int | None = 2
    task = "regression"

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Normal with mean and scale from the halves of the last axis of the outputs."""
        if self.outputs is not None:
            self.check_outputs(outputs)
        elif outputs.shape[-1] % 2:
            raise ValueError(
                "The heteroscedastic likelihood splits the last axis of the network's outputs into "
                f"means and scales, so it must be even, but the shape is {tuple(outputs.shape)}."
            )
        mean, raw = jnp.split(outputs, 2, axis=-1)
        if mean.shape[-1] == 1:
            mean, raw = mean[..., 0], raw[..., 0]
        return as_events(dist.Normal(mean, self.floor + _LINKS[self.link](raw)))


def heteroscedastic_likelihood(
    *, link: str = "softplus", floor: float = 1e-3, outputs: int | None = 2
) -> Heteroscedastic:
    """y ~ N(μ(x), σ(x)²), both from the network: σ = floor + link(raw).

    Args:
        link: "softplus" (grows linearly: a single wild weight cannot make the noise explode) or
            "exp" (the second output is log σ, as MILE has it).
        floor: smallest σ, in the units of `y`, 0 or more. Without one the likelihood is
            unbounded where the network can pass through a data point.
        outputs: outputs per row: 2 for `y` of shape (N,), 2D for (N, D), None for images
            (N, H, W, 2), from which a `y` of shape (N, H, W) has its own σ in every pixel.

    Raises:
        ValueError: an unknown link, a negative floor or an odd number of outputs.
    """
    if link not in _LINKS:
        raise ValueError(f"The link `{link}` is unknown. {near_misses(link, _LINKS)}")
    if not 0 <= floor < float("inf"):
        raise ValueError(f"The floor of the noise scale must be 0 or more, not {floor}.")
    if outputs is not None and (outputs < 2 or outputs % 2):
        raise ValueError(f"The outputs must be an even number, two per target, not {outputs}.")
    return Heteroscedastic(link, float(floor), outputs)
