"""One normal distribution over all weights of a network together."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from bayesnn_ppl.priors.common.base import NetworkPrior, Shapes
from bayesnn_ppl.priors.elementwise.unknown_scales import checked_site_name
from bayesnn_ppl.priors.structured.covariances import cholesky_of, lower_triangle


@dataclass(frozen=True, eq=False)
class _JointNormal:
    scale_tril: np.ndarray | None
    covariance: Callable[[Shapes], Any] | None
    name: str

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        total = sum(sizes.values())
        factor = self.scale_tril
        if self.covariance is not None:
            factor = cholesky_of(self.covariance(shapes), "The joint covariance")
        assert factor is not None
        if factor.shape[0] != total:
            order = ", ".join(f"{name} ({size})" for name, size in list(sizes.items())[:8])
            raise ValueError(
                f"The joint covariance is {factor.shape[0]} × {factor.shape[0]}, but the "
                f"parameters hold {total} weights, in this order: {order}"
                + (", ..." if len(sizes) > 8 else ".")
            )
        # The factor is checked; NumPyro would compile a dozen small operations to check it again.
        joint = dist.MultivariateNormal(
            jnp.zeros(total), scale_tril=jnp.asarray(factor), validate_args=False
        )
        # Marked, because it holds weights under a name that is not a parameter's.
        weights = numpyro.sample(self.name, joint, infer={"network_parameter": True})
        parts = jnp.split(weights, np.cumsum(list(sizes.values()))[:-1])
        return {
            name: numpyro.deterministic(name, part.reshape(shapes[name]))
            for name, part in zip(shapes, parts, strict=True)
        }


def joint_normal(
    covariance: ArrayLike | Callable[[Shapes], Any] | None = None,
    *,
    scale_tril: ArrayLike | None = None,
    name: str = "weights",
) -> NetworkPrior:
    """All weights together ~ N(0, Σ).

    The order of the weights is that of the parameters' names in the network, sorted in every
    module (`Dense_0.bias`, `Dense_0.kernel`, `Dense_1.bias`, ...), each flattened with its last
    axis fastest; in a table by name, of those that its pattern takes. The vector is the latent
    site `weights`, shape (D,), and each parameter a deterministic site of its own name.

    Args:
        covariance: Σ, (D, D); or a function `{name: shape} -> Σ`, whose argument has the order.
        scale_tril: L of Σ = L Lᵀ in its place.
        name: of the latent site.

    Raises:
        TypeError: not a matrix of numbers.
        ValueError: both or neither given; Σ is not square, symmetric and positive definite; or
            (when the model runs) D is not the number of weights.

    References:
        Fortuin (2022), arXiv:2105.06868.
    """
    if (covariance is None) == (scale_tril is None):
        raise ValueError("Give `covariance` or `scale_tril`, one of them.")
    name = checked_site_name(name)
    if callable(covariance):
        return NetworkPrior(_JointNormal(None, covariance, name))
    factor = (
        lower_triangle(scale_tril, "The joint scale_tril")
        if covariance is None
        else cholesky_of(covariance, "The joint covariance")
    )
    return NetworkPrior(_JointNormal(factor, None, name))
