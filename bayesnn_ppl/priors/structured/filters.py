"""Smooth convolution filters: neighbouring positions of a kernel are correlated."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.priors.common.base import ParameterPrior, check_others
from bayesnn_ppl.priors.common.scaling import inputs_of
from bayesnn_ppl.priors.elementwise.fan_in import fan_in_normal


class FilterNormal(dist.Distribution):
    """Kernels (*positions, in, out) whose positions are N(0, L Lᵀ), alike for each (in, out).

    Args:
        scale_tril: L, (P, P) for P positions, the last spatial axis fastest.
        shape: of the kernel.
    """

    arg_constraints = {"scale_tril": constraints.lower_cholesky}
    reparametrized_params = ["scale_tril"]
    pytree_aux_fields = ("kernel_shape",)

    def __init__(
        self, scale_tril: Any, shape: tuple[int, ...], *, validate_args: bool | None = None
    ) -> None:
        self.scale_tril, self.kernel_shape = scale_tril, tuple(shape)
        super().__init__((), self.kernel_shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """All arrays of the kernel's shape."""
        return constraints.independent(constraints.real, len(self.kernel_shape))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draws of shape `sample_shape + kernel shape`."""
        filters = math.prod(self.kernel_shape[-2:])
        noise = jax.random.normal(key, (*sample_shape, len(self.scale_tril), filters))
        return (self.scale_tril @ noise).reshape(*sample_shape, *self.kernel_shape)

    @validate_sample
    def log_prob(self, value: Any) -> Any:
        """Σ over (in, out) of log N(filter; 0, L Lᵀ)."""
        positions = len(self.scale_tril)
        filters = math.prod(self.kernel_shape[-2:])
        batch = jnp.shape(value)[: jnp.ndim(value) - len(self.kernel_shape)]
        # All filters of all draws are columns of one triangular solve.
        columns = jnp.moveaxis(jnp.reshape(value, (*batch, positions, filters)), -2, 0)
        flat = columns.reshape(positions, -1)
        white = jax.scipy.linalg.solve_triangular(self.scale_tril, flat, lower=True)
        squares = jnp.sum(white.reshape(columns.shape) ** 2, axis=(0, -1))
        log_det = jnp.sum(jnp.log(jnp.diag(self.scale_tril)))
        return -0.5 * squares - filters * (log_det + 0.5 * positions * math.log(2 * math.pi))

    @property
    def mean(self) -> Any:
        """Zeros."""
        return jnp.zeros(self.kernel_shape)

    @property
    def variance(self) -> Any:
        """That of each position."""
        spatial = self.kernel_shape[:-2]
        by_position = jnp.sum(jnp.asarray(self.scale_tril) ** 2, axis=1).reshape(*spatial, 1, 1)
        return jnp.broadcast_to(by_position, self.kernel_shape)


@dataclass(frozen=True)
class _CorrelatedFilters:
    length_scale: float
    scale: float
    others: ParameterPrior

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        if len(shape) < 3:
            others = self.others
            return others if isinstance(others, dist.Distribution) else others(name, shape)
        grid = np.stack(np.meshgrid(*map(np.arange, shape[:-2]), indexing="ij"), axis=-1)
        points = grid.reshape(-1, len(shape) - 2)
        distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
        variance = self.scale**2 / inputs_of(name, shape)
        covariance = variance * np.exp(-distance / self.length_scale)
        return FilterNormal(jnp.asarray(np.linalg.cholesky(covariance)), shape)


def correlated_filters(
    length_scale: float = 1.0, *, scale: float = 1.0, others: ParameterPrior | None = None
) -> _CorrelatedFilters:
    """Convolution kernels of covariance scale²/fan-in · exp(-distance/length_scale).

    The distance is Euclidean between positions of the kernel, in pixels; the weights of
    different inputs and outputs are independent. As length_scale → 0 it is `fan_in_normal`.

    Args:
        length_scale: ℓ > 0, in pixels.
        scale: standard deviation of a weight times √fan-in.
        others: prior of parameters with fewer than three axes: dense kernels, biases. Default
            `fan_in_normal(scale)`.

    Raises:
        TypeError, ValueError: a length scale or scale that is not a positive, finite number.

    References:
        Fortuin et al. (2022), arXiv:2102.06571.
    """
    scale = positive(scale, "The prior's scale")
    check_others(others)
    length_scale = positive(length_scale, "The prior's length_scale")
    if length_scale > 1e4:
        raise ValueError(
            f"The prior's length_scale must be at most 10000 pixels, not {length_scale}: the "
            "covariance of the filters would be singular in single precision."
        )
    if others is None:
        others = fan_in_normal(scale)
    return _CorrelatedFilters(length_scale, scale, others)
