"""NumPyro's flow guides, begun narrow around a position as all other guides are."""

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import AffineTransform, IndependentTransform
from numpyro.infer.autoguide import AutoBNAFNormal, AutoIAFNormal

__all__ = ["NarrowBNAFNormal", "NarrowIAFNormal"]


class _Narrow:
    """z = μ + σ ∘ flow(ε), with μ and σ fitted together with the flow.

    By themselves NumPyro's flows begin near a standard normal around 0, far out for a network's
    posterior, and know neither a mode nor a first scale.
    """

    latent_dim: int
    prefix: str
    _init_latent: Any

    def __init__(self, model: Any, *, init_scale: float = 0.01, **options: Any) -> None:
        self._init_scale = init_scale
        super().__init__(model, **options)  # type: ignore[call-arg]

    def _get_posterior(self) -> Any:
        loc = numpyro.param(f"{self.prefix}_loc", self._init_latent)
        scale = numpyro.param(
            f"{self.prefix}_scale",
            jnp.full(self.latent_dim, self._init_scale),
            constraint=constraints.softplus_positive,
        )
        flow = super()._get_posterior()  # type: ignore[misc]
        affine = IndependentTransform(AffineTransform(loc, scale), 1)
        return dist.TransformedDistribution(flow.base_dist, [*flow.transforms, affine])


class NarrowIAFNormal(_Narrow, AutoIAFNormal):
    """Inverse autoregressive flows (Kingma et al. 2016, arXiv:1606.04934)."""


class NarrowBNAFNormal(_Narrow, AutoBNAFNormal):
    """Block neural autoregressive flows (De Cao et al. 2019, arXiv:1904.04676)."""
