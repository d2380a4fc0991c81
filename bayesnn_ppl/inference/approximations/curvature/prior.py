"""The curvature of a model's prior at a mode, and what to do where there is none."""

from functools import partial
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from bayesnn_ppl.inference.approximations.curvature.local import LocalModel
from bayesnn_ppl.inference.fitting.approximation import Finding

__all__ = ["PriorCurvature", "prior_curvature"]

_SAME = 1e-3  # relative; two Hessians of one Gaussian differ by rounding only


class PriorCurvature(NamedTuple):
    """The prior near the mode.

    Attributes:
        log_density: of the mode.
        gradient: of that, (d,).
        precision: (d,), positive: the diagonal of the negative Hessian.
        mean: (d,); of a normal prior.
        normal: whether it is normal.
        coupled: the whole negative Hessian (d, d) where it is not diagonal, otherwise None.
        findings: where the curvature was not positive.
    """

    log_density: float
    gradient: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    normal: bool
    coupled: np.ndarray | None
    findings: tuple[Finding, ...]

    def moved_to(self, centre: np.ndarray) -> Self:
        """The same normal prior at another point."""
        nearer = np.square(self.mean_offset(centre)).sum()
        before = np.square(self.gradient).dot(1 / self.precision)
        return self._replace(
            log_density=self.log_density + 0.5 * (before - nearer),
            gradient=self.precision * (self.mean - centre),
        )

    def mean_offset(self, centre: np.ndarray) -> np.ndarray:
        """From the prior's mean, in its standard deviations, (d,)."""
        return (centre - self.mean) * np.sqrt(self.precision)


@partial(jax.jit, static_argnames="local")
def _second_order(local: LocalModel, at: Any, fixed: Any, x: Any, y: Any, vectors: Any) -> Any:
    """Log density, its gradient, and the negative Hessian times each vector (K, d)."""
    density = partial(local.log_prior, fixed=fixed, x=x, y=y)
    value, gradient = jax.value_and_grad(density)(at)
    _, back = jax.vjp(jax.grad(density), at)  # a Hessian is its own transpose
    return value, gradient, -jax.lax.map(lambda v: back(v)[0], vectors)


def prior_curvature(
    local: LocalModel, centre: np.ndarray, fixed: Any, x: Any, y: Any, *, coupling: bool
) -> PriorCurvature:
    r"""The prior's curvature, exact where it is normal.

    Where the negative Hessian of a prior without couplings is not positive, as in the tails of
    a Student t or, being 0, of a Laplace prior, that of the Gaussian which touches the prior
    at w is used: -(1/w) d log p(w)/dw, which is positive for every density that falls on both
    sides of 0, and never narrower than the prior (Palmer et al., 2006).

    Args:
        local: the model near its mode.
        centre: the mode, (d,).
        fixed: values of the other latent sites.
        x, y: the data, which priors may look at.
        coupling: whether the Hessian may have other entries than its diagonal's.

    Raises:
        ValueError: parameters are coupled by the prior where they must not be, or a curvature is
            not positive and has no replacement.
    """
    generator = np.random.default_rng(0)
    signs = np.where(generator.random(centre.shape) < 0.5, -1.0, 1.0).astype(centre.dtype)
    probes = np.stack([np.ones_like(centre), signs])
    value, gradient, products = jax.tree.map(
        np.asarray, _second_order(local, centre, fixed, x, y, probes)
    )
    precision, crossed = products[0], products[1] * signs
    size = np.abs(precision).max()
    if not np.isfinite(size):
        raise ValueError("The prior's curvature at the mode is not finite there.")
    if np.abs(crossed - precision).max() > _SAME * size:
        return _coupled(local, centre, fixed, x, y, value, gradient, allowed=coupling)
    spread = 1 / np.sqrt(np.abs(precision) + (1e-6 * size or 1.0))
    elsewhere = centre + (spread * generator.normal(size=centre.shape)).astype(centre.dtype)
    # With both vectors, though one would do: the same shapes are compiled already.
    away = np.asarray(_second_order(local, elsewhere, fixed, x, y, probes)[2][0])
    normal = bool(np.all(np.abs(away - precision) <= _SAME * np.abs(precision)))
    normal = normal and bool((precision > 0).all())
    findings: tuple[Finding, ...] = ()
    negative = precision <= 0
    if negative.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            touching = -gradient / centre
        precision = np.where(negative, touching, precision)
        if not (np.isfinite(precision) & (precision > 0)).all():
            raise ValueError(_no_curvature(local, int(np.argmin(precision > 0))))
        findings = (
            Finding(
                "doubt",
                f"Indefinite curvature: at {int(negative.sum())} of {negative.size} parameters the "
                "prior's log density is not concave, and the Gaussian that touches it there was "
                "taken in its place. The evidence is not to be trusted; `Variational` or `sample` "
                "keep the prior's shape.",
            ),
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = centre + gradient / precision
    return PriorCurvature(float(value), gradient, precision, mean, normal, None, findings)


def _coupled(
    local: LocalModel,
    centre: np.ndarray,
    fixed: Any,
    x: Any,
    y: Any,
    value: Any,
    gradient: Any,
    *,
    allowed: bool,
) -> PriorCurvature:
    if not allowed:
        raise ValueError(
            "The prior couples parameters with one another, and this structure of the curvature "
            'has no place for that: use `structure="full"`, or a prior of independent parameters.'
        )
    whole = _second_order(local, centre, fixed, x, y, np.eye(len(centre), dtype=centre.dtype))[2]
    matrix = np.asarray(whole)
    matrix = 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(matrix)
    findings: tuple[Finding, ...] = ()
    least = 1e-6 * values.max()
    if not least > 0:
        raise ValueError(_no_curvature(local, 0))
    if values.min() < least:
        findings = (
            Finding(
                "doubt",
                f"Indefinite curvature: {int((values < least).sum())} of {len(values)} "
                "eigenvalues of the prior's precision at the mode are not positive, and count as "
                "almost 0. The evidence is not to be trusted; `sample` needs no curvature.",
            ),
        )
        matrix = (vectors * np.maximum(values, least)) @ vectors.T
    return PriorCurvature(
        float(value), np.asarray(gradient), np.ones_like(centre), centre, False, matrix, findings
    )


def _no_curvature(local: LocalModel, index: int) -> str:
    site = next(layer for layer in local.layers if index < layer.end).name
    return (
        f"The prior of `{site}` has no positive curvature at the mode, nor does a Gaussian touch "
        "it there: a Laplace approximation is not possible. Use a prior with one peak, such as "
        "`priors.normal`, or another approximation."
    )
