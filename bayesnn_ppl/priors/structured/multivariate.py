"""Correlated weights of one parameter: a full covariance, or a Kronecker product."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions.transforms import ReshapeTransform

from bayesnn_ppl.priors.structured.covariances import cholesky_of

type CovarianceOf = Callable[[str, tuple[int, ...]], Any]


def flattened_normal(mean: Any, scale_tril: Any, shape: tuple[int, ...]) -> dist.Distribution:
    """N(mean, L Lᵀ) of an array of this shape, flattened with its last axis fastest."""
    # The factor is checked; NumPyro would compile a dozen small operations to check it again.
    flat = dist.MultivariateNormal(
        jnp.asarray(mean), scale_tril=jnp.asarray(scale_tril), validate_args=False
    )
    if len(shape) == 1:
        return flat
    return dist.TransformedDistribution(flat, ReshapeTransform(shape, (math.prod(shape),)))


@dataclass(frozen=True, eq=False)
class _MultivariateNormal:
    scale_tril: np.ndarray | None
    covariance: CovarianceOf | None

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        factor = self.scale_tril
        if self.covariance is not None:
            factor = cholesky_of(self.covariance(name, shape), f"The covariance of `{name}`")
        assert factor is not None
        size = factor.shape[0]
        for first in range(len(shape)):
            if math.prod(shape[first:]) == size:
                return flattened_normal(np.zeros(size), factor, shape[first:])
        sizes = [math.prod(shape[first:]) for first in range(len(shape))]
        raise ValueError(
            f"The prior's covariance is {size} × {size}, but `{name}` has shape {shape}: its size "
            f"must be that of the whole parameter or of its trailing axes, one of {sizes}. A table "
            "by name, or a function (name, shape) -> covariance, gives each parameter its own."
        )


def multivariate_normal(covariance: ArrayLike | CovarianceOf) -> _MultivariateNormal:
    """w ~ N(0, Σ) for every parameter, over all its weights or over its trailing axes.

    Weights are flattened with the last axis fastest: kernel entry (i, j) of (in, out) is
    i · out + j. Where Σ has the size of trailing axes only, the leading ones are independent.

    Args:
        covariance: Σ, positive definite; or a function `(name, shape) -> Σ`, which may sample its
            own hyperparameters.

    Raises:
        TypeError: not a matrix of numbers.
        ValueError: Σ is not square, symmetric and positive definite, or (when the model runs)
            its size is not that of trailing axes of the parameter.

    References:
        Fortuin et al. (2022), arXiv:2102.06571.
    """
    if callable(covariance):
        return _MultivariateNormal(None, covariance)
    return _MultivariateNormal(cholesky_of(covariance, "The prior's covariance"), None)


@dataclass(frozen=True, eq=False)
class _KroneckerNormal:
    row: np.ndarray | None
    column: np.ndarray | None

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        if len(shape) < 2:
            raise ValueError(
                f"A Kronecker prior needs a parameter with two axes or more, but `{name}` has "
                f"shape {shape}: give it another prior in a table, such as "
                "{'*.bias': priors.normal(), '*': ...}."
            )
        factors = []
        given = (("row", self.row), ("column", self.column))
        for (axis, factor), size in zip(given, shape[-2:], strict=True):
            if factor is not None and factor.shape[0] != size:
                raise ValueError(
                    f"The prior's {axis} covariance is {factor.shape[0]} × {factor.shape[0]}, but "
                    f"`{name}` of shape {shape} needs {size} × {size}."
                )
            factors.append(jnp.eye(size) if factor is None else jnp.asarray(factor))
        return dist.MatrixNormal(jnp.zeros(shape[-2:]), *factors)


def kronecker_normal(
    row: ArrayLike | None = None, column: ArrayLike | None = None
) -> _KroneckerNormal:
    """A kernel W (in, out) ~ MN(0, row, column): cov(W_ij, W_kl) = row_ik · column_jl.

    Positions of a convolution's kernel are independent.

    Args:
        row: covariance of the inputs, (in, in); None for the identity.
        column: covariance of the outputs, (out, out); None for the identity.

    Raises:
        TypeError: not a matrix of numbers.
        ValueError: neither is given, one is not square, symmetric and positive definite, or (when
            the model runs) it does not fit the parameter.

    References:
        Louizos and Welling (2016), arXiv:1603.04733.
    """
    if row is None and column is None:
        raise ValueError("Give `row`, `column` or both: without them it is `priors.normal()`.")
    return _KroneckerNormal(
        None if row is None else cholesky_of(row, "The prior's row covariance"),
        None if column is None else cholesky_of(column, "The prior's column covariance"),
    )
