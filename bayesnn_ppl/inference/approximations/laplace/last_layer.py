"""Neural linear models: the exact posterior of the last layer on the features below it."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.arguments import readable, strict_switches
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, Point
from bayesnn_ppl.inference.approximations.curvature.selection import select
from bayesnn_ppl.inference.approximations.laplace.gaussian_at_mode import (
    Found,
    as_fitted,
    gaussian_around,
)
from bayesnn_ppl.inference.approximations.laplace.laplace import Laplace
from bayesnn_ppl.inference.approximations.trained_networks.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.trained_networks.starting_modes import check_mode
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.likelihoods.common.observed import base_distribution
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["LastLayer"]


@readable
@strict_switches
@dataclass(frozen=True)
class LastLayer:
    r"""Bayesian linear regression on the features of a trained network (neural linear).

    With features φ(x), a one appended to them, Gaussian noise σ and a normal prior N(μ₀, P₀⁻¹) on
    the last layer, its posterior given all other weights is N(θ̂, P⁻¹),

        P = P₀ + Σ_n φ_n φ_nᵀ / (T σ²),     P θ̂ = P₀ μ₀ + Σ_n φ_n y_n / (T σ²)

    exact wherever training left the last layer, and so is its evidence, log p(y) given the other
    weights and σ. T is the likelihood's temperature. Tuned prior precisions and noise maximise
    that evidence, with θ̂ following.

    Where the likelihood is not Gaussian in the last layer (classes, counts, a noise that is an
    output too) or the prior not normal, there is no such formula, and it is
    `Laplace(structure="full", layers="last")`, as its record says.

    Cost: one forward pass of all rows, and d³ for d weights of the last layer. It is blind to the
    uncertainty of the features: far from the data it may be as sure as between them.

    Args:
        model: a NumPyro model with one Flax Linen network.
        mode: settings of `MAP`, or the posterior of a fit of this model. None for `MAP()`.
        draws: how many.
        prior_precision: "fixed", "scalar", "layer" or "element", see `Laplace`.
        tune_noise: whether the scale of Gaussian noise is tuned.

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    References:
        Snoek et al. (2015), arXiv:1502.05700; Ober and Rasmussen (2019), arXiv:1912.08416.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> posterior = bnn.fit(
        ...     bnn.approximations.LastLayer(
        ...         bnn.models.mlp(hidden=(5,)), mode=bnn.approximations.MAP(epochs=20)),
        ...     *data.train, progress=False)
        >>> posterior.provenance["approximation"]["exact"]
        True
    """

    model: Model
    _: KW_ONLY
    mode: MAP | Posterior | None = None
    draws: int = 100
    prior_precision: str = "fixed"
    tune_noise: bool = False

    def __post_init__(self) -> None:
        check_mode(self.mode, "LastLayer")
        self._laplace()

    def _laplace(self) -> Laplace:
        return Laplace(
            self.model,
            structure="full",
            layers="last",
            mode=self.mode,
            draws=self.draws,
            prior_precision=self.prior_precision,
            tune_noise=self.tune_noise,
        )

    def solve(self, problem: Problem) -> Fitted:
        """Train the network, and take the posterior of its last layer; see `fit`."""
        found, exact = self.around(problem)
        # A model whose parameters are those of a linear layer is its own linearisation.
        predictive = "sampled" if exact else "linearised"
        return as_fitted(problem, found, draws=self.draws, predictive=predictive)

    def around(self, problem: Problem) -> tuple[Found, bool]:
        """The Gaussian of the last layer, and whether it is exact."""
        laplace = self._laplace()
        selection = select(problem, "last")
        exact = _is_conjugate(problem, selection.local)
        found = laplace.around(problem, recentre=exact)
        findings = found.findings
        if exact and not found.normal_prior:
            exact = False
            found = gaussian_around(problem, selection, found.mode, laplace.settings)
            findings = (*found.findings, Finding("remark", _NOT_NORMAL))
        return found._replace(record=found.record | {"exact": exact}, findings=findings), exact


_NOT_NORMAL = (
    "The prior of the last layer is not normal, so its posterior is a Laplace approximation."
)


def _is_conjugate(problem: Problem, local: LocalModel) -> bool:
    """Whether y is Gaussian with a mean linear in the last layer and a noise that is not its.

    Linearity is tried on random weights, where any other function shows itself.
    """
    if problem.summary.observed != "Normal" or local.parameters != (0,):
        return False
    generator = np.random.default_rng(0)
    rows = problem.x[: min(8, len(problem.x))]
    dtype = np.float64 if problem.float64 else np.float32
    fixed = {}
    for name, shape in problem.summary.latents.items():
        if name not in local.sites:
            weights = generator.normal(size=shape) / np.sqrt(max((1, *shape)))
            network = name in problem.summary.parameters
            fixed[name] = np.asarray(weights if network else np.ones(shape), dtype)
    one, other = (generator.normal(size=local.dimension).astype(dtype) for _ in range(2))
    point = Point(np.zeros(local.dimension, dtype), np.ones(local.dimension, dtype), fixed)
    sums = _means(local, point, rows, one, other)
    size = np.abs(np.asarray(sums[1])).max()
    return bool(np.abs(np.asarray(sums[0]) - np.asarray(sums[1])).max() <= 1e-3 * size)


@partial(jax.jit, static_argnames="local")
def _means(local: LocalModel, point: Point, x: Any, one: Any, other: Any) -> Any:
    """mean(a + b) and mean(a) + mean(b) - mean(0)."""

    def mean(vector: Any) -> Any:
        site = local.trace(vector, point.fixed, x)["y"]
        return jnp.broadcast_to(base_distribution(site["fn"]).loc, site["fn"].shape())

    origin = jnp.zeros_like(one)
    return mean(one + other), mean(one) + mean(other) - mean(origin)
